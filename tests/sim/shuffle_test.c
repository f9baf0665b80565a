/*
 * shuffle_test.c -- named histories of plans that change, of deadlines and of
 * training that goes on with too few: one of them each, and what must follow.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "role/assignment.h"
#include "scene.h"

static uint64_t parts_of_all(const toy *t)
{
    uint64_t parts = 0;
    for (uint32_t worker = 0; worker < t->workers; worker++) {
        const uint32_t *list = NULL;
        uint32_t count = 0;
        assert_int_equal(muster_code_parts(t->code, worker, &list, &count),
                         MUSTER_OK);
        parts += count;
    }
    return parts;
}

static uint64_t shards_held(const toy *t)
{
    uint64_t held = 0;
    for (uint32_t host = 1; host <= t->workers; host++) {
        for (uint32_t shard = 0; shard < t->shards; shard++) {
            held += t->processes[host].held[shard] ? 1 : 0;
        }
    }
    return held;
}

static void every_kind_of_code_may_rotate(void **state)
{
    (void)state;
    static const char *const codes[] = {"uncoded",         "frc:s=2",
                                        "crc:s=2",         "cyclic-mds:s=2",
                                        "heter-group:s=1", "linear:spc"};
    for (size_t i = 0; i < sizeof(codes) / sizeof(codes[0]); i++) {
        toy t;
        toy_opts opts = plain(codes[i], 6, 60);
        opts.shuffle = "rotate:5";
        toy_init(&t, &opts);
        run_to_end(&t);
        assert_right(&t);
        assert_int_equal(t.lost, 0);
        assert_int_equal(t.inexact, 0);
        // Twelve turns; the last may not be ready before the end.
        assert_in_range(t.plan, 11, 12);
        for (uint32_t part = 0; part < t.info.parts; part++) {
            assert_int_equal(t.received[part], 60);
        }
        toy_fini(&t);
    }
}

/* A turn a step, by one slot. The first may be a step late: nobody has its
 * parts before the run begins. */
static void a_map_may_change_with_every_step(void **state)
{
    (void)state;
    static const char *const codes[] = {
        "uncoded",    "frc:s=2",         "crc:s=2", "cyclic-mds:s=2",
        "linear:spc", "erasurehead:d=3", "ignore",  "heter-group:s=1"};
    for (size_t i = 0; i < sizeof(codes) / sizeof(codes[0]); i++) {
        toy t;
        toy_opts opts = plain(codes[i], 12, 60);
        opts.shuffle = "rotate:1";
        toy_init(&t, &opts);
        run_to_end(&t);
        assert_right(&t);
        assert_int_equal(t.lost, 0);
        print_message("%s: plan %u at the end of 60 steps\n", codes[i], t.plan);
        assert_in_range(t.plan, 59, 60);
        toy_fini(&t);
    }
}

/* Uncoded: each turn moves one part to each worker, and one is forgotten. */
static void what_moves_is_counted_and_what_is_left_is_forgotten(void **state)
{
    (void)state;
    toy t;
    toy_opts opts = plain("uncoded", 6, 60);
    opts.shuffle = "rotate:20";
    toy_init(&t, &opts);
    muster_sim_run(t.sim, SECONDS(1) / 20);
    muster_message part = {.kind = MUSTER_MSG_SHARD};
    uint64_t each = muster_message_bytes(&part) + sizeof(uint32_t);
    run_to_end(&t);
    assert_right(&t);
    assert_int_equal(t.plan, 3);
    assert_int_equal(t.bytes_moved, 18 * each);
    assert_int_equal(t.shards_made, 6 * 3);
    assert_int_equal(t.forgotten, 6 * 2);
    assert_int_equal(shards_held(&t), parts_of_all(&t));
    toy_fini(&t);
}

/* A part that takes half a second to load keeps no step waiting. */
static void a_step_never_waits_for_a_move(void **state)
{
    (void)state;
    int64_t ended_ns[2];
    for (int moving = 0; moving < 2; moving++) {
        toy t;
        toy_opts opts = plain("frc:s=2", 6, 60);
        opts.shuffle = moving ? "rotate:30" : NULL;
        toy_init(&t, &opts);
        muster_sim_run(t.sim, SECONDS(1) / 10);
        // From now on the network is slow to two of them.
        for (uint32_t host = 1; host <= 2; host++) {
            muster_sim_set_link(
                t.sim, host, (muster_sim_link){200 * MUSTER_NS_PER_MS, 0, 0});
        }
        run_to_end(&t);
        assert_right(&t);
        ended_ns[moving] = muster_sim_now(t.sim);
        toy_fini(&t);
    }
    assert_true(ended_ns[1] < ended_ns[0] + SECONDS(1) / 10);
}

static void come_back(muster_sim *sim, void *context, uint64_t host)
{
    (void)sim;
    toy_start_worker(context, (uint32_t)host, (uint32_t)host - 1);
}

static void one_lost_while_a_plan_is_made_ready_is_not_waited_for(void **state)
{
    (void)state;
    toy t;
    toy_opts opts = plain("frc:s=1", 6, 60);
    opts.shuffle = "rotate:10";
    toy_init(&t, &opts);
    t.kill_at_step = 10 + 2; // the turn is asked for when step 10 begins
    t.kill_host = 3;
    run_to_end(&t);
    assert_right(&t);
    assert_int_equal(t.lost, 1);
    assert_true(t.plan >= 5);
    toy_fini(&t);
}

static void one_that_returns_meanwhile_takes_part_in_it(void **state)
{
    (void)state;
    toy t;
    toy_opts opts = plain("frc:s=1", 6, 60);
    opts.shuffle = "rotate:1";
    opts.steps = 200;
    toy_init(&t, &opts);
    t.kill_at_step = 11;
    t.kill_host = 3;
    muster_sim_at(t.sim, SECONDS(1) / 2, come_back, &t, 3);
    run_to_end(&t);
    assert_right(&t);
    assert_int_equal(t.ready, 7);
    assert_true(t.plan > 20);
    // Its own, those of the next two turns, and what was not dropped yet.
    assert_true(shards_held(&t) <= 3 * parts_of_all(&t));
    toy_fini(&t);
}

/* It joins over a slow line, and the plan is changed under its feet. Then the
 * one that has the same parts dies, and its answers are needed. */
static void one_on_its_way_at_an_adoption_gets_the_new_plan(void **state)
{
    (void)state;
    toy t;
    toy_opts opts = plain("frc:s=1", 4, 95);
    opts.shuffle = "rotate:50";
    toy_init(&t, &opts);
    t.kill_at_step = 20 + 1;
    t.kill_host = 3;
    int64_t ms = 0;
    for (; t.ends < 30; ms++) {
        muster_sim_run(t.sim, ms * MUSTER_NS_PER_MS);
        assert_true(ms < 2000);
    }
    muster_sim_set_link(t.sim, 3,
                        (muster_sim_link){45 * MUSTER_NS_PER_MS, 0, 0});
    toy_start_worker(&t, 3, 2);
    for (; t.plan < 2; ms++) {
        muster_sim_run(t.sim, ms * MUSTER_NS_PER_MS);
        assert_true(ms < 2000);
    }
    assert_true(t.here[2] && !t.is_ready[2]);
    // Workers 1 and 2 are a group when all have moved on by one.
    t.kill_at_step = 85 + 1;
    t.kill_host = 2;
    run_to_end(&t);
    assert_right(&t);
    assert_int_equal(t.plan, 2);
    assert_int_equal(t.ready, 4 + 1);
    assert_null(strstr(t.notices, "waits since"));
    toy_fini(&t);
}

static void a_restarted_coordinator_goes_on_with_its_map(void **state)
{
    (void)state;
    toy t;
    toy_opts opts = plain("frc:s=1", 6, 60);
    opts.shuffle = "rotate:20";
    toy_init(&t, &opts);
    t.kill_at_step = 35;
    t.kill_host = 0;
    muster_sim_run(t.sim, SECONDS(2));
    assert_int_equal(t.disk.step, 32);
    uint64_t made = t.shards_made;
    t.steps = 38; // before the next turn
    toy_start_coordinator(&t);
    run_to_end(&t);
    assert_int_equal(t.status, MUSTER_OK);
    assert_int_equal(t.plan, 2);
    assert_int_equal(t.shards_made, made); // all had what the map asks for
    assert_int_equal(t.received[0], 38);
    toy_fini(&t);
    // A turn that was under way is asked for again.
    toy_init(&t, &opts);
    t.kill_at_step = 21;
    t.kill_host = 0;
    start_coordinator_at(&t, SECONDS(3));
    run_to_end(&t);
    assert_right(&t);
    assert_int_equal(t.plan, 3);
    toy_fini(&t);
}

/* Uncoded and a deadline: what the slow one holds is lost without a shuffle. */
static void shuffling_lets_every_part_be_heard(void **state)
{
    (void)state;
    uint64_t least[2];
    for (int shuffled = 0; shuffled < 2; shuffled++) {
        toy t;
        toy_opts opts = plain("ignore", 8, 60);
        opts.steps = 200;
        opts.shuffle = shuffled ? "rotate:10" : NULL;
        toy_init(&t, &opts);
        t.slow_ms[4] = 300;
        run_to_end(&t);
        assert_right(&t);
        least[shuffled] = UINT64_MAX;
        uint64_t sum = 0;
        for (uint32_t part = 0; part < 8; part++) {
            uint64_t got = t.received[part];
            least[shuffled] = got < least[shuffled] ? got : least[shuffled];
            sum += got;
        }
        assert_int_equal(sum + t.steps_without, 200 * 8);
        toy_fini(&t);
    }
    assert_true(least[0] < 10);
    assert_true(least[1] > 150);
}

static void targeted_moves_a_part_off_a_slow_pair_once(void **state)
{
    (void)state;
    toy t;
    toy_opts opts = plain("erasurehead:d=2", 12, 60);
    opts.steps = 300;
    opts.shuffle = "targeted";
    toy_init(&t, &opts);
    // Both holders of one group's parts.
    const uint32_t *first = NULL;
    const uint32_t *other = NULL;
    uint32_t count = 0;
    uint32_t twin = 1;
    assert_int_equal(muster_code_parts(t.code, 0, &first, &count), MUSTER_OK);
    for (; twin < 12; twin++) {
        assert_int_equal(muster_code_parts(t.code, twin, &other, &count),
                         MUSTER_OK);
        if (other[0] == first[0]) {
            break;
        }
    }
    assert_in_range(twin, 1, 11);
    t.slow_ms[1] = t.slow_ms[1 + twin] = 300;
    run_to_end(&t);
    assert_right(&t);
    assert_in_range(t.plan, 2, 12); // a few more are exchanged by mistake
    assert_true(t.received[first[0]] > 200);
    toy_fini(&t);
}

static void a_deadline_leaves_the_slow_out_and_says_what_is_missing(void **st)
{
    (void)st;
    static const int64_t given[] = {0, 40 * MUSTER_NS_PER_MS};
    for (int i = 0; i < 2; i++) {
        toy t;
        toy_opts opts = plain("ignore", 8, 60);
        opts.deadline_ns = given[i];
        toy_init(&t, &opts);
        t.slow_ms[3] = 1000;
        run_to_end(&t);
        assert_right(&t);
        assert_int_equal(t.lost, 0);
        // Not one step waited for it.
        assert_true(muster_sim_now(t.sim) < SECONDS(5));
        assert_int_equal(t.received[2], 0);
        assert_true(t.inexact == 60 && t.steps_without >= 60);
        assert_true(t.degraded == 0);
        toy_fini(&t);
    }
}

static void a_deadline_waits_for_a_quorum(void **state)
{
    (void)state;
    toy t;
    toy_opts opts = plain("ignore", 8, 60);
    opts.steps = 12;
    toy_init(&t, &opts);
    for (uint32_t host = 1; host <= 5; host++) {
        t.slow_ms[host] = 500; // most of them: then slow is what is usual
    }
    run_to_end(&t);
    assert_right(&t);
    for (uint32_t part = 0; part < 8; part++) {
        assert_true(t.received[part] > 0);
    }
    assert_true(muster_sim_now(t.sim) > 12 * SECONDS(1) / 2);
    toy_fini(&t);
}

static void a_policy_that_is_none_is_refused(void **state)
{
    (void)state;
    toy t;
    toy_opts opts = plain("frc:s=1", 6, 60);
    toy_init(&t, &opts);
    muster_coordinator_opts coordinator = MUSTER_COORDINATOR_OPTS_INIT;
    coordinator.code = t.code;
    coordinator.run = 1;
    coordinator.message_dim = TOY_DIM;
    coordinator.model = toy_blob(t.theta, sizeof(t.theta));
    coordinator.shuffle = "rotate:0";
    muster_role role;
    muster_error error;
    assert_int_equal(muster_coordinator_create(&coordinator, &error, &role),
                     MUSTER_ERR_INVALID);
    assert_non_null(strstr(error.text, "rotate:PERIOD"));
    muster_blob_unref(coordinator.model);
    toy_fini(&t);
}

static void degrading_goes_on_and_says_so_in_every_step(void **state)
{
    (void)state;
    toy t;
    toy_opts opts = plain("frc:s=1", 6, 60);
    opts.degrade = true;
    opts.steps = 300;
    toy_init(&t, &opts);
    muster_sim_run(t.sim, SECONDS(1) / 2);
    const uint32_t *first = NULL;
    uint32_t count = 0;
    assert_int_equal(muster_code_parts(t.code, 0, &first, &count), MUSTER_OK);
    // Everybody with worker 0's parts.
    for (uint32_t worker = 0; worker < 6; worker++) {
        const uint32_t *parts = NULL;
        assert_int_equal(muster_code_parts(t.code, worker, &parts, &count),
                         MUSTER_OK);
        if (parts[0] == first[0]) {
            muster_sim_kill(t.sim, worker + 1);
        }
    }
    muster_sim_run(t.sim, SECONDS(1));
    assert_true(t.degraded > 10);
    assert_int_equal(t.degraded, t.inexact);
    assert_non_null(strstr(t.notices, "goes on approximately: frc (s = 1) "
                                      "cannot do without workers 0, "));
    toy_start_worker(&t, 1, 0);
    run_to_end(&t);
    assert_right(&t);
    const char *again = strstr(t.notices, "exact again at step");
    assert_non_null(again);
    assert_null(strstr(again + 1, "exact again at step")); // said once
    assert_null(strstr(strstr(t.notices, "goes on approximately") + 1,
                       "goes on approximately"));
    assert_int_equal(t.received[first[0]] + t.degraded, 300);
    toy_fini(&t);
}

static void with_nobody_left_even_degrading_pauses(void **state)
{
    (void)state;
    toy t;
    toy_opts opts = plain("uncoded", 4, 60);
    opts.degrade = true;
    opts.steps = 200;
    toy_init(&t, &opts);
    muster_sim_run(t.sim, SECONDS(1) / 2);
    for (uint32_t host = 1; host <= 4; host++) {
        muster_sim_kill(t.sim, host);
    }
    muster_sim_at(t.sim, SECONDS(5), come_back, &t, 2);
    run_to_end(&t);
    assert_right(&t);
    assert_non_null(strstr(t.notices, "paused at step"));
    assert_true(t.degraded > 0);
    toy_fini(&t);
}

/* Too few answer in time: an approximate code waits for half of those that are
 * there, as long as they are there. */
static void a_learnt_deadline_needs_a_quorum(void **state)
{
    (void)state;
    toy t;
    toy_opts opts = plain("ignore", 8, 400);
    toy_init(&t, &opts);
    muster_sim_run(t.sim, SECONDS(1));
    for (uint32_t host = 1; host <= 5; host++) {
        muster_sim_stop(t.sim, host);
    }
    uint64_t ends = t.ends;
    muster_sim_run(t.sim, SECONDS(2));
    assert_true(ends > 20);
    assert_in_range(t.ends, ends, ends + 1);
    muster_sim_run(t.sim, SECONDS(4)); // they are lost, and are not counted
    assert_true(t.ends > ends + 20);
    run_to_end(&t);
    assert_right(&t);
    toy_fini(&t);
}

/* A part is four shards here. A turn of one slot moves to each worker the part
 * of the next, and nothing else; what two plans have in common stays. */
static void a_turn_moves_only_the_shards_that_are_lacking(void **state)
{
    (void)state;
    toy t;
    toy_opts opts = plain("cyclic-mds:s=2", 6, 60);
    opts.shuffle = "rotate:20";
    opts.shards = 24;
    toy_init(&t, &opts);
    muster_message shard = {.kind = MUSTER_MSG_SHARD};
    uint64_t each = muster_message_bytes(&shard) + sizeof(uint32_t);
    run_to_end(&t);
    assert_right(&t);
    assert_int_equal(t.plan, 3);
    // Three parts each at the start, then one of three is new at each turn.
    uint64_t sent = (uint64_t)6 * 4 * (3 + 1 + 1);
    assert_int_equal(t.bytes_moved, sent * each);
    assert_int_equal(t.forgotten, 6 * 4 * 2);
    assert_int_equal(shards_held(&t), 4 * parts_of_all(&t));
    toy_fini(&t);
}

/* What the workers lack of a plan, of what they hold under the one before. */
static uint64_t lacking(const muster_assignment *from,
                        const muster_assignment *to)
{
    uint64_t count = 0;
    for (uint32_t worker = 0; worker < to->info.workers; worker++) {
        muster_shard_walk walk = {0};
        uint32_t shard = muster_assignment_shard(to, worker, &walk);
        while (shard != MUSTER_ID_ANY) {
            count +=
                from == NULL || !muster_assignment_asks(from, worker, shard);
            walk.shard++;
            shard = muster_assignment_shard(to, worker, &walk);
        }
    }
    return count;
}

static void check_change(const char *from, const char *to, uint32_t shards)
{
    toy t;
    toy_opts opts = plain(from, 6, 60);
    opts.change_code = to;
    opts.change_step = 20;
    opts.shards = shards;
    toy_init(&t, &opts);
    run_to_end(&t);
    assert_right(&t); // theta is that of all samples, as without a code
    assert_int_equal(t.plan, 2);
    assert_int_equal(t.inexact, 0);
    assert_int_equal(t.lost + t.rejected, 0);
    muster_assignment plans[2];
    assert_int_equal(muster_assignment_init(&plans[0], t.code, shards, 1),
                     MUSTER_OK);
    assert_int_equal(
        muster_assignment_init(&plans[1], t.change_code, shards, 2), MUSTER_OK);
    muster_message shard = {.kind = MUSTER_MSG_SHARD};
    uint64_t each = muster_message_bytes(&shard) + sizeof(uint32_t);
    uint64_t at_first = lacking(NULL, &plans[0]);
    assert_int_equal(t.bytes_moved,
                     each * (at_first + lacking(&plans[0], &plans[1])));
    assert_int_equal(t.forgotten, lacking(&plans[1], &plans[0]));
    assert_int_equal(shards_held(&t), lacking(NULL, &plans[1]));
    for (uint32_t part = 0; part < t.info.parts; part++) {
        assert_int_equal(t.received[part], 60);
    }
    muster_assignment_fini(&plans[0]);
    muster_assignment_fini(&plans[1]);
    toy_fini(&t);
}

/* Codes of 6, 24, 12 and 3 parts; shards that each of them divides, and not. */
static void another_code_moves_only_the_shards_that_are_lacking(void **state)
{
    (void)state;
    static const char *const codes[] = {
        "uncoded",        "heter:s=1,k=24",  "cyclic-mds:s=2",
        "heter:s=2,k=12", "ye-abbe:s=1,m=2", "heter-group:s=1,k=9"};
    static const uint32_t shards[] = {24, 25, 72};
    for (size_t from = 0; from < sizeof(codes) / sizeof(codes[0]); from++) {
        for (size_t to = 0; to < sizeof(codes) / sizeof(codes[0]); to++) {
            check_change(codes[from], codes[to], shards[(from + to) % 3]);
        }
    }
}

/* Workers that die and return about the change, a coordinator that is
 * restarted after it. */
static void another_code_comes_whoever_is_lost_meanwhile(void **state)
{
    (void)state;
    static const char *const shuffles[] = {"rotate:3", NULL, "rotate:1"};
    for (uint64_t seed = 0; seed < 60; seed++) {
        toy t;
        toy_opts opts = plain("frc:s=1", 6, 60);
        opts.seed = seed;
        opts.change_code = "heter:s=2,k=12";
        opts.change_step = 20;
        opts.shards = 24 + (uint32_t)seed % 3;
        opts.shuffle = shuffles[seed % 3];
        toy_init(&t, &opts);
        t.kill_at_step = 18 + 1 + seed % 8;
        t.kill_host = seed % 5 == 0 ? 0 : 1 + (uint32_t)seed % 6;
        if (t.kill_host == 0) {
            start_coordinator_at(&t, SECONDS(3));
        } else {
            muster_sim_at(t.sim, SECONDS(1) / 2, come_back, &t, t.kill_host);
        }
        run_to_end(&t);
        assert_right(&t);
        assert_int_equal(t.info.parts, 12);
        assert_int_equal(t.rejected, 0);
        toy_fini(&t);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_kind_of_code_may_rotate),
        cmocka_unit_test(a_map_may_change_with_every_step),
        cmocka_unit_test(what_moves_is_counted_and_what_is_left_is_forgotten),
        cmocka_unit_test(a_step_never_waits_for_a_move),
        cmocka_unit_test(a_turn_moves_only_the_shards_that_are_lacking),
        cmocka_unit_test(another_code_moves_only_the_shards_that_are_lacking),
        cmocka_unit_test(another_code_comes_whoever_is_lost_meanwhile),
        cmocka_unit_test(one_lost_while_a_plan_is_made_ready_is_not_waited_for),
        cmocka_unit_test(one_that_returns_meanwhile_takes_part_in_it),
        cmocka_unit_test(one_on_its_way_at_an_adoption_gets_the_new_plan),
        cmocka_unit_test(a_restarted_coordinator_goes_on_with_its_map),
        cmocka_unit_test(shuffling_lets_every_part_be_heard),
        cmocka_unit_test(targeted_moves_a_part_off_a_slow_pair_once),
        cmocka_unit_test(
            a_deadline_leaves_the_slow_out_and_says_what_is_missing),
        cmocka_unit_test(a_deadline_waits_for_a_quorum),
        cmocka_unit_test(a_policy_that_is_none_is_refused),
        cmocka_unit_test(degrading_goes_on_and_says_so_in_every_step),
        cmocka_unit_test(a_learnt_deadline_needs_a_quorum),
        cmocka_unit_test(with_nobody_left_even_degrading_pauses),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
