/*
 * file_test.c -- cluster files: what is read is what was written, and whatever
 * is wrong is named by file, line and key.
 */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "base/mem.h"
#include "cluster/file.h"

static muster_cluster *parse(const char *text)
{
    muster_error error = {MUSTER_OK, ""};
    muster_cluster *cluster = NULL;
    muster_status status =
        muster_cluster_parse(text, strlen(text), "c.yaml", &error, &cluster);
    if (status != MUSTER_OK) {
        fail_msg("%s", error.text);
    }
    return cluster;
}

static const char two_layers[] =
    "version: 1\n"
    "edges:\n"
    "  - workers: [{count: 8}, {count: 2, speed: 0.1}]\n"
    "  - count: 2\n"
    "    link: {bandwidth: 100}\n"
    "    bandwidth: 400\n"
    "    workers: [{link: {loss: 0.5}}]\n"
    "defaults:\n"
    "  worker: {compute: {shift: 10ms, mean: 5ms}, link: {latency: 20ms}}\n"
    "  edge: {link: {latency: 50ms, loss: 0.1}}\n"
    "coordinator: {bandwidth: 1000}\n";

static void check_two_layers(const muster_cluster *cluster)
{
    assert_int_equal(cluster->worker_count, 12);
    assert_int_equal(cluster->edge_count, 3);
    assert_int_equal(cluster->edges[0].workers, 10);
    assert_int_equal(cluster->edges[2].first, 11);
    assert_true(cluster->workers[7].speed == 1);
    assert_true(fabs(cluster->workers[8].speed - 0.1) < 1e-9);
    assert_true(fabs(cluster->workers[8].shift_s - 0.01) < 1e-9);
    assert_true(fabs(cluster->workers[11].mean_s - 0.005) < 1e-9);
    assert_true(fabs(cluster->workers[11].link.latency_s - 0.02) < 1e-9);
    assert_true(cluster->workers[11].link.loss == 0.5);
    assert_true(cluster->workers[9].link.loss == 0);
    assert_true(fabs(cluster->edges[1].link.latency_s - 0.05) < 1e-9);
    assert_true(fabs(cluster->edges[1].link.bytes_per_s - 12.5e6) < 1);
    assert_true(cluster->edges[0].link.bytes_per_s == 0);
    assert_true(fabs(cluster->edges[2].bytes_per_s - 50e6) < 1);
    assert_true(cluster->edges[0].bytes_per_s == 0);
    assert_true(fabs(cluster->bytes_per_s - 125e6) < 1);
}

static void what_is_written_is_read(void **state)
{
    (void)state;
    muster_cluster *cluster = parse(two_layers);
    check_two_layers(cluster);
    char *text = muster_cluster_text(cluster);
    assert_non_null(text);
    muster_cluster *again = parse(text);
    check_two_layers(again);
    muster_mem_free(text);
    muster_cluster_free(again);
    muster_cluster_free(cluster);
}

static void a_subset_does_the_same_work(void **state)
{
    (void)state;
    muster_cluster *cluster = parse(two_layers);
    bool keep[12] = {[1] = true, [8] = true, [11] = true};
    muster_cluster *subset = muster_cluster_subset(cluster, keep);
    assert_int_equal(subset->worker_count, 3);
    assert_int_equal(subset->edge_count, 2);
    assert_int_equal(subset->edges[0].workers, 2);
    assert_int_equal(subset->edges[1].first, 2);
    assert_true(fabs(subset->workers[0].shift_s - 0.01 * 12 / 3) < 1e-12);
    assert_true(fabs(subset->workers[1].speed - 0.1) < 1e-9);
    assert_true(subset->workers[2].link.loss == 0.5);
    assert_true(subset->bytes_per_s == cluster->bytes_per_s);
    muster_cluster_free(subset);
    muster_cluster_free(cluster);
}

static void flat_clusters_have_no_edges(void **state)
{
    (void)state;
    muster_cluster *cluster =
        parse("version: 1\nworkers: [{speed: 2}, {count: 3}]\n");
    assert_int_equal(cluster->worker_count, 4);
    assert_int_equal(cluster->edge_count, 0);
    double speeds[4];
    muster_cluster_speeds(cluster, speeds);
    assert_true(speeds[0] == 2 && speeds[3] == 1);
    for (int i = 0; i < 4; i++) {
        cluster->workers[i].mean_s = i == 0 ? 0.5 : 1;
    }
    muster_cluster_speeds(cluster, speeds);
    assert_true(speeds[0] == 4 && speeds[3] == 1);
    muster_cluster_free(cluster);
}

static void workers_may_share_processors(void **state)
{
    (void)state;
    static const bool keep[4] = {true, false, true, true};
    muster_cluster *cluster =
        parse("version: 1\nprocessors: 2\nworkers: [{count: 4}]\n");
    assert_int_equal(cluster->processors, 2);
    muster_cluster *subset = muster_cluster_subset(cluster, keep);
    char *text = muster_cluster_text(subset);
    muster_cluster *again = parse(text);
    assert_int_equal(again->processors, 2);
    assert_int_equal(again->worker_count, 3);
    muster_cluster_free(again);
    muster_mem_free(text);
    muster_cluster_free(subset);
    muster_cluster_free(cluster);
}

static void mistakes_are_named_by_line_and_key(void **state)
{
    (void)state;
    static const char *const wrong[][2] = {
        {"", "c.yaml:1: expected `version: 1`"},
        {"workers: [{}]\n", "`version: 1` is missing"},
        {"version: 2\nworkers: [{}]\n", "c.yaml:1: version: this version"},
        {"version: 1\n", "give `workers`, or `edges`"},
        {"version: 1\nprocessors: 0\nworkers: [{}]\n",
         "c.yaml:2: processors: expected a whole number from 1 to 65536"},
        {"version: 1\nworkers: []\n", "c.yaml:2: workers: expected a list"},
        {"version: 1\nworkers: [{}]\nedges: [{}]\n", "give `workers`, or"},
        {"version: 1\nworkers:\n  - {}\n  - {sped: 1}\n",
         "c.yaml:4: workers[1].sped: key sped: unknown; did you mean speed?"},
        {"version: 1\nworkers:\n  - {speed: -1}\n",
         "c.yaml:3: workers[0].speed: expected a number"},
        {"version: 1\nworkers:\n  - {speed: nan}\n", "workers[0].speed"},
        {"version: 1\nworkers:\n  - link: {latency: 5}\n",
         "workers[0].link.latency: expected a time such as 20ms"},
        {"version: 1\nworkers:\n  - link: {loss: 1}\n",
         "workers[0].link.loss: expected a number from 0 to 0.999"},
        {"version: 1\nworkers:\n  - link: 3\n", "link: expected keys"},
        {"version: 1\nworkers: [{count: 0}]\n", "count: expected a whole"},
        {"version: 1\nworkers: [{count: 65536}, {}]\n", "more than 65536"},
        {"version: 1\nedges: [{count: 9, workers: [{count: 60000}]}]\n",
         "edges[0]: more than 65536"},
        {"version: 1\ncoordinator: {speed: 3}\nworkers: [{}]\n",
         "c.yaml:2: coordinator.speed: key speed: unknown"},
        {"version: 1\nedges:\n  - {count: 3}\n",
         "c.yaml:3: edges[0]: an edge needs `workers`"},
        {"version: 1\ndefaults: {worker: {count: 2}}\nworkers: [{}]\n",
         "a default has no count"},
        {"version: 1\nworker: [{}]\nworkers: [{}]\n", "did you mean workers?"},
        {"version: [1\n", "c.yaml:"},
    };
    for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
        muster_error error = {MUSTER_OK, ""};
        muster_cluster *cluster = NULL;
        muster_status status = muster_cluster_parse(
            wrong[i][0], strlen(wrong[i][0]), "c.yaml", &error, &cluster);
        if (status != MUSTER_ERR_INPUT || error.status != status ||
            strstr(error.text, wrong[i][1]) == NULL) {
            fail_msg("%s gave: %s", wrong[i][0], error.text);
        }
    }
    muster_error error = {MUSTER_OK, ""};
    muster_cluster *cluster = NULL;
    assert_int_equal(muster_cluster_read("/nonexistent.yaml", &error, &cluster),
                     MUSTER_ERR_INPUT);
    assert_non_null(strstr(error.text, "/nonexistent.yaml: cannot be opened"));
}

static void out_of_memory_leaks_nothing(void **state)
{
    (void)state;
    for (uint64_t allowed = 0;; allowed++) {
        muster_cluster *cluster = NULL;
        muster_mem_fail_after(allowed);
        muster_status status = muster_cluster_parse(
            two_layers, strlen(two_layers), "c.yaml", NULL, &cluster);
        char *text = status == MUSTER_OK ? muster_cluster_text(cluster) : NULL;
        muster_mem_fail_after(UINT64_MAX);
        muster_cluster_free(cluster);
        if (text != NULL) {
            muster_mem_free(text);
            break;
        }
        assert_true(status == MUSTER_OK || status == MUSTER_ERR_NO_MEMORY);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_written_is_read),
        cmocka_unit_test(a_subset_does_the_same_work),
        cmocka_unit_test(flat_clusters_have_no_edges),
        cmocka_unit_test(workers_may_share_processors),
        cmocka_unit_test(mistakes_are_named_by_line_and_key),
        cmocka_unit_test(out_of_memory_leaks_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
