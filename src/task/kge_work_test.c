/*
 * kge_work_test.c -- an epoch's triples, samples and rates are the same for any
 * number of workers: shares are groups of one order, and what is drawn belongs
 * to a group. Or shares are pieces of the file.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "task/kge.h"

enum {
    DIM = 4,
    NAMED = 20, // entities that triples name
    ENTITIES = 5000,
    TRIPLES_MAX = 200,
    NEGATIVES = 2
};

typedef struct world {
    muster_kge k;
    muster_triple triples[TRIPLES_MAX]; // each with a relation of its own
    muster_ps *ps;
    muster_ps_worker *workers[2];
} world;

static void add_table(muster_ps *ps, uint32_t keys)
{
    muster_error error;
    uint32_t number;
    muster_ps_table_opts opts = MUSTER_PS_TABLE_OPTS_INIT;
    opts.keys = keys;
    opts.width = DIM;
    opts.optimizer = MUSTER_PS_ADAGRAD;
    opts.init = MUSTER_PS_NORMAL;
    opts.scale = 0.1f;
    assert_int_equal(muster_ps_table_add(ps, &opts, &error, &number),
                     MUSTER_OK);
}

static void make(world *w, uint32_t triples, uint32_t share, uint32_t order)
{
    muster_error error;
    muster_ps_opts opts = MUSTER_PS_OPTS_INIT;
    muster_ps_distribution_opts uniform = MUSTER_PS_DISTRIBUTION_OPTS_INIT;
    memset(w, 0, sizeof(*w));
    w->k.model = MUSTER_KGE_COMPLEX;
    w->k.options = (muster_kge_options){.dim = DIM,
                                        .negatives = NEGATIVES,
                                        .share = share,
                                        .loss = MUSTER_KGE_LOGISTIC,
                                        .order = order,
                                        .warmup = 1.5,
                                        .decay = 0.5};
    w->k.rate = 0.1;
    w->k.seed = 5;
    w->k.triples.entities = ENTITIES;
    w->k.triples.relations = triples;
    w->k.triples.set[MUSTER_TRIPLES_TRAIN] = w->triples;
    w->k.triples.count[MUSTER_TRIPLES_TRAIN] = triples;
    for (uint32_t i = 0; i < triples; i++) {
        w->triples[i] = (muster_triple){i % NAMED, i, (i + 1 + i / 7) % NAMED};
    }
    assert_int_equal(muster_ps_create(&opts, &error, &w->ps), MUSTER_OK);
    add_table(w->ps, ENTITIES);
    add_table(w->ps, triples);
    uniform.table = MUSTER_KGE_ENTITIES;
    assert_int_equal(
        muster_ps_distribution_add(w->ps, &uniform, &error, &w->k.distribution),
        MUSTER_OK);
    for (int i = 0; i < 2; i++) {
        assert_int_equal(muster_ps_worker_create(w->ps, NULL, &w->workers[i]),
                         MUSTER_OK);
    }
}

static void end(world *w)
{
    muster_ps_worker_free(w->workers[0]);
    muster_ps_worker_free(w->workers[1]);
    muster_ps_free(w->ps);
}

static double work(world *w, int worker, uint32_t epoch, const uint32_t *part)
{
    _Atomic uint64_t done = 0;
    const _Atomic uint32_t stop = 0;
    muster_task_sums sums = {0};
    muster_task_share share = {.part = part[0],
                               .parts = part[1],
                               .epoch = epoch,
                               .done = &done,
                               .stop = &stop};
    assert_int_equal(muster_kge_work(&w->k, w->workers[worker], &share, &sums),
                     MUSTER_OK);
    assert_true(sums.value[MUSTER_KGE_SUM_QUESTIONS] == 2.0 * (double)done);
    return (double)done;
}

static void rows_of(world *w, uint32_t table, uint32_t keys, float *rows_out)
{
    for (uint32_t key = 0; key < keys; key++) {
        assert_int_equal(muster_ps_pull(w->workers[0], table, &key, 1,
                                        rows_out + (size_t)key * DIM),
                         MUSTER_OK);
    }
}

/* As many triples as there are, and every relation has moved: each was had
 * exactly once. */
static void shares_are_all_triples_once(void **state)
{
    static world w;
    static float before[TRIPLES_MAX * DIM];
    static float after[TRIPLES_MAX * DIM];
    static const uint32_t counts[] = {1, 31, 32, 33, 64, 100, 200};
    (void)state;
    for (uint32_t i = 0; i < 7 * 4; i++) {
        uint32_t triples = counts[i / 4];
        for (uint32_t parts = 1; parts < 9; parts++) {
            double done = 0;
            make(&w, triples, i % 2 == 0 ? 1 : 10, i / 2 % 2);
            rows_of(&w, MUSTER_KGE_RELATIONS, triples, before);
            for (uint32_t part = 0; part < parts; part++) {
                done += work(&w, (int)(part % 2), 0,
                             (const uint32_t[]){part, parts});
            }
            rows_of(&w, MUSTER_KGE_RELATIONS, triples, after);
            assert_true(done == (double)triples);
            for (uint32_t r = 0; r < triples; r++) {
                assert_memory_not_equal(before + (size_t)r * DIM,
                                        after + (size_t)r * DIM,
                                        DIM * sizeof(float));
            }
            end(&w);
        }
    }
}

/* Two epochs by one worker, and the second by another one: as after a resume,
 * or after the loss of a node. */
static void an_epoch_is_the_same_whoever_works(void **state)
{
    static world w;
    static float rows[2][ENTITIES * DIM];
    static const uint32_t whole[2] = {0, 1};
    (void)state;
    for (uint32_t share = 1; share <= 10; share += 9) {
        for (int other = 0; other < 2; other++) {
            make(&w, 100, share, MUSTER_KGE_SHARED);
            (void)work(&w, 0, 0, whole);
            (void)work(&w, other, 1, whole);
            rows_of(&w, MUSTER_KGE_ENTITIES, ENTITIES, rows[other]);
            end(&w);
        }
        assert_memory_equal(rows[0], rows[1], sizeof(rows[0]));
    }
}

/* With as many parts as groups, one part after the other is what one worker
 * does: the same triples, samples and rates. */
static void many_parts_do_what_one_does(void **state)
{
    static world w;
    static float rows[2][ENTITIES * DIM];
    (void)state;
    for (uint32_t share = 1; share <= 10; share += 9) {
        const uint32_t groups = share == 1 ? 4 : 10; // of 32, or of 10
        for (uint32_t run = 0; run < 2; run++) {
            uint32_t parts = run == 0 ? 1 : groups;
            make(&w, 100, share, MUSTER_KGE_SHARED);
            for (uint32_t i = 0; i < 2 * parts; i++) {
                (void)work(&w, (int)(i % 2), i / parts,
                           (const uint32_t[]){i % parts, parts});
            }
            rows_of(&w, MUSTER_KGE_ENTITIES, ENTITIES, rows[run]);
            end(&w);
        }
        assert_memory_equal(rows[0], rows[1], sizeof(rows[0]));
    }
}

/* The second of four parts has triples 25 to 49, and no others. */
static void pieces_are_of_the_file(void **state)
{
    static world w;
    static float before[TRIPLES_MAX * DIM];
    static float after[TRIPLES_MAX * DIM];
    (void)state;
    make(&w, 100, 1, MUSTER_KGE_FILE);
    rows_of(&w, MUSTER_KGE_RELATIONS, 100, before);
    assert_true(work(&w, 0, 0, (const uint32_t[]){1, 4}) == 25);
    rows_of(&w, MUSTER_KGE_RELATIONS, 100, after);
    for (uint32_t r = 0; r < 100; r++) {
        bool moved = memcmp(before + (size_t)r * DIM, after + (size_t)r * DIM,
                            DIM * sizeof(float)) != 0;
        assert_int_equal(moved, r >= 25 && r < 50);
    }
    end(&w);
}

/* No two groups of any epoch and part draw the same. */
static void places_of_groups_are_all_different(void **state)
{
    static world w;
    static uint64_t seen[2 * 3 * 100];
    (void)state;
    for (uint32_t order = 0; order < 2; order++) {
        size_t count = 0;
        make(&w, 100, 1, order);
        for (uint32_t i = 0; i < 2 * 3; i++) {
            muster_task_share share = {
                .part = i % 3, .parts = 3, .epoch = i / 3};
            muster_kge_order o = muster_kge_order_make(&w.k, &share, 7);
            for (uint64_t at = 0; at < o.count; at += o.group) {
                seen[count] = muster_kge_order_place(&o, at);
                for (size_t j = 0; j < count; j++) {
                    assert_true(seen[j] != seen[count]);
                }
                count++;
            }
        }
        assert_true(count >= 30);
        end(&w);
    }
}

static uint32_t rows_apart(const float *a, const float *b)
{
    uint32_t apart = 0;
    for (size_t r = 0; r < ENTITIES; r++) {
        apart += memcmp(a + r * DIM, b + r * DIM, DIM * sizeof(float)) != 0;
    }
    return apart;
}

/* 800 samples an epoch of 5000 entities: were they the same in every group,
 * 128 of them would be different, and no new ones in the second epoch. */
static void groups_and_epochs_have_samples_of_their_own(void **state)
{
    static world w;
    static float rows[2][ENTITIES * DIM];
    static const uint32_t whole[2] = {0, 1};
    (void)state;
    make(&w, TRIPLES_MAX, 1, MUSTER_KGE_SHARED);
    rows_of(&w, MUSTER_KGE_ENTITIES, ENTITIES, rows[0]);
    (void)work(&w, 0, 0, whole);
    rows_of(&w, MUSTER_KGE_ENTITIES, ENTITIES, rows[1]);
    assert_in_range(rows_apart(rows[0], rows[1]), 650, 820);
    (void)work(&w, 0, 1, whole);
    rows_of(&w, MUSTER_KGE_ENTITIES, ENTITIES, rows[1]);
    assert_in_range(rows_apart(rows[0], rows[1]), 1250, 1620);
    end(&w);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(shares_are_all_triples_once),
        cmocka_unit_test(an_epoch_is_the_same_whoever_works),
        cmocka_unit_test(many_parts_do_what_one_does),
        cmocka_unit_test(pieces_are_of_the_file),
        cmocka_unit_test(places_of_groups_are_all_different),
        cmocka_unit_test(groups_and_epochs_have_samples_of_their_own),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
