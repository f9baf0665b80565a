/*
 * coordinator_sizes_test.c -- sizes that measured speeds have led to outlive
 * the coordinator.
 */
#include "role/coordinator_test.h"

#define SHARDS 16u

static const uint32_t even[] = {0, 4, 8, 12, 16};
static const uint32_t sized[] = {0, 1, 4, 9, 16};

static muster_coordinator_opts options(bool balance, const muster_vec *saved)
{
    muster_coordinator_opts opts = MUSTER_COORDINATOR_OPTS_INIT;
    opts.last_step = 100;
    opts.shards = SHARDS;
    opts.balance = balance;
    if (saved != NULL) {
        opts.saved = saved->data;
        opts.saved_bytes = saved->count;
    }
    return opts;
}

static muster_coordinator *state_of(const stage *s)
{
    return s->role.state;
}

/* What one with these sizes saves. */
static muster_vec saved_with(bool balance, const uint32_t *first_shard)
{
    stage s = make_stage_with("uncoded", WORKERS, options(balance, NULL));
    muster_vec saved = muster_vec_make(1);
    assert_memory_equal(state_of(&s)->plan.first_shard, even, sizeof(even));
    memcpy(state_of(&s)->plan.first_shard, first_shard, sizeof(even));
    assert_int_equal(s.role.ops->save(s.role.state, &saved), MUSTER_OK);
    end_stage(&s);
    return saved;
}

static void a_restart_begins_with_the_sizes_it_had(void **state)
{
    (void)state;
    muster_vec saved = saved_with(true, sized);
    stage s = make_stage_with("uncoded", WORKERS, options(true, &saved));
    assert_memory_equal(state_of(&s)->plan.first_shard, sized, sizeof(sized));
    end_stage(&s);
    // One that measures no speeds keeps to the sizes of its options.
    s = make_stage_with("uncoded", WORKERS, options(false, &saved));
    assert_memory_equal(state_of(&s)->plan.first_shard, even, sizeof(even));
    end_stage(&s);
    muster_vec_fini(&saved);
}

static void a_state_without_sizes_is_read(void **state)
{
    (void)state;
    muster_vec saved = saved_with(false, even);
    stage s = make_stage_with("uncoded", WORKERS, options(true, &saved));
    assert_memory_equal(state_of(&s)->plan.first_shard, even, sizeof(even));
    end_stage(&s);
    muster_vec_fini(&saved);
}

static void sizes_that_are_none_are_refused(void **state)
{
    (void)state;
    static const uint32_t wrong[][WORKERS + 1] = {
        {0, 0, 4, 9, 16}, // a part of nothing
        {0, 1, 4, 9, 15}, // not all shards
        {0, 1, 4, 9, 17}, // more than there are
    };
    muster_vec saved = saved_with(true, sized);
    uint8_t *sizes = (uint8_t *)saved.data + saved.count - 4 * WORKERS;
    for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
        for (uint32_t part = 0; part < WORKERS; part++) {
            sizes[4 * part] = (uint8_t)(wrong[i][part + 1] - wrong[i][part]);
        }
        stage s = {.workers = WORKERS};
        muster_code_opts code = MUSTER_CODE_OPTS_INIT;
        code.name = "uncoded";
        code.workers = WORKERS;
        assert_int_equal(muster_code_create(&code, NULL, &s.code), MUSTER_OK);
        muster_coordinator_opts opts = options(true, &saved);
        opts.code = s.code;
        opts.run = RUN;
        opts.message_dim = DIM;
        opts.setup = opts.model = s.blob = muster_blob_create(64);
        assert_int_equal(muster_coordinator_create(&opts, NULL, &s.role),
                         MUSTER_ERR_INVALID);
        muster_blob_unref(s.blob);
        muster_code_free(s.code);
    }
    muster_vec_fini(&saved);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_restart_begins_with_the_sizes_it_had),
        cmocka_unit_test(a_state_without_sizes_is_read),
        cmocka_unit_test(sizes_that_are_none_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
