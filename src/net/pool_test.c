/*
 * pool_test.c -- payload buffers: reuse, bounds, retirement, and outliving the
 * pool. Run under AddressSanitizer it also proves that nothing leaks.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/mem.h"
#include "net/pool.h"

static void buffers_fit_and_are_lent_again(void **state)
{
    (void)state;
    muster_pool *pool = muster_pool_create(-1);
    for (size_t bytes = 0; bytes < 3000000; bytes = bytes * 5 / 4 + 1) {
        for (int shareable = 0; shareable < 2; shareable++) {
            muster_blob *first = muster_pool_take(pool, bytes, shareable);
            assert_non_null(first);
            assert_int_equal(first->bytes, bytes);
            assert_int_equal((uintptr_t)first->data % 64, 0);
            memset(first->data, 1, bytes);
            void *data = first->data;
            muster_blob_unref(first);
            muster_blob *second = muster_pool_take(pool, bytes, shareable);
            assert_ptr_equal(second->data, data);
            muster_blob_unref(second);
        }
    }
    muster_pool_close(pool);
}

static void segments_are_sealed(void **state)
{
    (void)state;
    muster_pool *pool = muster_pool_create(-1);
    muster_blob *blob = muster_pool_take(pool, 100000, true);
    muster_segment *segment = muster_pool_segment(pool, blob);
    assert_non_null(segment);
    int seals = fcntl(segment->fd, F_GET_SEALS);
    int wanted = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL;
    assert_int_equal(seals & wanted, wanted);
    muster_blob *plain = muster_pool_take(pool, 100000, false);
    assert_null(muster_pool_segment(pool, plain));
    muster_blob *heap = muster_blob_create(10);
    assert_null(muster_pool_segment(pool, heap));
    assert_null(muster_pool_segment(pool, NULL));
    muster_blob_unref(heap);
    muster_blob_unref(plain);
    muster_blob_unref(blob);
    muster_pool_close(pool);
}

static void a_retired_segment_is_not_lent_again(void **state)
{
    (void)state;
    int wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    muster_pool *pool = muster_pool_create(wake_fd);
    muster_blob *blob = muster_pool_take(pool, 100000, true);
    muster_segment *segment = muster_pool_segment(pool, blob);
    uint64_t id = segment->id;
    muster_pool_retire(segment);
    assert_null(muster_pool_victim(pool));
    uint64_t wakes = 0;
    assert_int_equal(read(wake_fd, &wakes, sizeof(wakes)), -1);
    muster_blob_unref(blob);
    assert_int_equal(read(wake_fd, &wakes, sizeof(wakes)), sizeof(wakes));
    muster_blob *other = muster_pool_take(pool, 100000, true);
    assert_int_not_equal(muster_pool_segment(pool, other)->id, id);
    muster_segment *victim = muster_pool_victim(pool);
    assert_ptr_equal(victim, segment);
    muster_segment_destroy(victim);
    muster_blob_unref(other);
    muster_pool_close(pool);
    close(wake_fd);
}

static void beyond_the_bound_memory_is_plain(void **state)
{
    (void)state;
    static muster_blob *blobs[MUSTER_POOL_SEGMENTS + 5];
    muster_pool *pool = muster_pool_create(-1);
    size_t shared = 0;
    for (size_t i = 0; i < MUSTER_POOL_SEGMENTS + 5; i++) {
        blobs[i] = muster_pool_take(pool, 65536, true);
        assert_non_null(blobs[i]);
        shared += muster_pool_segment(pool, blobs[i]) != NULL;
    }
    assert_int_equal(shared, MUSTER_POOL_SEGMENTS);
    for (size_t i = 0; i < MUSTER_POOL_SEGMENTS + 5; i++) {
        muster_blob_unref(blobs[i]);
    }
    muster_pool_close(pool);
}

static void what_is_unused_is_bounded(void **state)
{
    (void)state;
    enum { LARGE = 5 }; // of which four fill the bound
    muster_pool *pool = muster_pool_create(-1);
    muster_blob *blobs[LARGE];
    for (int i = 0; i < LARGE; i++) {
        blobs[i] = muster_pool_take(pool, MUSTER_POOL_FREE_BYTES / 4, true);
        assert_non_null(blobs[i]);
    }
    for (int i = 0; i < LARGE; i++) {
        muster_blob_unref(blobs[i]);
    }
    muster_segment *victim = muster_pool_victim(pool);
    assert_non_null(victim);
    assert_null(muster_pool_victim(pool));
    muster_segment_destroy(victim);
    muster_pool_close(pool);
}

static void buffers_outlive_the_pool(void **state)
{
    (void)state;
    muster_pool *pool = muster_pool_create(-1);
    muster_blob *shared = muster_pool_take(pool, 100000, true);
    muster_blob *plain = muster_pool_take(pool, 1000, false);
    muster_pool_close(pool);
    memset(shared->data, 1, shared->bytes);
    memset(plain->data, 1, plain->bytes);
    muster_blob_unref(shared);
    muster_blob_unref(plain);
}

enum { RACERS = 32 };

typedef struct race {
    pthread_barrier_t start;
    muster_blob *blobs[RACERS];
} race;

static void *unref_racers(void *argument)
{
    race *it = argument;
    pthread_barrier_wait(&it->start);
    for (int i = 0; i < RACERS; i++) {
        muster_blob_unref(it->blobs[i]);
        sched_yield(); // so that close() gets between
    }
    return NULL;
}

static int next_descriptor(void)
{
    int fd = dup(STDIN_FILENO);
    assert_true(fd >= 0);
    close(fd);
    return fd;
}

/* A segment that got away would keep its descriptor. */
static void nothing_gets_away_while_the_pool_closes(void **state)
{
    (void)state;
    int before = next_descriptor();
    for (int round = 0; round < 50; round++) {
        race it;
        muster_pool *pool = muster_pool_create(-1);
        for (int i = 0; i < RACERS; i++) {
            it.blobs[i] = muster_pool_take(pool, 65536, true);
            muster_pool_retire(muster_pool_segment(pool, it.blobs[i]));
        }
        pthread_t thread;
        pthread_barrier_init(&it.start, NULL, 2);
        assert_int_equal(pthread_create(&thread, NULL, unref_racers, &it), 0);
        pthread_barrier_wait(&it.start);
        muster_pool_close(pool);
        pthread_join(thread, NULL);
        pthread_barrier_destroy(&it.start);
    }
    assert_int_equal(next_descriptor(), before);
}

static void no_memory_is_no_buffer(void **state)
{
    (void)state;
    muster_pool *pool = muster_pool_create(-1);
    for (uint64_t allowed = 0; allowed < 2; allowed++) {
        muster_mem_fail_after(allowed);
        assert_null(muster_pool_take(pool, 1000, false));
        muster_mem_fail_after(UINT64_MAX);
    }
    assert_null(muster_pool_take(pool, SIZE_MAX - 1, true));
    muster_mem_fail_after(0);
    assert_null(muster_pool_create(-1));
    muster_mem_fail_after(UINT64_MAX);
    muster_pool_close(pool);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(buffers_fit_and_are_lent_again),
        cmocka_unit_test(segments_are_sealed),
        cmocka_unit_test(a_retired_segment_is_not_lent_again),
        cmocka_unit_test(beyond_the_bound_memory_is_plain),
        cmocka_unit_test(what_is_unused_is_bounded),
        cmocka_unit_test(buffers_outlive_the_pool),
        cmocka_unit_test(nothing_gets_away_while_the_pool_closes),
        cmocka_unit_test(no_memory_is_no_buffer),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
