/*
 * batch_test.c -- the batch rule: every epoch visits every sample exactly once,
 * pieces of a batch are the batch, and the twin that follows the definition
 * word by word agrees.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/perm.h"
#include "base/rng.h"
#include "data/batch.h"

static uint32_t sample_at(const muster_batch *batch, uint64_t position)
{
    muster_perm perm = muster_perm_make(batch->seed, position / batch->samples,
                                        batch->samples);
    return (uint32_t)muster_perm_at(&perm, position % batch->samples);
}

static void batches_follow_the_definition(void **state)
{
    (void)state;
    muster_rng rng = muster_rng_make(5, 5);
    for (int round = 0; round < 200; round++) {
        muster_batch batch = {.seed = muster_rng_next(&rng),
                              .samples = 1 + muster_rng_below(&rng, 100),
                              .size = 1 + muster_rng_below(&rng, 250)};
        if (batch.size == batch.samples) {
            continue;
        }
        uint64_t step = muster_rng_below(&rng, 1000);
        uint32_t drawn[250];
        muster_batch_draw(&batch, step, 0, batch.size, drawn);
        for (uint64_t i = 0; i < batch.size; i++) {
            assert_int_equal(drawn[i],
                             sample_at(&batch, step * batch.size + i));
        }
    }
}

static void every_epoch_visits_every_sample_once(void **state)
{
    (void)state;
    enum { SAMPLES = 101, SIZE = 7, EPOCHS = 7 };
    muster_batch batch = {.seed = 9, .samples = SAMPLES, .size = SIZE};
    unsigned visits[EPOCHS][SAMPLES];
    memset(visits, 0, sizeof(visits));
    for (uint64_t step = 0; step < SAMPLES * EPOCHS / SIZE; step++) {
        uint32_t drawn[SIZE];
        muster_batch_draw(&batch, step, 0, SIZE, drawn);
        for (uint64_t i = 0; i < SIZE; i++) {
            visits[(step * SIZE + i) / SAMPLES][drawn[i]]++;
        }
    }
    for (int e = 0; e < EPOCHS; e++) {
        for (int s = 0; s < SAMPLES; s++) {
            assert_int_equal(visits[e][s], 1);
        }
    }
}

static void a_batch_drawn_in_pieces_is_the_same(void **state)
{
    (void)state;
    muster_batch batch = {.seed = 3, .samples = 1000, .size = 300};
    uint32_t whole[300];
    uint32_t pieces[300];
    for (uint64_t step = 0; step < 10; step++) {
        muster_batch_draw(&batch, step, 0, 300, whole);
        for (uint64_t first = 0; first < 300; first += 37) {
            uint64_t count = 300 - first < 37 ? 300 - first : 37;
            muster_batch_draw(&batch, step, first, count, pieces + first);
        }
        assert_memory_equal(whole, pieces, sizeof(whole));
    }
}

static void a_full_batch_is_every_sample_in_order(void **state)
{
    (void)state;
    muster_batch batch = {.seed = 3, .samples = 20, .size = 20};
    uint32_t drawn[20];
    for (uint64_t step = 0; step < 3; step++) {
        muster_batch_draw(&batch, step, 0, 20, drawn);
        for (uint32_t i = 0; i < 20; i++) {
            assert_int_equal(drawn[i], i);
        }
    }
}

static void seeds_and_epochs_shuffle_differently(void **state)
{
    (void)state;
    uint32_t a[500];
    uint32_t b[500];
    muster_batch one = {.seed = 1, .samples = 1000, .size = 500};
    muster_batch two = {.seed = 2, .samples = 1000, .size = 500};
    muster_batch_draw(&one, 0, 0, 500, a);
    muster_batch_draw(&two, 0, 0, 500, b);
    assert_memory_not_equal(a, b, sizeof(a));
    muster_batch_draw(&one, 2, 0, 500, b); // the first half of epoch 1
    assert_memory_not_equal(a, b, sizeof(a));
}

static void steps_cover_the_epochs(void **state)
{
    (void)state;
    muster_batch batch = {.samples = 60000, .size = 600};
    assert_int_equal(muster_batch_steps(&batch, 15), 1500);
    assert_int_equal(muster_batch_steps(&batch, 0), 0);
    assert_int_equal(muster_batch_steps(&batch, 0.1), 10);
    batch.size = 601;
    assert_int_equal(muster_batch_steps(&batch, 1), 100);
    batch.size = 599;
    assert_int_equal(muster_batch_steps(&batch, 1), 101);
    batch = (muster_batch){.samples = 30, .size = 1};
    assert_int_equal(muster_batch_steps(&batch, 0.1), 3);
    assert_int_equal(muster_batch_steps(&batch, 1e-3), 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(batches_follow_the_definition),
        cmocka_unit_test(every_epoch_visits_every_sample_once),
        cmocka_unit_test(a_batch_drawn_in_pieces_is_the_same),
        cmocka_unit_test(a_full_batch_is_every_sample_in_order),
        cmocka_unit_test(seeds_and_epochs_shuffle_differently),
        cmocka_unit_test(steps_cover_the_epochs),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
