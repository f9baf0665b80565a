/*
 * pool.c -- payload buffers, plain and shareable.
 *
 * Invariants, under `lock`:
 *  1. outstanding counts the buffers that are lent or on `victims`; free_bytes
 *     sums the capacities on the free lists.
 *  2. A retired segment is on no free list.
 *  3. After close() the free lists stay empty and a released buffer dies.
 */
#define _GNU_SOURCE
#include "net/pool.h"

#include <fcntl.h>
#include <linux/memfd.h>
#include <pthread.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/assert.h"
#include "base/mem.h"

#define CLASSES   256u // four an octave of size_t
#define PAGE      4096u
#define BYTES_MIN 256u

struct muster_pool {
    pthread_mutex_t lock;
    muster_segment *plain[CLASSES];
    muster_segment *shared[CLASSES];
    muster_segment *victims;
    size_t free_bytes;
    size_t outstanding;
    size_t segments; // open descriptors
    uint64_t next_id;
    bool closed;
    int wake_fd;
};

muster_pool *muster_pool_create(int wake_fd)
{
    muster_pool *pool = muster_mem_array(1, sizeof(*pool));
    if (pool == NULL) {
        return NULL;
    }
    if (pthread_mutex_init(&pool->lock, NULL) != 0) {
        muster_mem_free(pool);
        return NULL;
    }
    pool->next_id = 1;
    pool->wake_fd = wake_fd;
    return pool;
}

static void pool_free(muster_pool *pool)
{
    pthread_mutex_destroy(&pool->lock);
    muster_mem_free(pool);
}

/* Return a buffer's memory to the system; touches no pool state. */
static void buffer_free(muster_segment *buffer)
{
    if (buffer->fd >= 0) {
        munmap(buffer->blob.data, buffer->capacity);
        close(buffer->fd);
    } else {
        muster_mem_free(buffer->blob.data);
    }
    muster_mem_free(buffer);
}

static size_t list_free(muster_segment **list)
{
    size_t count = 0;
    for (; *list != NULL; count++) {
        muster_segment *buffer = *list;
        *list = buffer->next;
        buffer_free(buffer);
    }
    return count;
}

void muster_pool_close(muster_pool *pool)
{
    if (pool == NULL) {
        return;
    }
    // One section: what comes back later finds it closed and frees itself.
    pthread_mutex_lock(&pool->lock);
    pool->closed = true;
    pool->outstanding -= list_free(&pool->victims);
    for (unsigned i = 0; i < CLASSES; i++) {
        (void)list_free(&pool->plain[i]);
        (void)list_free(&pool->shared[i]);
    }
    bool last = pool->outstanding == 0;
    pthread_mutex_unlock(&pool->lock);
    if (last) {
        pool_free(pool);
    }
}

/* Round up to a quarter of the power of two below; the class counts quarters
 * from there, so that every capacity has its own class. */
static unsigned size_class(size_t bytes, size_t *capacity_out)
{
    if (bytes <= BYTES_MIN) {
        *capacity_out = BYTES_MIN;
        return 0;
    }
    unsigned top = 63u - (unsigned)__builtin_clzll((uint64_t)bytes - 1);
    size_t quarter = (size_t)1 << (top - 2);
    size_t quarters = (bytes + quarter - 1) / quarter; // 5..8
    *capacity_out = quarters * quarter;
    return 4 * top + (unsigned)(quarters - 5);
}

static void buffer_release(muster_blob *blob)
{
    muster_segment *buffer = (muster_segment *)blob; // its first member
    muster_pool *pool = buffer->pool;
    pthread_mutex_lock(&pool->lock);
    size_t limit = 2 * buffer->capacity > MUSTER_POOL_FREE_BYTES
                       ? 2 * buffer->capacity
                       : MUSTER_POOL_FREE_BYTES;
    bool keep = !pool->closed && !buffer->retired &&
                pool->free_bytes + buffer->capacity <= limit;
    if (keep) {
        muster_segment **list = buffer->fd >= 0 ? pool->shared : pool->plain;
        buffer->next = list[buffer->size_class];
        list[buffer->size_class] = buffer;
        pool->free_bytes += buffer->capacity;
    } else if (buffer->fd >= 0 && !pool->closed) {
        // The peers that have it mapped must hear of it from the net thread,
        // which may be asleep. Under the lock, so that the fd is still open.
        buffer->next = pool->victims;
        pool->victims = buffer;
        uint64_t one = 1;
        ssize_t written = write(pool->wake_fd, &one, sizeof(one));
        (void)written; // a full counter wakes just as well
        pthread_mutex_unlock(&pool->lock);
        return;
    }
    pool->outstanding--;
    bool last = pool->closed && pool->outstanding == 0;
    pthread_mutex_unlock(&pool->lock);
    if (!keep) {
        buffer_free(buffer);
    }
    if (last) {
        pool_free(pool);
    }
}

/* A mapped memfd that can neither shrink (a reader would die of SIGBUS) nor,
 * where the kernel knows how, be mapped for writing by anyone else. The pages
 * are put in place at once: faulting them in one by one costs more. */
static void *segment_map(size_t capacity, int *fd_out)
{
    int fd = memfd_create("muster-payload", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    if (fd < 0) {
        return NULL;
    }
    void *data = MAP_FAILED;
    if (ftruncate(fd, (off_t)capacity) == 0) {
        data = mmap(NULL, capacity, PROT_READ | PROT_WRITE,
                    MAP_SHARED | MAP_POPULATE, fd, 0);
    }
    if (data == MAP_FAILED) {
        close(fd);
        return NULL;
    }
    (void)fcntl(fd, F_ADD_SEALS, F_SEAL_FUTURE_WRITE);
    if (fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) !=
        0) {
        munmap(data, capacity);
        close(fd);
        return NULL;
    }
    *fd_out = fd;
    return data;
}

/* A fresh buffer outside the lock; a segment falls back to plain memory. */
static muster_segment *buffer_create(muster_pool *pool, size_t capacity,
                                     bool shareable)
{
    muster_segment *buffer = muster_mem_array(1, sizeof(*buffer));
    if (buffer == NULL) {
        return NULL;
    }
    buffer->pool = pool;
    buffer->capacity = capacity;
    buffer->fd = -1;
    if (shareable) {
        buffer->blob.data = segment_map(capacity, &buffer->fd);
    }
    if (buffer->blob.data == NULL) {
        buffer->blob.data = muster_mem_raw_aligned(capacity, 1);
    }
    if (buffer->blob.data == NULL) {
        muster_mem_free(buffer);
        return NULL;
    }
    return buffer;
}

/* Pop a free buffer of this class, or count one more that the caller is going
 * to make. *shareable_inout turns false when no more descriptors are wanted. */
static muster_segment *pop_or_reserve(muster_pool *pool, unsigned class_index,
                                      bool *shareable_inout, uint64_t *id_out)
{
    pthread_mutex_lock(&pool->lock);
    muster_segment **list =
        (*shareable_inout ? pool->shared : pool->plain) + class_index;
    muster_segment *buffer = *list;
    pool->outstanding++;
    if (buffer != NULL) {
        *list = buffer->next;
        pool->free_bytes -= buffer->capacity;
    } else if (*shareable_inout && pool->segments < MUSTER_POOL_SEGMENTS) {
        pool->segments++;
        *id_out = pool->next_id++;
    } else {
        *shareable_inout = false;
    }
    pthread_mutex_unlock(&pool->lock);
    return buffer;
}

muster_blob *muster_pool_take(muster_pool *pool, size_t bytes, bool shareable)
{
    size_t capacity = 0;
    if (bytes > SIZE_MAX / 4) {
        return NULL;
    }
    unsigned class_index = size_class(bytes, &capacity);
    bool wants_segment = shareable && capacity % PAGE == 0;
    uint64_t id = 0;
    muster_segment *buffer =
        pop_or_reserve(pool, class_index, &wants_segment, &id);
    if (buffer == NULL) {
        buffer = buffer_create(pool, capacity, wants_segment);
        bool no_segment = buffer == NULL || buffer->fd < 0;
        if (buffer == NULL || (wants_segment && no_segment)) {
            pthread_mutex_lock(&pool->lock);
            pool->outstanding -= buffer == NULL;
            pool->segments -= wants_segment && no_segment;
            pthread_mutex_unlock(&pool->lock);
        }
        if (buffer == NULL) {
            return NULL;
        }
        buffer->size_class = class_index;
        buffer->id = no_segment ? 0 : id;
    }
    muster_blob_init(&buffer->blob, buffer->blob.data, bytes, buffer_release);
    return &buffer->blob;
}

muster_segment *muster_pool_segment(const muster_pool *pool, muster_blob *blob)
{
    if (blob == NULL || blob->release != buffer_release) {
        return NULL;
    }
    muster_segment *buffer = (muster_segment *)blob;
    return buffer->fd >= 0 && buffer->pool == pool ? buffer : NULL;
}

void muster_pool_retire(muster_segment *segment)
{
    pthread_mutex_lock(&segment->pool->lock);
    segment->retired = true;
    pthread_mutex_unlock(&segment->pool->lock);
}

muster_segment *muster_pool_victim(muster_pool *pool)
{
    pthread_mutex_lock(&pool->lock);
    muster_segment *victim = pool->victims;
    if (victim != NULL) {
        pool->victims = victim->next;
    }
    pthread_mutex_unlock(&pool->lock);
    return victim;
}

void muster_segment_destroy(muster_segment *segment)
{
    muster_pool *pool = segment->pool;
    pthread_mutex_lock(&pool->lock);
    MUSTER_ASSERT(pool->outstanding > 0 && pool->segments > 0);
    pool->outstanding--;
    pool->segments--;
    pthread_mutex_unlock(&pool->lock);
    buffer_free(segment);
}
