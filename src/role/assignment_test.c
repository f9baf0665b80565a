/*
 * assignment_test.c -- every shard is in one part of a plan, a worker asks for
 * the shards of its parts and no others, and its PLAN says so.
 */
#include "role/assignment.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/mem.h"
#include "wire/message.h"
#include "wire/terms.h"

static muster_code *make_code(const char *name, uint32_t workers)
{
    muster_code_opts opts = MUSTER_CODE_OPTS_INIT;
    muster_code *code = NULL;
    opts.name = name;
    opts.workers = workers;
    assert_int_equal(muster_code_create(&opts, NULL, &code), MUSTER_OK);
    return code;
}

/* Does one of the worker's parts have the shard? The slow way. */
static bool needs(const muster_assignment *plan, uint32_t worker,
                  uint32_t shard)
{
    const uint32_t *parts = NULL;
    uint32_t count = muster_assignment_parts(plan, worker, &parts);
    bool found = false;
    for (uint32_t i = 0; i < count; i++) {
        found = found || (plan->first_shard[parts[i]] <= shard &&
                          shard < plan->first_shard[parts[i] + 1]);
    }
    return found;
}

static void check_worker(const muster_assignment *plan, uint32_t worker)
{
    muster_shard_walk walk = {0};
    for (uint32_t shard = 0; shard < plan->shards; shard++) {
        bool needed = needs(plan, worker, shard);
        assert_int_equal(muster_assignment_asks(plan, worker, shard), needed);
        if (needed) {
            assert_int_equal(muster_assignment_shard(plan, worker, &walk),
                             shard);
            walk.shard++;
        }
    }
    assert_false(muster_assignment_asks(plan, worker, plan->shards));
    assert_int_equal(muster_assignment_shard(plan, worker, &walk),
                     MUSTER_ID_ANY);
}

static void check_terms(const muster_assignment *plan, uint32_t worker)
{
    muster_blob *blob = muster_assignment_terms(plan, worker);
    assert_non_null(blob);
    muster_terms terms;
    assert_int_equal(muster_terms_read(blob->data, blob->bytes, NULL, &terms),
                     MUSTER_OK);
    uint32_t told = 0;
    uint32_t wanted = 0;
    for (uint32_t i = 0; i < terms.part_count; i++) {
        for (uint32_t j = 0; j < terms.parts[i].count; j++) {
            assert_true(needs(plan, worker, terms.parts[i].first + j));
            told++;
        }
    }
    for (uint32_t shard = 0; shard < plan->shards; shard++) {
        wanted += needs(plan, worker, shard);
    }
    assert_int_equal(told, wanted);
    muster_terms_fini(&terms);
    muster_blob_unref(blob);
}

/* Fewer shards than parts, as many, a multiple, and neither. */
static void a_worker_asks_for_the_shards_of_its_parts(void **state)
{
    (void)state;
    static const char *const names[] = {"uncoded", "frc:s=1", "cyclic-mds:s=2",
                                        "heter:s=1,k=15"};
    static const uint32_t shards[] = {1, 5, 6, 15, 24, 25, 60};
    for (size_t c = 0; c < sizeof(names) / sizeof(names[0]); c++) {
        muster_code *code = make_code(names[c], 6);
        for (size_t s = 0; s < sizeof(shards) / sizeof(shards[0]); s++) {
            muster_assignment plan;
            assert_int_equal(muster_assignment_init(&plan, code, shards[s], 1),
                             MUSTER_OK);
            assert_int_equal(plan.first_shard[0], 0);
            assert_int_equal(plan.first_shard[plan.info.parts], shards[s]);
            for (uint32_t worker = 0; worker < 6; worker++) {
                check_worker(&plan, worker);
                check_terms(&plan, worker);
            }
            muster_assignment_fini(&plan);
        }
        muster_code_free(code);
    }
}

static void parts_differ_by_one_shard_at_most(void **state)
{
    (void)state;
    muster_code *code = make_code("uncoded", 7);
    for (uint32_t shards = 1; shards < 60; shards++) {
        muster_assignment plan;
        assert_int_equal(muster_assignment_init(&plan, code, shards, 1),
                         MUSTER_OK);
        for (uint32_t part = 0; part < 7; part++) {
            uint32_t count =
                plan.first_shard[part + 1] - plan.first_shard[part];
            assert_in_range(count, shards / 7, (shards + 6) / 7);
        }
        muster_assignment_fini(&plan);
    }
    muster_code_free(code);
}

static void a_plan_without_memory_is_not_made(void **state)
{
    (void)state;
    muster_code *code = make_code("frc:s=1", 4);
    muster_assignment plan;
    for (uint64_t count = 0; count < 3; count++) {
        muster_mem_fail_after(count);
        muster_status status = muster_assignment_init(&plan, code, 16, 1);
        muster_mem_fail_after(UINT64_MAX);
        assert_int_equal(status, MUSTER_ERR_NO_MEMORY);
    }
    assert_int_equal(muster_assignment_init(&plan, code, 16, 1), MUSTER_OK);
    for (uint64_t count = 0; count < 3; count++) {
        muster_mem_fail_after(count);
        muster_blob *blob = muster_assignment_terms(&plan, 0);
        muster_mem_fail_after(UINT64_MAX);
        assert_null(blob);
    }
    muster_assignment_fini(&plan);
    muster_code_free(code);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_worker_asks_for_the_shards_of_its_parts),
        cmocka_unit_test(parts_differ_by_one_shard_at_most),
        cmocka_unit_test(a_plan_without_memory_is_not_made),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
