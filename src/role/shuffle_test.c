/*
 * shuffle_test.c -- rotation is the paper's; a targeted shuffle covers every
 * part that can be covered, moves nothing without need, hands the uncovered
 * place on in turn, and stays a permutation; moves are exactly the parts that
 * are new; state survives saving and damage is refused.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/mem.h"
#include "base/rng.h"
#include "code/numbers.h"
#include "role/shuffle.h"

#define N 12u

static muster_code *make_code(const char *name)
{
    muster_code_opts opts = MUSTER_CODE_OPTS_INIT;
    opts.name = name;
    opts.workers = N;
    muster_code *code = NULL;
    muster_error error = {0};
    if (muster_code_create(&opts, &error, &code) != MUSTER_OK) {
        fail_msg("%s: %s", name, error.text);
    }
    return code;
}

static muster_shuffle *make(const muster_code *code, const char *policy)
{
    muster_shuffle_opts opts = {.policy = policy, .code = code};
    muster_shuffle *shuffle = NULL;
    muster_error error = {0};
    if (muster_shuffle_create(&opts, &error, &shuffle) != MUSTER_OK) {
        fail_msg("%s: %s", policy, error.text);
    }
    return shuffle;
}

/* Slow and active by bit; slow ones always late if `late`. */
static void look(uint32_t slow, bool late, muster_shuffle_seen *seen)
{
    for (uint32_t i = 0; i < N; i++) {
        bool is = slow >> i & 1;
        seen[i] = (muster_shuffle_seen){late && is, is, is ? 0.8 : 0.01, false};
    }
}

static void start(uint32_t *slot_of)
{
    for (uint32_t i = 0; i < N; i++) {
        slot_of[i] = i;
    }
}

static void check_permutation(const uint32_t *slot_of)
{
    uint32_t met = 0;
    for (uint32_t i = 0; i < N; i++) {
        met |= 1u << slot_of[i];
    }
    assert_int_equal(met, (1u << N) - 1);
}

static uint32_t count_uncovered(const muster_code *code,
                                const uint32_t *slot_of, uint32_t slow)
{
    bool covered[N] = {false};
    uint32_t parts_count = muster_code_numbers(code)->parts;
    for (uint32_t i = 0; i < N; i++) {
        const uint32_t *parts;
        uint32_t count;
        assert_int_equal(muster_code_parts(code, slot_of[i], &parts, &count),
                         MUSTER_OK);
        for (uint32_t p = 0; p < count && !(slow >> i & 1); p++) {
            covered[parts[p]] = true;
        }
    }
    uint32_t uncovered = 0;
    for (uint32_t p = 0; p < parts_count; p++) {
        uncovered += !covered[p];
    }
    return uncovered;
}

static void rotation_is_worker_plus_turn(void **state)
{
    (void)state;
    muster_code *code = make_code("frc:s=1");
    muster_shuffle *shuffle = make(code, "rotate:5");
    uint32_t slot_of[N];
    uint32_t next[N];
    start(slot_of);
    uint32_t changes = 0;
    uint32_t moved = 0;
    for (uint64_t step = 0; step < (uint64_t)5 * N; step++) {
        if (muster_shuffle_next(shuffle, step, slot_of, next)) {
            changes++;
            assert_int_equal(step % 5, 0);
            for (uint32_t i = 0; i < N; i++) {
                moved +=
                    muster_shuffle_moves(shuffle, slot_of[i], next[i], NULL);
            }
        }
        for (uint32_t i = 0; i < N; i++) {
            assert_int_equal(next[i], (i + step / 5) % N);
        }
        memcpy(slot_of, next, sizeof(next));
    }
    assert_int_equal(changes, N - 1);
    // Each turn half the workers cross into another group of two parts.
    assert_int_equal(moved, (N - 1) * (N / 2) * 2);
    muster_shuffle_free(shuffle);
    muster_code_free(code);
}

/* Each turn is by one slot, however many steps late it comes; who needs two
 * parts at once, at a mean of one, is sent them from two steps before. */
static void a_late_turn_is_by_one_slot_and_parts_go_ahead_of_it(void **state)
{
    (void)state;
    muster_code *code = make_code("frc:s=1");
    muster_shuffle *shuffle = make(code, "rotate:5");
    uint32_t slot_of[N];
    uint32_t next[N];
    start(slot_of);
    assert_false(muster_shuffle_next(shuffle, 4, slot_of, next));
    assert_true(muster_shuffle_next(shuffle, 17, slot_of, next));
    for (uint32_t i = 0; i < N; i++) {
        assert_int_equal(next[i], (i + 1) % N);
    }
    assert_int_equal(muster_shuffle_turns_ahead(shuffle, 1, 99, slot_of), 0);
    assert_int_equal(muster_shuffle_turns_ahead(shuffle, 2, 99, slot_of), 0);
    assert_int_equal(muster_shuffle_turns_ahead(shuffle, 3, 99, slot_of), 1);
    assert_int_equal(muster_shuffle_turns_ahead(shuffle, 17, 99, slot_of), 2);
    assert_int_equal(muster_shuffle_turns_ahead(shuffle, 17, 19, slot_of), 1);
    assert_int_equal(muster_shuffle_turns_ahead(shuffle, 3, 5, slot_of), 0);
    assert_int_equal(muster_shuffle_turns_ahead(shuffle, 9, 9, slot_of), 0);
    assert_int_equal(muster_shuffle_slot_ahead(shuffle, N - 1, 2), 1);
    // As late as it is, parts go out earlier: from 2, 5 and 8 steps before.
    muster_shuffle_was_late(shuffle);
    assert_int_equal(muster_shuffle_turns_ahead(shuffle, 0, 99, slot_of), 1);
    muster_shuffle_was_late(shuffle);
    muster_shuffle_was_late(shuffle);
    assert_int_equal(muster_shuffle_turns_ahead(shuffle, 1, 99, slot_of), 1);
    assert_int_equal(muster_shuffle_turns_ahead(shuffle, 2, 99, slot_of), 2);
    muster_shuffle_free(shuffle);
    shuffle = make(code, "targeted");
    assert_int_equal(muster_shuffle_turns_ahead(shuffle, 17, 99, slot_of), 0);
    muster_shuffle_free(shuffle);
    muster_code_free(code);
}

/* Both holders of the first two parts are slow, for a while. */
static void auto_alone_acts_on_what_passes(void **state)
{
    (void)state;
    muster_code *code = make_code("frc:s=1");
    uint32_t slow = 0;
    const uint32_t *parts;
    uint32_t count;
    for (uint32_t i = 0; i < N; i++) {
        assert_int_equal(muster_code_parts(code, i, &parts, &count), MUSTER_OK);
        slow |= parts[0] == 0 ? 1u << i : 0;
    }
    for (int follows = 0; follows < 2; follows++) {
        muster_shuffle *shuffle = make(code, follows ? "auto" : "targeted");
        muster_shuffle_seen seen[N];
        uint32_t slot_of[N];
        uint32_t next[N];
        start(slot_of);
        look(slow, true, seen);
        for (uint32_t i = 0; i < N; i++) {
            seen[i].passing = true;
        }
        for (int step = 0; step < 31; step++) {
            muster_shuffle_observe(shuffle, slot_of, seen);
            assert_false(muster_shuffle_next(shuffle, 1, slot_of, next));
        }
        muster_shuffle_observe(shuffle, slot_of, seen);
        assert_int_equal(muster_shuffle_next(shuffle, 1, slot_of, next),
                         follows);
        assert_int_equal(count_uncovered(code, next, slow), follows ? 0 : 2);
        look(slow, true, seen); // for good: then both do
        muster_shuffle_observe(shuffle, slot_of, seen);
        assert_true(muster_shuffle_next(shuffle, 1, slot_of, next));
        assert_int_equal(count_uncovered(code, next, slow), 0);
        muster_shuffle_free(shuffle);
    }
    muster_code_free(code);
}

static void every_class_pattern_is_covered_as_far_as_possible(void **state)
{
    (void)state;
    // Fractional repetition with pairs: 6 groups; g active workers can cover g
    // of them. Exhaustive over all patterns of slow workers.
    muster_code *code = make_code("frc:s=1");
    for (uint32_t slow = 0; slow < 1u << N; slow++) {
        muster_shuffle *shuffle = make(code, "targeted");
        muster_shuffle_seen seen[N];
        uint32_t slot_of[N];
        uint32_t next[N];
        start(slot_of);
        look(slow, false, seen);
        muster_shuffle_observe(shuffle, slot_of, seen);
        uint32_t before = count_uncovered(code, slot_of, slow);
        bool changed = muster_shuffle_next(shuffle, 1, slot_of, next);
        check_permutation(next);
        uint32_t active = N - (uint32_t)__builtin_popcount(slow);
        uint32_t best = active < 6 ? 2 * (6 - active) : 0;
        assert_int_equal(count_uncovered(code, next, slow), best);
        assert_int_equal(changed, before > best);
        assert_false(muster_shuffle_next(shuffle, 1, next, slot_of));
        muster_shuffle_free(shuffle);
    }
    muster_code_free(code);
}

static void the_uncovered_place_moves_on(void **state)
{
    (void)state;
    // Four active workers for six groups: over time every group is left out
    // about equally often, though slow workers are always late.
    muster_code *code = make_code("frc:s=1");
    muster_shuffle *shuffle = make(code, "targeted");
    muster_shuffle_seen seen[N];
    look(0xff0, true, seen);
    uint32_t slot_of[N];
    uint32_t next[N];
    start(slot_of);
    uint32_t plans = 0;
    for (uint64_t step = 0; step < 3000; step++) {
        muster_shuffle_observe(shuffle, slot_of, seen);
        plans += muster_shuffle_next(shuffle, step + 1, slot_of, next);
        memcpy(slot_of, next, sizeof(next));
    }
    for (uint32_t part = 0; part < N; part++) {
        assert_in_range(muster_shuffle_misses(shuffle, part), 900, 1100);
    }
    assert_in_range(plans, 10, 300);
    muster_shuffle_free(shuffle);
    muster_code_free(code);
}

static void random_classes_never_break_the_map(void **state)
{
    (void)state;
    static const char *const codes[] = {"uncoded", "frc:s=2", "linear:spc:s=1"};
    muster_rng rng = muster_rng_make(5, 5);
    for (size_t c = 0; c < 3; c++) {
        muster_code *code = make_code(codes[c]);
        muster_shuffle *shuffle = make(code, "targeted");
        uint32_t slot_of[N];
        uint32_t next[N];
        start(slot_of);
        for (uint64_t step = 0; step < 500; step++) {
            muster_shuffle_seen seen[N];
            uint32_t slow = (uint32_t)muster_rng_below(&rng, 1u << N);
            look(slow, true, seen);
            muster_shuffle_observe(shuffle, slot_of, seen);
            uint32_t before = count_uncovered(code, slot_of, slow);
            (void)muster_shuffle_next(shuffle, step + 1, slot_of, next);
            check_permutation(next);
            assert_true(count_uncovered(code, next, slow) <= before);
            memcpy(slot_of, next, sizeof(next));
        }
        muster_shuffle_free(shuffle);
        muster_code_free(code);
    }
}

static void moves_are_the_parts_that_are_new(void **state)
{
    (void)state;
    static const uint32_t first[] = {0, 3, 6, 8};
    static const uint32_t held[] = {0, 1, 4, 1, 2, 4, 0, 3};
    const muster_shuffle_layout layout = {3, 5, first, held};
    muster_shuffle_opts opts = {.policy = "none", .layout = &layout};
    muster_shuffle *shuffle = NULL;
    assert_int_equal(muster_shuffle_create(&opts, NULL, &shuffle), MUSTER_OK);
    uint32_t parts[3] = {9, 9, 9};
    assert_int_equal(muster_shuffle_moves(shuffle, 0, 0, parts), 0);
    assert_int_equal(muster_shuffle_moves(shuffle, 0, 1, parts), 1);
    assert_int_equal(parts[0], 2);
    assert_int_equal(muster_shuffle_moves(shuffle, 2, 0, parts), 2);
    assert_int_equal(parts[0], 1);
    assert_int_equal(parts[1], 4);
    assert_int_equal(muster_shuffle_moves(shuffle, 1, 2, parts), 2);
    assert_int_equal(parts[0], 0);
    assert_int_equal(parts[1], 3);
    const uint32_t slot_of[3] = {2, 0, 1};
    uint32_t next[3];
    assert_false(muster_shuffle_next(shuffle, 7, slot_of, next));
    assert_memory_equal(next, slot_of, sizeof(next));
    muster_shuffle_free(shuffle);
}

static void misses_survive_saving_and_damage_is_refused(void **state)
{
    (void)state;
    muster_code *code = make_code("frc:s=1");
    muster_shuffle *shuffle = make(code, "targeted");
    muster_shuffle *again = make(code, "targeted");
    muster_shuffle_seen seen[N];
    look(0x0ff, true, seen);
    uint32_t slot_of[N];
    start(slot_of);
    for (int step = 0; step < 7; step++) {
        muster_shuffle_observe(shuffle, slot_of, seen);
    }
    muster_vec bytes = muster_vec_make(1);
    assert_true(muster_shuffle_save(shuffle, &bytes));
    for (size_t size = 0; size < bytes.count; size++) {
        assert_int_equal(muster_shuffle_load(again, bytes.data, size),
                         MUSTER_ERR_INPUT);
    }
    assert_int_equal(muster_shuffle_load(again, bytes.data, bytes.count),
                     MUSTER_OK);
    for (uint32_t part = 0; part < N; part++) {
        assert_int_equal(muster_shuffle_misses(again, part), part < 8 ? 7 : 0);
    }
    // Of the version before, which ended with the misses.
    ((uint8_t *)bytes.data)[0] = 1;
    assert_int_equal(muster_shuffle_load(again, bytes.data, bytes.count),
                     MUSTER_ERR_INPUT);
    assert_int_equal(muster_shuffle_load(again, bytes.data, bytes.count - 8),
                     MUSTER_OK);
    assert_int_equal(muster_shuffle_misses(again, 7), 7);
    ((uint8_t *)bytes.data)[0] = 2;
    ((uint8_t *)bytes.data)[8] ^= 1; // another number of parts
    assert_int_equal(muster_shuffle_load(again, bytes.data, bytes.count),
                     MUSTER_ERR_INPUT);
    muster_vec_fini(&bytes);
    muster_shuffle_free(shuffle);
    muster_shuffle_free(again);
    muster_code_free(code);
}

static void bad_policies_and_no_memory_are_statuses(void **state)
{
    (void)state;
    static const char *const bad[] = {
        "",          "rotate",    "rotate:",    "rotate:0",
        "rotate:-1", "rotate:1x", "targeted:3", "auto:1",
        "Targeted",  "rotate: 5", "rotate:+5",  "rotate:99999999999999999999"};
    muster_code *code = make_code("frc:s=1");
    muster_shuffle *shuffle = NULL;
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        muster_shuffle_opts opts = {.policy = bad[i], .code = code};
        muster_error error = {0};
        assert_int_equal(muster_shuffle_create(&opts, &error, &shuffle),
                         MUSTER_ERR_INVALID);
        assert_non_null(strstr(error.text, "rotate:30"));
    }
    muster_shuffle_opts good = {.policy = "targeted", .code = code};
    uint64_t allowed = 0;
    for (muster_status status = MUSTER_ERR_NO_MEMORY; status != MUSTER_OK;
         allowed++) {
        assert_int_equal(status, MUSTER_ERR_NO_MEMORY);
        muster_mem_fail_after(allowed);
        status = muster_shuffle_create(&good, NULL, &shuffle);
        muster_mem_fail_after(UINT64_MAX);
    }
    assert_true(allowed > 10);
    muster_shuffle_free(shuffle);
    muster_code_free(code);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rotation_is_worker_plus_turn),
        cmocka_unit_test(a_late_turn_is_by_one_slot_and_parts_go_ahead_of_it),
        cmocka_unit_test(auto_alone_acts_on_what_passes),
        cmocka_unit_test(every_class_pattern_is_covered_as_far_as_possible),
        cmocka_unit_test(the_uncovered_place_moves_on),
        cmocka_unit_test(random_classes_never_break_the_map),
        cmocka_unit_test(moves_are_the_parts_that_are_new),
        cmocka_unit_test(misses_survive_saving_and_damage_is_refused),
        cmocka_unit_test(bad_policies_and_no_memory_are_statuses),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
