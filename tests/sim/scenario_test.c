/*
 * scenario_test.c -- named histories: one fault each, and what must follow.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "role/coordinator_inside.h"
#include "scene.h"

static void undisturbed_training_ends_right(void **state)
{
    (void)state;
    static const char *const codes[] = {"uncoded", "frc:s=1", "linear:spc"};
    for (size_t i = 0; i < 3; i++) {
        toy t;
        toy_opts opts = plain(codes[i], 6, 30);
        toy_init(&t, &opts);
        run_to_end(&t);
        assert_right(&t);
        assert_int_equal(t.lost, 0);
        assert_int_equal(t.ends, 30);
        // A snapshot every four steps but the last, and one at the end.
        assert_int_equal(t.snapshots, 30 / 4 + 1);
        muster_sim_run(t.sim, SECONDS(400));
        assert_int_equal(t.stopped_workers, 6);
        assert_int_equal(t.worker_status, MUSTER_OK);
        toy_fini(&t);
    }
}

/* Answers that are not enough are not even tried. */
static void a_step_is_decoded_once(void **state)
{
    (void)state;
    toy t;
    toy_opts opts = plain("uncoded", 6, 30);
    toy_init(&t, &opts);
    muster_sim_run(t.sim, SECONDS(1) / 5);
    const muster_coordinator *c = muster_sim_role(t.sim, 0).state;
    assert_true(t.ends > 5);
    assert_int_equal(muster_code_cache_solved(c->decodings),
                     1); // for all of them
    run_to_end(&t);
    assert_right(&t);
    toy_fini(&t);
}

static void bytes_are_those_of_messages_and_models(void **state)
{
    (void)state;
    toy t;
    toy_opts opts = plain("uncoded", 4, 30);
    toy_init(&t, &opts);
    run_to_end(&t);
    muster_message model = {.kind = MUSTER_MSG_MODEL};
    muster_message answer = {.kind = MUSTER_MSG_GRADIENT};
    size_t theta = TOY_DIM * sizeof(float);
    assert_int_equal(t.messages_up, 4 * 30);
    assert_int_equal(t.bytes_up,
                     t.messages_up * (muster_message_bytes(&answer) + theta));
    assert_int_equal(t.bytes_down,
                     (size_t)4 * 30 * (muster_message_bytes(&model) + theta));
    assert_true(t.bytes_moved > 0);
    toy_fini(&t);
}

static void a_silent_worker_is_named_within_its_window(void **state)
{
    (void)state;
    toy t;
    toy_opts opts = plain("frc:s=1", 6, 30);
    opts.steps = 400;
    toy_init(&t, &opts);
    muster_sim_run(t.sim, SECONDS(1));
    muster_sim_stop(t.sim, 3);
    run_to_end(&t);
    assert_right(&t);
    assert_int_equal(t.lost_worker, 2);
    assert_non_null(strstr(t.lost_reason, "no sign of life"));
    // The window is 2 s, looked at every half second.
    assert_in_range(t.lost_ns, SECONDS(3), SECONDS(4));
    toy_fini(&t);
}

static void wake_all(muster_sim *sim, void *context, uint64_t last)
{
    (void)context;
    for (uint32_t host = 0; host <= last; host++) {
        muster_sim_cont(sim, host);
    }
}

/* As when the lid of a machine is closed. */
static void nobody_is_lost_when_all_are_stopped_for_a_while(void **state)
{
    (void)state;
    toy t;
    toy_opts opts = plain("frc:s=1", 6, 60);
    toy_init(&t, &opts);
    muster_sim_run(t.sim, SECONDS(1) / 5);
    for (uint32_t host = 0; host <= 6; host++) {
        muster_sim_stop(t.sim, host);
    }
    uint64_t ends = t.ends;
    muster_sim_at(t.sim, SECONDS(30), wake_all, NULL, 6);
    run_to_end(&t);
    assert_right(&t);
    assert_in_range(ends, 2, 50);
    assert_int_equal(t.lost, 0);
    toy_fini(&t);
}

/* Patience is 20 s. */
static void reading_the_data_may_take_longer_than_patience(void **state)
{
    (void)state;
    toy t;
    toy_opts opts = plain("frc:s=1", 6, 30);
    toy_init(&t, &opts);
    t.load_ms = 50000;
    run_to_end(&t);
    assert_right(&t);
    assert_int_equal(t.lost, 0);
    toy_fini(&t);
}

static void a_stuck_worker_is_not_taken_for_a_living_one(void **state)
{
    (void)state;
    toy t;
    toy_opts opts = plain("frc:s=1", 6, 30);
    opts.steps = 1500;
    toy_init(&t, &opts);
    muster_sim_run(t.sim, SECONDS(1));
    muster_sim_stick(t.sim, 3);
    run_to_end(&t);
    assert_right(&t);
    assert_int_equal(t.lost_worker, 2);
    assert_non_null(strstr(t.lost_reason, "without progress"));
    assert_in_range(t.lost_ns, SECONDS(11), SECONDS(13));
    toy_fini(&t);
}

static void a_long_step_says_who_is_waited_for(void **state)
{
    (void)state;
    toy t;
    toy_opts opts = plain("uncoded", 6, 30);
    opts.steps = 100;
    toy_init(&t, &opts);
    muster_sim_run(t.sim, SECONDS(1));
    muster_sim_stick(t.sim, 3);
    muster_sim_run(t.sim, SECONDS(7));
    assert_non_null(strstr(t.notices, "has waited 5.0 s for workers 2 (busy); "
                                      "uncoded tolerates 0"));
    toy_fini(&t);
}

static void come_back(muster_sim *sim, void *context, uint64_t host)
{
    (void)sim;
    toy_start_worker(context, (uint32_t)host, (uint32_t)host - 1);
}

static void training_pauses_and_goes_on_when_someone_returns(void **state)
{
    (void)state;
    toy t;
    toy_opts opts = plain("uncoded", 5, 30);
    toy_init(&t, &opts);
    t.kill_at_step = 11;
    t.kill_host = 2;
    muster_sim_at(t.sim, SECONDS(10), come_back, &t, 2);
    run_to_end(&t);
    assert_right(&t);
    assert_non_null(strstr(t.notices, "paused at step 10: uncoded (s = 0) "
                                      "cannot do without workers 1;"));
    assert_non_null(strstr(t.notices, "going on at step 10 with 5 of 5"));
    assert_int_equal(t.ready, 6);
    assert_true(muster_sim_now(t.sim) > SECONDS(10));
    toy_fini(&t);
}

static void patience_ends_with_quorum_after_a_snapshot(void **state)
{
    (void)state;
    toy t;
    toy_opts opts = plain("uncoded", 5, 30);
    toy_init(&t, &opts);
    t.kill_at_step = 11;
    t.kill_host = 2;
    run_to_end(&t);
    assert_int_equal(t.status, MUSTER_ERR_QUORUM);
    assert_non_null(strstr(t.reason, "missing: 1"));
    assert_int_equal(t.disk.step, 10);
    assert_int_equal(t.results, 0);
    assert_in_range(muster_sim_now(t.sim), SECONDS(20), SECONDS(23));
    muster_sim_run(t.sim, SECONDS(60));
    assert_int_equal(t.stopped_workers, 4);
    toy_fini(&t);
}

static void an_interrupt_saves_and_tells_everybody(void **state)
{
    (void)state;
    toy t;
    toy_opts opts = plain("frc:s=1", 6, 30);
    toy_init(&t, &opts);
    muster_sim_run(t.sim, SECONDS(1) / 5);
    muster_sim_interrupt(t.sim, 0);
    run_to_end(&t);
    assert_int_equal(t.status, MUSTER_ERR_INTERRUPTED);
    assert_int_equal(t.disk.step, t.ends);
    assert_in_range(t.ends, 1, 29);
    muster_sim_run(t.sim, muster_sim_now(t.sim) + SECONDS(1));
    assert_int_equal(t.stopped_workers, 6);
    toy_fini(&t);
}

static void an_interrupted_worker_says_that_it_leaves(void **state)
{
    (void)state;
    toy t;
    toy_opts opts = plain("frc:s=1", 6, 30);
    toy_init(&t, &opts);
    muster_sim_run(t.sim, SECONDS(1) / 5);
    muster_sim_interrupt(t.sim, 4);
    run_to_end(&t);
    assert_right(&t);
    assert_int_equal(t.lost_worker, 3);
    assert_string_equal(t.lost_reason, "left");
    toy_fini(&t);
}

static void a_restarted_coordinator_finds_its_workers_and_their_parts(void **st)
{
    (void)st;
    toy t;
    toy_opts opts = plain("frc:s=1", 6, 30);
    toy_init(&t, &opts);
    t.kill_at_step = 11;
    t.kill_host = 0;
    start_coordinator_at(&t, SECONDS(3));
    muster_sim_run(t.sim, SECONDS(2));
    assert_int_equal(t.disk.step, 8);
    uint64_t made = t.shards_made;
    assert_true(made > 0);
    run_to_end(&t);
    assert_right(&t);
    assert_int_equal(t.shards_made, made); // they still had them
    assert_int_equal(t.ready, 12);
    toy_fini(&t);
}

static void training_starts_without_a_worker_that_never_comes(void **state)
{
    (void)state;
    toy t;
    toy_opts opts = plain("frc:s=1", 6, 30);
    toy_init(&t, &opts);
    muster_sim_kill(t.sim, 5);
    run_to_end(&t);
    assert_right(&t);
    assert_non_null(
        strstr(t.notices, "starting with 5 of 6 workers, without 4"));
    assert_true(muster_sim_now(t.sim) > SECONDS(3)); // the grace
    toy_fini(&t);
}

/* A seventh process asks for a number of the six. */
static void nobody_loses_its_number_while_it_lives(void **state)
{
    (void)state;
    toy t;
    toy_opts opts = plain("frc:s=1", 6, 1500);
    opts.spares = 1;
    toy_init(&t, &opts);
    muster_sim_run(t.sim, SECONDS(1));
    toy_start_worker(&t, 7, 0);
    muster_sim_run(t.sim, SECONDS(3));
    assert_true(muster_sim_is_up(t.sim, 1) && muster_sim_is_up(t.sim, 7));
    assert_int_equal(t.host_of[0], 1);
    assert_int_equal(t.lost, 0);
    muster_sim_kill(t.sim, 3);
    muster_sim_run(t.sim, SECONDS(5));
    assert_int_equal(t.host_of[0], 1);
    assert_int_equal(t.host_of[2], 7); // the place that is free
    assert_true(t.is_ready[0] && t.is_ready[2]);
    run_to_end(&t);
    assert_right(&t);
    toy_fini(&t);
}

static void a_stranger_waits_until_a_place_is_free(void **state)
{
    (void)state;
    toy t;
    toy_opts opts = plain("frc:s=1", 6, 30);
    opts.steps = 400;
    toy_init(&t, &opts);
    // Host 6 dies unseen: its cable was cut before.
    muster_sim_run(t.sim, SECONDS(1));
    muster_sim_cut(t.sim, 6, true);
    muster_sim_kill(t.sim, 5);
    toy_start_worker(&t, 5, MUSTER_ID_ANY);
    muster_sim_run(t.sim, SECONDS(2));
    assert_int_equal(t.ready, 7); // number 4 was free again
    run_to_end(&t);
    assert_right(&t);
    toy_fini(&t);
}

static void one_whose_place_was_taken_looks_for_another(void **state)
{
    (void)state;
    toy t;
    toy_opts opts = plain("frc:s=1", 6, 1500);
    opts.spares = 1;
    toy_init(&t, &opts);
    muster_sim_run(t.sim, SECONDS(1));
    muster_sim_cut(t.sim, 5, true);
    muster_sim_run(t.sim, SECONDS(4));
    assert_int_equal(t.lost_worker, 4);
    toy_start_worker(&t, 7, MUSTER_ID_ANY);
    muster_sim_run(t.sim, SECONDS(5));
    assert_int_equal(t.host_of[4], 7);
    muster_sim_kill(t.sim, 1); // a place is free, and the cable is mended
    muster_sim_run(t.sim, SECONDS(6));
    muster_sim_cut(t.sim, 5, false);
    muster_sim_run(t.sim, SECONDS(9));
    assert_true(muster_sim_is_up(t.sim, 5) && muster_sim_is_up(t.sim, 7));
    assert_int_equal(t.host_of[4], 7);
    assert_int_equal(t.host_of[0], 5);
    assert_true(t.is_ready[0] && t.is_ready[4]);
    run_to_end(&t);
    assert_right(&t);
    toy_fini(&t);
}

static void a_number_out_of_range_is_refused(void **state)
{
    (void)state;
    toy t;
    toy_opts opts = plain("frc:s=1", 6, 30);
    toy_init(&t, &opts);
    muster_sim_kill(t.sim, 6);
    toy_start_worker(&t, 6, 6);
    muster_sim_run(t.sim, SECONDS(1) / 10);
    assert_false(muster_sim_is_up(t.sim, 6));
    assert_int_equal(t.worker_status, MUSTER_ERR_REFUSED);
    run_to_end(&t);
    assert_right(&t);
    toy_fini(&t);
}

static void a_worker_alone_gives_up_after_its_patience(void **state)
{
    (void)state;
    toy t;
    toy_opts opts = plain("frc:s=1", 6, 30);
    toy_init(&t, &opts);
    muster_sim_kill(t.sim, 0);
    muster_sim_run(t.sim, SECONDS(19));
    assert_int_equal(t.stopped_workers, 0);
    muster_sim_run(t.sim, SECONDS(22));
    assert_int_equal(t.stopped_workers, 6);
    assert_int_equal(t.worker_status, MUSTER_ERR_PEER_LOST);
    toy_fini(&t);
}

static void a_narrow_link_gets_the_newest_model_not_all(void **state)
{
    (void)state;
    toy t;
    toy_opts opts = plain("frc:s=1", 6, 30);
    opts.steps = 100;
    toy_init(&t, &opts);
    muster_sim_run(t.sim, SECONDS(1) / 10);
    uint64_t before = t.bytes_down;
    uint64_t done = t.ends;
    muster_message model = {.kind = MUSTER_MSG_MODEL};
    uint64_t each = muster_message_bytes(&model) + sizeof(t.theta);
    // A model takes five steps or so to reach this one.
    muster_sim_set_link(t.sim, 3,
                        (muster_sim_link){100000, 0, (double)each * 20});
    run_to_end(&t);
    assert_right(&t);
    assert_int_equal(t.lost, 0);
    uint64_t sent = (t.bytes_down - before) / each;
    uint64_t steps = t.ends - done;
    assert_in_range(sent, 5 * steps, 5 * steps + steps / 2);
    toy_fini(&t);
}

static void creation_without_memory_is_an_error(void **state)
{
    (void)state;
    toy t;
    toy_opts opts = plain("frc:s=1", 6, 30);
    toy_init(&t, &opts);
    muster_coordinator_opts coordinator = MUSTER_COORDINATOR_OPTS_INIT;
    coordinator.code = t.code;
    coordinator.run = 1;
    coordinator.message_dim = TOY_DIM;
    coordinator.model = toy_blob(t.theta, sizeof(t.theta));
    coordinator.shuffle = "targeted";
    muster_worker_opts worker = MUSTER_WORKER_OPTS_INIT;
    snprintf(worker.address, sizeof(worker.address), "sim:0");
    muster_role role;
    for (int who = 0; who < 2; who++) {
        muster_status status = MUSTER_ERR_NO_MEMORY;
        uint64_t allowed = 0;
        for (; status == MUSTER_ERR_NO_MEMORY; allowed++) {
            muster_mem_fail_after(allowed);
            status = who == 0
                         ? muster_coordinator_create(&coordinator, NULL, &role)
                         : muster_worker_create(&worker, NULL, &role);
            muster_mem_fail_after(UINT64_MAX);
        }
        assert_int_equal(status, MUSTER_OK);
        // A worker is one block.
        assert_true(allowed > (who == 0 ? 2 : 1));
        role.ops->free(role.state);
    }
    muster_blob_unref(coordinator.model);
    toy_fini(&t);
}

static void options_that_make_no_sense_are_refused(void **state)
{
    (void)state;
    toy t;
    toy_opts opts = plain("frc:s=1", 6, 30);
    toy_init(&t, &opts);
    muster_coordinator_opts good = MUSTER_COORDINATOR_OPTS_INIT;
    good.code = t.code;
    good.run = 1;
    good.message_dim = TOY_DIM;
    good.model = toy_blob(t.theta, sizeof(t.theta));
    muster_role role;
    muster_error error;
    for (int i = 0; i < 5; i++) {
        muster_coordinator_opts bad = good;
        bad.code = i == 0 ? NULL : bad.code;
        bad.run = i == 1 ? 0 : bad.run;
        bad.patience_ns = i == 2 ? 0 : bad.patience_ns;
        bad.saved = i == 3 ? "nonsense" : bad.saved;
        bad.saved_bytes = i == 3 ? 8 : 0;
        bad.struct_size = i == 4 ? 8 : bad.struct_size;
        assert_int_equal(muster_coordinator_create(&bad, &error, &role),
                         MUSTER_ERR_INVALID);
    }
    muster_worker_opts nowhere = MUSTER_WORKER_OPTS_INIT;
    assert_int_equal(muster_worker_create(&nowhere, &error, &role),
                     MUSTER_ERR_INVALID);
    muster_blob_unref(good.model);
    toy_fini(&t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(undisturbed_training_ends_right),
        cmocka_unit_test(a_step_is_decoded_once),
        cmocka_unit_test(bytes_are_those_of_messages_and_models),
        cmocka_unit_test(a_silent_worker_is_named_within_its_window),
        cmocka_unit_test(nobody_is_lost_when_all_are_stopped_for_a_while),
        cmocka_unit_test(reading_the_data_may_take_longer_than_patience),
        cmocka_unit_test(a_stuck_worker_is_not_taken_for_a_living_one),
        cmocka_unit_test(a_long_step_says_who_is_waited_for),
        cmocka_unit_test(training_pauses_and_goes_on_when_someone_returns),
        cmocka_unit_test(patience_ends_with_quorum_after_a_snapshot),
        cmocka_unit_test(an_interrupt_saves_and_tells_everybody),
        cmocka_unit_test(an_interrupted_worker_says_that_it_leaves),
        cmocka_unit_test(
            a_restarted_coordinator_finds_its_workers_and_their_parts),
        cmocka_unit_test(training_starts_without_a_worker_that_never_comes),
        cmocka_unit_test(nobody_loses_its_number_while_it_lives),
        cmocka_unit_test(a_stranger_waits_until_a_place_is_free),
        cmocka_unit_test(one_whose_place_was_taken_looks_for_another),
        cmocka_unit_test(a_number_out_of_range_is_refused),
        cmocka_unit_test(a_worker_alone_gives_up_after_its_patience),
        cmocka_unit_test(a_narrow_link_gets_the_newest_model_not_all),
        cmocka_unit_test(creation_without_memory_is_an_error),
        cmocka_unit_test(options_that_make_no_sense_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
