/*
 * plan_test.c -- plans: the clusters of the paper's notes, the table of Ye and
 * Abbe's model, machines that are left out, and estimates against the `ready`
 * of the real codes.
 */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/mem.h"
#include "base/rng.h"
#include "muster/code.h"
#include "plan/plan.h"
#include "plan/search.h"

static muster_plan *make_plan(const char *text, uint64_t floats, bool all)
{
    muster_plan_opts opts = MUSTER_PLAN_OPTS_INIT;
    opts.all_workers = all;
    muster_error error = {MUSTER_OK, ""};
    muster_plan *plan = NULL;
    opts.cluster = text;
    opts.model_floats = floats;
    if (muster_plan_create(&opts, &error, &plan) != MUSTER_OK) {
        fail_msg("%s", error.text);
    }
    return plan;
}

static muster_plan_choice labelled(const muster_plan *plan, const char *label)
{
    muster_plan_choice choice = MUSTER_PLAN_CHOICE_INIT;
    for (uint32_t i = 0; i < muster_plan_alternative_count(plan); i++) {
        assert_int_equal(muster_plan_alternative(plan, i, &choice), MUSTER_OK);
        if (strcmp(choice.label, label) == 0) {
            return choice;
        }
    }
    fail_msg("no alternative %s", label);
    return choice;
}

/* The strongly heterogeneous 4 x 10 cluster of the notes: one edge link 20
 * times slower, two workers under each edge 10 times slower. */
static const char strong[] =
    "version: 1\n"
    "defaults:\n"
    "  worker:\n"
    "    compute: {shift: 10ms, mean: 5ms}\n"
    "    link: {latency: 20ms, loss: 0.1}\n"
    "  edge: {link: {latency: 50ms, loss: 0.1}}\n"
    "edges:\n"
    "  - link: {latency: 1s}\n"
    "    workers: [{count: 8}, {count: 2, speed: 0.1}]\n"
    "  - count: 3\n"
    "    workers: [{count: 8}, {count: 2, speed: 0.1}]\n";

static void a_strongly_unequal_cluster_gains_6_times(void **state)
{
    (void)state;
    muster_plan *plan = make_plan(strong, 0, true);
    muster_plan_choice chosen = MUSTER_PLAN_CHOICE_INIT;
    assert_int_equal(muster_plan_chosen(plan, &chosen), MUSTER_OK);
    muster_plan_choice uncoded = labelled(plan, "uncoded");
    if (strcmp(chosen.code, "hier") != 0 ||
        uncoded.expected_ms < 6 * chosen.expected_ms) {
        fail_msg("%s %g ms, uncoded %g ms", chosen.spec, chosen.expected_ms,
                 uncoded.expected_ms);
    }
    // The notes' own Monte Carlo of uncoded.
    assert_true(fabs(uncoded.expected_ms / 2456 - 1) < 0.03);
    assert_true(labelled(plan, "worker-only").expected_ms > chosen.expected_ms);
    assert_true(labelled(plan, "edge-only").expected_ms > chosen.expected_ms);
    assert_true(labelled(plan, "flat").expected_ms > chosen.expected_ms);
    assert_false(labelled(plan, "ignore").exact);
    muster_plan_free(plan);
}

/* Without the slow edge and the slow workers nothing needs to be coded. */
static void machines_that_cost_more_than_they_bring_are_left_out(void **state)
{
    (void)state;
    muster_plan *all = make_plan(strong, 0, true);
    muster_plan *plan = make_plan(strong, 0, false);
    assert_true(plan->chosen.expected_ms < all->chosen.expected_ms);
    assert_int_equal(plan->chosen.edges, 3);
    assert_int_equal(plan->chosen.workers, 24);
    assert_true(labelled(plan, "all workers").expected_ms ==
                all->chosen.expected_ms);
    muster_plan_worker worker = MUSTER_PLAN_WORKER_INIT;
    assert_int_equal(muster_plan_worker_at(plan, 0, &worker), MUSTER_OK);
    assert_false(worker.used);
    assert_true(worker.load == 0);
    assert_int_equal(muster_plan_worker_at(plan, 10, &worker), MUSTER_OK);
    assert_true(worker.used);
    assert_int_equal(muster_plan_worker_at(plan, 18, &worker), MUSTER_OK);
    assert_false(worker.used);
    // The machines that are used, as a cluster, take as long.
    char *used = muster_plan_used(plan);
    muster_plan *again = make_plan(used, 0, true);
    assert_string_equal(again->chosen.spec, plan->chosen.spec);
    assert_true(fabs(again->chosen.expected_ms / plan->chosen.expected_ms - 1) <
                0.03);
    char *text = muster_plan_text(plan, true);
    assert_non_null(strstr(text, "left out     workers 0, 1, 2, 3"));
    muster_mem_free(text);
    muster_mem_free(used);
    muster_plan_free(again);
    muster_plan_free(plan);
    muster_plan_free(all);
}

/* Eight messages share the coordinator's NIC: 8 x 100 ms down and up. */
static void a_narrow_nic_of_the_coordinator_wants_short_messages(void **state)
{
    (void)state;
    muster_plan *plan =
        make_plan("version: 1\ncoordinator: {bandwidth: 8}\n"
                  "workers: [{count: 8, compute: {shift: 10ms}}]\n",
                  25000, true);
    muster_plan_choice uncoded = labelled(plan, "uncoded");
    assert_true(fabs(uncoded.expected_ms - (10 + 1600)) < 1);
    assert_true(plan->chosen.m > 1);
    assert_true(plan->chosen.expected_ms < 1600);
    muster_plan_free(plan);
}

static void a_quiet_cluster_stays_uncoded(void **state)
{
    (void)state;
    muster_plan *plan =
        make_plan("version: 1\n"
                  "defaults:\n"
                  "  worker:\n"
                  "    compute: {shift: 10ms, mean: 0.1ms}\n"
                  "    link: {latency: 1ms, loss: 0.01}\n"
                  "  edge: {link: {latency: 1ms, loss: 0.01}}\n"
                  "edges: [{count: 4, workers: [{count: 10}]}]\n",
                  0, false);
    muster_plan_choice chosen = MUSTER_PLAN_CHOICE_INIT;
    assert_int_equal(muster_plan_chosen(plan, &chosen), MUSTER_OK);
    assert_string_equal(chosen.code, "uncoded");
    assert_int_equal(chosen.s, 0);
    assert_int_equal(chosen.d, 1);
    muster_plan_free(plan);
}

/* ---- estimates ----------------------------------------------------------- */

static muster_estimator *estimator_of(const muster_cluster *cluster,
                                      double bytes, uint32_t samples)
{
    muster_estimator_opts opts = {.cluster = cluster,
                                  .message_bytes = bytes,
                                  .samples = samples,
                                  .seed = 7};
    muster_estimator *estimator = muster_estimator_create(&opts);
    assert_non_null(estimator);
    return estimator;
}

/* Order statistics of Exp(1): the k-th of n has the mean H_n - H_(n-k). */
static void order_statistics_have_their_means(void **state)
{
    (void)state;
    muster_cluster *cluster = muster_cluster_create(12);
    for (uint32_t i = 0; i < 12; i++) {
        cluster->workers[i].mean_s = 1;
    }
    muster_estimator *estimator = estimator_of(cluster, 0, 20000);
    for (uint32_t s = 0; s < 12; s++) {
        double expected = 0;
        for (uint32_t i = s + 1; i <= 12; i++) {
            expected += 1.0 / i;
        }
        muster_scheme ignore = {.kind = MUSTER_SCHEME_IGNORE, .s = s, .m = 1};
        double error;
        double mean = muster_estimate_mean_s(estimator, &ignore, 20000, &error);
        assert_true(fabs(mean - expected) < 5 * error + 1e-6);
    }
    // Groups of 3 at load 3: the minimum of 3 a group, the maximum of 4.
    muster_scheme groups = {.kind = MUSTER_SCHEME_GROUPS, .s = 2, .m = 1};
    double error;
    double mean = muster_estimate_mean_s(estimator, &groups, 20000, &error);
    assert_true(fabs(mean - (1 + 1.0 / 2 + 1.0 / 3 + 1.0 / 4)) < 5 * error);
    muster_estimator_free(estimator);
    muster_cluster_free(cluster);
}

/* When a real code is ready, with the estimator's arrival times. */
static double ready_time(muster_code_progress *progress, const double *times,
                         uint32_t n)
{
    bool done[64] = {false};
    muster_code_progress_reset(progress);
    for (uint32_t k = 0; k < n; k++) {
        uint32_t next = n;
        for (uint32_t i = 0; i < n; i++) {
            if (!done[i] && (next == n || times[i] < times[next])) {
                next = i;
            }
        }
        done[next] = true;
        if (muster_code_progress_add(progress, next)) {
            return times[next];
        }
    }
    return INFINITY;
}

/* Step times by `ready` of the built code: all answers at one decoder. */
static void check_against_code(const muster_cluster *cluster,
                               muster_scheme scheme)
{
    char family[32];
    char name[96];
    double *speeds = muster_mem_array(cluster->worker_count, sizeof(double));
    muster_scheme_name(&scheme, cluster, family, sizeof(family), name,
                       sizeof(name));
    muster_code_opts opts = MUSTER_CODE_OPTS_INIT;
    muster_cluster_speeds(cluster, speeds);
    opts.name = name;
    opts.workers = cluster->worker_count;
    opts.speeds = scheme.kind == MUSTER_SCHEME_SPEEDS ? speeds : NULL;
    char *topology =
        cluster->edge_count > 0 ? muster_scheme_topology(cluster) : NULL;
    opts.topology = topology;
    muster_code *code = NULL;
    muster_code_progress *progress = NULL;
    assert_int_equal(muster_code_create(&opts, NULL, &code), MUSTER_OK);
    assert_int_equal(muster_code_progress_create(code, &progress), MUSTER_OK);
    muster_estimator *estimator = estimator_of(cluster, 4e5, 20);
    for (uint32_t i = 0; i < 20; i++) {
        double times[64];
        double edges[8];
        muster_estimate_arrivals(estimator, &scheme, i, times, edges);
        for (uint32_t e = 0;
             scheme.kind == MUSTER_SCHEME_HIER && e < cluster->edge_count;
             e++) {
            const muster_cluster_edge *edge = &cluster->edges[e];
            for (uint32_t w = 0; w < edge->workers; w++) {
                times[edge->first + w] += edges[e];
            }
        }
        double ready = ready_time(progress, times, cluster->worker_count);
        double mine = muster_estimate_draw_s(estimator, &scheme, i);
        if (fabs(mine - ready) > 1e-5 * ready) {
            fail_msg("%s: estimated %g, ready at %g", name, mine, ready);
        }
    }
    muster_estimator_free(estimator);
    muster_code_progress_free(progress);
    muster_code_free(code);
    muster_mem_free(topology);
    muster_mem_free(speeds);
}

static muster_cluster *parse(const char *text)
{
    muster_cluster *cluster = NULL;
    assert_int_equal(
        muster_cluster_parse(text, strlen(text), "c", NULL, &cluster),
        MUSTER_OK);
    return cluster;
}

static void estimates_agree_with_ready_of_the_codes(void **state)
{
    (void)state;
    muster_cluster *flat =
        parse("version: 1\nworkers: [{count: 7, compute: {mean: 1s}, link: "
              "{latency: 1ms, loss: 0.3, bandwidth: 10}}, {count: 3, speed: "
              "2, compute: {shift: 1s, mean: 1s}}]\n");
    for (uint32_t s = 0; s < 4; s++) {
        for (uint32_t m = 1; m < 4; m++) {
            check_against_code(
                flat,
                (muster_scheme){.kind = MUSTER_SCHEME_GROUPS, .s = s, .m = m});
            check_against_code(
                flat,
                (muster_scheme){.kind = MUSTER_SCHEME_SPREAD, .s = s, .m = m});
        }
        check_against_code(
            flat,
            (muster_scheme){.kind = MUSTER_SCHEME_SPEEDS, .s = s, .m = 1});
    }
    muster_cluster_free(flat);
    static const char *const edges[] = {
        "version: 1\nedges: [{link: {latency: 1s, loss: 0.2}, count: 4, "
        "workers: [{count: 6, compute: {mean: 1s}}]}]\n",
        "version: 1\nedges: [{link: {latency: 1s}, workers: [{count: 3, "
        "compute: {mean: 1s}}]}, {workers: [{count: 4, compute: {mean: "
        "1s}}]}, {workers: [{count: 5, compute: {mean: 1s}}]}]\n"};
    for (int i = 0; i < 2; i++) {
        muster_cluster *cluster = parse(edges[i]);
        for (uint32_t s_e = 0; s_e < 2; s_e++) {
            for (uint32_t s_w = 0; s_w < 3; s_w++) {
                check_against_code(cluster,
                                   (muster_scheme){.kind = MUSTER_SCHEME_HIER,
                                                   .m = 1,
                                                   .s_e = s_e,
                                                   .s_w = s_w,
                                                   .m_e = 1,
                                                   .m_w = 1});
            }
        }
        check_against_code(cluster, (muster_scheme){.kind = MUSTER_SCHEME_HIER,
                                                    .m = 2,
                                                    .s_e = 1,
                                                    .s_w = 1,
                                                    .m_e = 1,
                                                    .m_w = 2});
        muster_cluster_free(cluster);
    }
}

/* Work that varies: nothing is computed twice unless somebody is late. The same
 * machines on slow links want shorter messages. */
static void a_code_in_stages_pays_where_computing_is_the_cost(void **state)
{
    (void)state;
    static const char *const links[] = {"", ", link: {bandwidth: 8}"};
    for (int slow = 0; slow < 2; slow++) {
        char text[160];
        (void)snprintf(text, sizeof(text),
                       "version: 1\nworkers: [{count: 12, compute: {shift: "
                       "20ms, mean: 20ms}%s}]\n",
                       links[slow]);
        muster_plan *plan = make_plan(text, 100000, false);
        if (slow) {
            assert_true(plan->chosen.m > 1);
        } else {
            assert_string_equal(plan->chosen.code, "scheduled");
            assert_true(plan->chosen.expected_ms <
                        0.8 * labelled(plan, "uncoded").expected_ms);
            // It computes its own share, and holds those of others too.
            assert_true(plan->workers[0].load == 1);
            assert_true(fabs(plan->workers[0].storage -
                             (plan->chosen.s + 1) / 12.0) < 1e-9);
        }
        muster_plan_free(plan);
    }
}

/* Ye and Abbe's table: d (t1 + Exp) + (t2 + Exp) / m, here with fixed links. */
static void shorter_messages_pay_where_links_are_slow(void **state)
{
    (void)state;
    muster_plan *plan = make_plan(
        "version: 1\nworkers: [{count: 8, compute: {shift: 10ms, mean: 20ms}, "
        "link: {bandwidth: 8}}]\n",
        100000, false);
    muster_plan_choice chosen = MUSTER_PLAN_CHOICE_INIT;
    assert_int_equal(muster_plan_chosen(plan, &chosen), MUSTER_OK);
    assert_true(chosen.m > 1);
    assert_true(chosen.d >= chosen.m);
    muster_plan_free(plan);
}

/* ---- texts and mistakes -------------------------------------------------- */

static void texts_name_what_was_chosen(void **state)
{
    (void)state;
    muster_plan *plan = make_plan(strong, 0, true);
    char *json = muster_plan_json(plan, true);
    char *text = muster_plan_text(plan, true);
    assert_non_null(strstr(json, "{\"chosen\": {\"code\": \"hier\""));
    assert_non_null(strstr(json, "\"alternatives\": [{"));
    assert_non_null(strstr(json, "\"per_worker\": [{\"worker\": 0"));
    assert_non_null(strstr(text, "worker-only"));
    assert_non_null(strstr(text, "in time"));
    muster_mem_free(json);
    muster_mem_free(text);
    muster_plan_worker worker = MUSTER_PLAN_WORKER_INIT;
    assert_int_equal(muster_plan_worker_count(plan), 40);
    assert_int_equal(muster_plan_worker_at(plan, 39, &worker), MUSTER_OK);
    assert_int_equal(worker.edge, 3);
    assert_true(worker.in_time < 0.5); // a slow one
    assert_int_equal(muster_plan_worker_at(plan, 40, &worker),
                     MUSTER_ERR_INVALID);
    muster_plan_free(plan);
}

static void mistakes_of_a_caller_are_refused(void **state)
{
    (void)state;
    muster_plan_opts opts = MUSTER_PLAN_OPTS_INIT;
    muster_error error = {MUSTER_OK, ""};
    muster_plan *plan = NULL;
    assert_int_equal(muster_plan_create(&opts, &error, &plan),
                     MUSTER_ERR_INVALID);
    opts.cluster = "version: 1\nworkers: [{sped: 1}]\n";
    opts.file = "my.yaml";
    assert_int_equal(muster_plan_create(&opts, &error, &plan),
                     MUSTER_ERR_INPUT);
    assert_non_null(strstr(error.text, "my.yaml:2: workers[0].sped"));
}

static void the_code_in_force_is_shown_and_loads_may_be_kept_even(void **state)
{
    (void)state;
    static const char text[] =
        "version: 1\nworkers:\n  - {count: 4, compute: {shift: 10ms}}\n"
        "  - {count: 4, speed: 3, compute: {shift: 10ms}}\n";
    muster_plan_opts opts = MUSTER_PLAN_OPTS_INIT;
    muster_plan *plan = NULL;
    opts.cluster = text;
    opts.in_force = "frc:s=1";
    assert_int_equal(muster_plan_create(&opts, NULL, &plan), MUSTER_OK);
    assert_string_equal(plan->chosen.code, "heter");
    muster_plan_choice frc = labelled(plan, "in force");
    assert_string_equal(frc.spec, "frc:s=1");
    assert_true(fabs(frc.expected_ms - 20) < 1e-6);
    muster_plan_free(plan);
    opts.even = true;
    assert_int_equal(muster_plan_create(&opts, NULL, &plan), MUSTER_OK);
    assert_false(plan->chosen.by_speed);
    muster_plan_free(plan);
}

static void out_of_memory_leaks_nothing(void **state)
{
    (void)state;
    static const char text[] =
        "version: 1\nedges: [{count: 2, workers: [{count: 2, compute: {mean: "
        "1s}}]}]\n";
    for (uint64_t allowed = 0;; allowed += 1 + allowed / 8) {
        muster_plan_opts opts = MUSTER_PLAN_OPTS_INIT;
        muster_plan *plan = NULL;
        opts.cluster = text;
        opts.samples = 16;
        muster_mem_fail_after(allowed);
        muster_status status = muster_plan_create(&opts, NULL, &plan);
        muster_mem_fail_after(UINT64_MAX);
        if (status == MUSTER_OK) {
            muster_plan_free(plan);
            break;
        }
        assert_int_equal(status, MUSTER_ERR_NO_MEMORY);
    }
}

/* Whatever is begun takes its time on them, also where nobody waits for it;
 * what begins after the end of a step does not. */
static void shared_processors_take_their_time_for_all_work(void **state)
{
    (void)state;
    muster_cluster *cluster = muster_cluster_create(8);
    assert_non_null(cluster);
    cluster->processors = 2;
    for (uint32_t w = 0; w < 8; w++) {
        cluster->workers[w].shift_s = 0.01;
        cluster->workers[w].link.latency_s = w < 2 ? 10 : 0;
    }
    muster_scheme frc = {.kind = MUSTER_SCHEME_GROUPS, .s = 3, .m = 1};
    muster_scheme staged = {
        .kind = MUSTER_SCHEME_STAGED, .s = 2, .m = 1, .pieces = 1};
    muster_estimator *estimator = estimator_of(cluster, 0, 4);
    double load_4 = muster_estimate_mean_s(estimator, &frc, 4, NULL);
    double in_stages = muster_estimate_mean_s(estimator, &staged, 4, NULL);
    assert_true(fabs(load_4 - 6 * 4 * 0.01 / 2) < 1e-6);
    assert_true(fabs(in_stages - 8 * 0.01 / 2) < 1e-6);
    muster_estimator_free(estimator);
    muster_cluster_free(cluster);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(order_statistics_have_their_means),
        cmocka_unit_test(estimates_agree_with_ready_of_the_codes),
        cmocka_unit_test(a_strongly_unequal_cluster_gains_6_times),
        cmocka_unit_test(machines_that_cost_more_than_they_bring_are_left_out),
        cmocka_unit_test(a_narrow_nic_of_the_coordinator_wants_short_messages),
        cmocka_unit_test(a_quiet_cluster_stays_uncoded),
        cmocka_unit_test(shorter_messages_pay_where_links_are_slow),
        cmocka_unit_test(a_code_in_stages_pays_where_computing_is_the_cost),
        cmocka_unit_test(shared_processors_take_their_time_for_all_work),
        cmocka_unit_test(texts_name_what_was_chosen),
        cmocka_unit_test(mistakes_of_a_caller_are_refused),
        cmocka_unit_test(the_code_in_force_is_shown_and_loads_may_be_kept_even),
        cmocka_unit_test(out_of_memory_leaks_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
