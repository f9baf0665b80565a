/*
 * mapped_blob.c -- a peer's segments mapped here, and the way back of their blobs.
 *
 * A mapping's reference count belongs to the net thread; once the mailbox is
 * closed there is no net thread, and it belongs to whoever holds the lock.
 */
#define _GNU_SOURCE
#include "net/mapped_blob.h"

#include <fcntl.h>
#include <pthread.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/assert.h"
#include "base/error.h"
#include "base/mem.h"

struct muster_mailbox {
    pthread_mutex_t lock;
    muster_lent *returned;
    muster_lent *spare;
    size_t outstanding; // lent blobs that are not on `spare`
    bool sleeping;
    bool closed;
    int wake_fd;
};

muster_status muster_mapping_create(int fd, uint64_t bytes_max,
                                    muster_error *error_out,
                                    muster_mapping **mapping_out)
{
    struct stat info;
    int seals = fcntl(fd, F_GET_SEALS);
    if (seals < 0 || (seals & F_SEAL_SHRINK) == 0 || fstat(fd, &info) != 0 ||
        info.st_size <= 0 || (uint64_t)info.st_size > bytes_max) {
        return muster_error_set(error_out, MUSTER_ERR_PROTOCOL,
                                "a descriptor that is not a sealed buffer of "
                                "at most %llu bytes",
                                (unsigned long long)bytes_max);
    }
    muster_mapping *mapping = muster_mem_array(1, sizeof(*mapping));
    if (mapping == NULL) {
        return muster_error_set(error_out, MUSTER_ERR_NO_MEMORY,
                                "out of memory");
    }
    size_t bytes = (size_t)info.st_size;
    // Not populated: a file of holes would cost us memory before anybody reads.
    void *data = mmap(NULL, bytes, PROT_READ, MAP_SHARED, fd, 0);
    if (data == MAP_FAILED) {
        muster_mem_free(mapping);
        return muster_error_set(error_out, MUSTER_ERR_NO_MEMORY,
                                "cannot map a buffer of %zu bytes", bytes);
    }
    *mapping = (muster_mapping){data, bytes, 1};
    *mapping_out = mapping;
    return MUSTER_OK;
}

void muster_mapping_unref(muster_mapping *mapping)
{
    if (mapping == NULL) {
        return;
    }
    MUSTER_ASSERT(mapping->references > 0);
    mapping->references--;
    if (mapping->references == 0) {
        munmap(mapping->data, mapping->bytes);
        muster_mem_free(mapping);
    }
}

muster_mailbox *muster_mailbox_create(int wake_fd)
{
    muster_mailbox *mailbox = muster_mem_array(1, sizeof(*mailbox));
    if (mailbox == NULL) {
        return NULL;
    }
    if (pthread_mutex_init(&mailbox->lock, NULL) != 0) {
        muster_mem_free(mailbox);
        return NULL;
    }
    mailbox->wake_fd = wake_fd;
    return mailbox;
}

static void mailbox_free(muster_mailbox *mailbox)
{
    pthread_mutex_destroy(&mailbox->lock);
    muster_mem_free(mailbox);
}

void muster_mailbox_close(muster_mailbox *mailbox)
{
    if (mailbox == NULL) {
        return;
    }
    // One section: what comes back later finds it closed and frees itself.
    pthread_mutex_lock(&mailbox->lock);
    mailbox->closed = true;
    while (mailbox->returned != NULL) {
        muster_lent *lent = mailbox->returned;
        mailbox->returned = lent->next;
        muster_mapping_unref(lent->mapping);
        muster_mem_free(lent);
        mailbox->outstanding--;
    }
    while (mailbox->spare != NULL) {
        muster_lent *lent = mailbox->spare;
        mailbox->spare = lent->next;
        muster_mem_free(lent);
    }
    bool last = mailbox->outstanding == 0;
    pthread_mutex_unlock(&mailbox->lock);
    if (last) {
        mailbox_free(mailbox);
    }
}

static void lent_release(muster_blob *blob)
{
    muster_lent *lent = (muster_lent *)blob; // its first member
    muster_mailbox *mailbox = lent->mailbox;
    pthread_mutex_lock(&mailbox->lock);
    bool wake = false;
    bool last = false;
    if (mailbox->closed) {
        muster_mapping_unref(lent->mapping);
        muster_mem_free(lent);
        mailbox->outstanding--;
        last = mailbox->outstanding == 0;
    } else {
        lent->next = mailbox->returned;
        mailbox->returned = lent;
        wake = mailbox->sleeping;
        mailbox->sleeping = false;
        if (wake) {
            // Under the lock, as close() waits for it before it closes the fd.
            uint64_t one = 1;
            ssize_t written = write(mailbox->wake_fd, &one, sizeof(one));
            (void)written; // a full counter wakes just as well
        }
    }
    pthread_mutex_unlock(&mailbox->lock);
    if (last) {
        mailbox_free(mailbox);
    }
}

muster_blob *muster_mailbox_lend(muster_mailbox *mailbox,
                                 muster_mapping *mapping, size_t bytes,
                                 muster_peer peer, uint64_t sequence)
{
    MUSTER_ASSERT(bytes <= mapping->bytes);
    pthread_mutex_lock(&mailbox->lock);
    muster_lent *lent = mailbox->spare;
    if (lent != NULL) {
        mailbox->spare = lent->next;
    }
    pthread_mutex_unlock(&mailbox->lock);
    if (lent == NULL) {
        lent = muster_mem_array(1, sizeof(*lent));
    }
    if (lent == NULL) {
        return NULL;
    }
    lent->mailbox = mailbox;
    lent->mapping = mapping;
    mapping->references++;
    lent->peer = peer;
    lent->sequence = sequence;
    muster_blob_init(&lent->blob, mapping->data, bytes, lent_release);
    pthread_mutex_lock(&mailbox->lock);
    mailbox->outstanding++;
    pthread_mutex_unlock(&mailbox->lock);
    return &lent->blob;
}

muster_lent *muster_mailbox_collect(muster_mailbox *mailbox)
{
    pthread_mutex_lock(&mailbox->lock);
    muster_lent *list = mailbox->returned;
    mailbox->returned = NULL;
    pthread_mutex_unlock(&mailbox->lock);
    return list;
}

void muster_mailbox_recycle(muster_mailbox *mailbox, muster_lent *lent)
{
    muster_mapping_unref(lent->mapping);
    pthread_mutex_lock(&mailbox->lock);
    mailbox->outstanding--;
    lent->next = mailbox->spare;
    mailbox->spare = lent;
    pthread_mutex_unlock(&mailbox->lock);
}

bool muster_mailbox_sleep(muster_mailbox *mailbox)
{
    pthread_mutex_lock(&mailbox->lock);
    mailbox->sleeping = mailbox->returned == NULL;
    bool may = mailbox->sleeping;
    pthread_mutex_unlock(&mailbox->lock);
    return may;
}

void muster_mailbox_awake(muster_mailbox *mailbox)
{
    pthread_mutex_lock(&mailbox->lock);
    mailbox->sleeping = false;
    pthread_mutex_unlock(&mailbox->lock);
}
