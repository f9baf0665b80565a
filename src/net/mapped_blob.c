/*
 * mapped_blob.c -- see mapped_blob.h.
 *
 * The net thread alone changes the reference count of a mapping. Once the
 * release queue is closed there is no net thread; the queue's lock then guards
 * the counts.
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

struct muster_release_queue {
    pthread_mutex_t lock;
    muster_mapped_blob *returned;
    muster_mapped_blob *spare;
    size_t outstanding; // mapped blobs that are not on `spare`
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

muster_release_queue *muster_release_queue_create(int wake_fd)
{
    muster_release_queue *queue = muster_mem_array(1, sizeof(*queue));
    if (queue == NULL) {
        return NULL;
    }
    if (pthread_mutex_init(&queue->lock, NULL) != 0) {
        muster_mem_free(queue);
        return NULL;
    }
    queue->wake_fd = wake_fd;
    return queue;
}

static void queue_free(muster_release_queue *queue)
{
    pthread_mutex_destroy(&queue->lock);
    muster_mem_free(queue);
}

void muster_release_queue_close(muster_release_queue *queue)
{
    if (queue == NULL) {
        return;
    }
    // One section: what comes back later finds it closed and frees itself.
    pthread_mutex_lock(&queue->lock);
    queue->closed = true;
    while (queue->returned != NULL) {
        muster_mapped_blob *mapped = queue->returned;
        queue->returned = mapped->next;
        muster_mapping_unref(mapped->mapping);
        muster_mem_free(mapped);
        queue->outstanding--;
    }
    while (queue->spare != NULL) {
        muster_mapped_blob *mapped = queue->spare;
        queue->spare = mapped->next;
        muster_mem_free(mapped);
    }
    bool last = queue->outstanding == 0;
    pthread_mutex_unlock(&queue->lock);
    if (last) {
        queue_free(queue);
    }
}

static void release_mapped(muster_blob *blob)
{
    muster_mapped_blob *mapped = (muster_mapped_blob *)blob; // its first member
    muster_release_queue *queue = mapped->queue;
    pthread_mutex_lock(&queue->lock);
    bool wake = false;
    bool last = false;
    if (queue->closed) {
        muster_mapping_unref(mapped->mapping);
        muster_mem_free(mapped);
        queue->outstanding--;
        last = queue->outstanding == 0;
    } else {
        mapped->next = queue->returned;
        queue->returned = mapped;
        wake = queue->sleeping;
        queue->sleeping = false;
        if (wake) {
            // Under the lock, as close() waits for it before it closes the fd.
            uint64_t one = 1;
            ssize_t written = write(queue->wake_fd, &one, sizeof(one));
            (void)written; // a full counter wakes just as well
        }
    }
    pthread_mutex_unlock(&queue->lock);
    if (last) {
        queue_free(queue);
    }
}

muster_blob *muster_release_queue_lend(muster_release_queue *queue,
                                       muster_mapping *mapping, size_t bytes,
                                       muster_peer peer, uint64_t sequence)
{
    MUSTER_ASSERT(bytes <= mapping->bytes);
    pthread_mutex_lock(&queue->lock);
    muster_mapped_blob *mapped = queue->spare;
    if (mapped != NULL) {
        queue->spare = mapped->next;
    }
    pthread_mutex_unlock(&queue->lock);
    if (mapped == NULL) {
        mapped = muster_mem_array(1, sizeof(*mapped));
    }
    if (mapped == NULL) {
        return NULL;
    }
    mapped->queue = queue;
    mapped->mapping = mapping;
    mapping->references++;
    mapped->peer = peer;
    mapped->sequence = sequence;
    muster_blob_init(&mapped->blob, mapping->data, bytes, release_mapped);
    pthread_mutex_lock(&queue->lock);
    queue->outstanding++;
    pthread_mutex_unlock(&queue->lock);
    return &mapped->blob;
}

muster_mapped_blob *muster_release_queue_collect(muster_release_queue *queue)
{
    pthread_mutex_lock(&queue->lock);
    muster_mapped_blob *list = queue->returned;
    queue->returned = NULL;
    pthread_mutex_unlock(&queue->lock);
    return list;
}

void muster_release_queue_recycle(muster_release_queue *queue,
                                  muster_mapped_blob *mapped)
{
    muster_mapping_unref(mapped->mapping);
    pthread_mutex_lock(&queue->lock);
    queue->outstanding--;
    mapped->next = queue->spare;
    queue->spare = mapped;
    pthread_mutex_unlock(&queue->lock);
}

bool muster_release_queue_sleep(muster_release_queue *queue)
{
    pthread_mutex_lock(&queue->lock);
    queue->sleeping = queue->returned == NULL;
    bool may = queue->sleeping;
    pthread_mutex_unlock(&queue->lock);
    return may;
}

void muster_release_queue_awake(muster_release_queue *queue)
{
    pthread_mutex_lock(&queue->lock);
    queue->sleeping = false;
    pthread_mutex_unlock(&queue->lock);
}
