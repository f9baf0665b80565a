/*
 * hier_test.c -- the two-layer code: its load is the bound for every topology
 * of the paper's notes, every pattern of lost edges and workers decodes, by one
 * decoder and by two layers of them, and what cannot be is refused with what
 * could.
 */
#include <stdlib.h>

#include "code/code_test.h"
#include "code/hier.h"

static muster_code *build_hier(const char *topology, const char *numbers)
{
    char name[128];
    muster_code_opts opts = MUSTER_CODE_OPTS_INIT;
    muster_error error = {MUSTER_OK, ""};
    muster_code *code = NULL;
    (void)snprintf(name, sizeof(name), "hier:%s", numbers);
    opts.name = name;
    opts.topology = topology;
    unsigned edges = 0;
    unsigned workers = 0;
    for (const char *at = topology; at != NULL;) {
        if (sscanf(at, "%ux%u", &edges, &workers) == 2) {
            opts.workers += edges * workers;
        } else {
            opts.workers += (uint32_t)strtoul(at, NULL, 10);
        }
        at = strchr(at, ',');
        at = at != NULL ? at + 1 : NULL;
    }
    muster_status status = muster_code_create(&opts, &error, &code);
    if (status != MUSTER_OK) {
        fail_msg("%s %s: %s", topology, name, error.text);
    }
    return code;
}

/* Every worker has the load of the bound. */
static void check_load(const char *topology, const char *numbers)
{
    muster_code *code = build_hier(topology, numbers);
    muster_hier_numbers numbers_of = muster_hier_numbers_of(code);
    const muster_code_info *info = muster_code_numbers(code);
    for (uint32_t w = 0; w < info->workers; w++) {
        const uint32_t *parts;
        uint32_t count;
        assert_int_equal(muster_code_parts(code, w, &parts, &count), MUSTER_OK);
        double load = (double)count / info->parts;
        if (fabs(load - numbers_of.load_bound) > 1e-12) {
            fail_msg("%s %s: worker %u has %u of %u parts, the bound is %g",
                     topology, numbers, w, count, info->parts,
                     numbers_of.load_bound);
        }
    }
    assert_true(fabs(numbers_of.load - numbers_of.load_bound) < 1e-12);
    assert_true(info->warning == NULL);
    muster_code_free(code);
}

static void the_load_is_the_bound(void **state)
{
    (void)state;
    check_load("4,4,4", "se=1,sw=1");
    check_load("4x10", "se=1,sw=3");
    check_load("3,4,5,6", "se=1,sw=2");
    check_load("5,10,10,15", "se=1,sw=2");
    check_load("4,5,6", "se=1,sw=1");
    check_load("4x10", "se=0,sw=0");
    check_load("4x10", "se=3,sw=9");
    check_load("3,4,5,6", "se=0,sw=2");
    check_load("3,4,5,6", "se=2,sw=0");
    check_load("3,4,5,6", "se=1,sw=1,me=2");
    check_load("3,4,5,6", "se=1,sw=1,mw=2");
    check_load("4x6", "se=1,sw=1,me=3,mw=2");
    check_load("1", "se=0,sw=0");
    check_load("100x100", "se=1,sw=1");
}

static void the_parts_are_as_few_as_in_the_notes(void **state)
{
    (void)state;
    static const struct {
        const char *topology;
        const char *numbers;
        uint32_t parts;
        uint32_t load;
    } known[] = {{"4,4,4", "se=1,sw=1", 6, 2},
                 {"4x10", "se=1,sw=3", 20, 4},
                 {"3,4,5,6", "se=1,sw=2", 9, 3},
                 {"5,10,10,15", "se=1,sw=2", 20, 3},
                 {"4,5,6", "se=1,sw=1", 15, 4}};
    for (size_t i = 0; i < sizeof(known) / sizeof(known[0]); i++) {
        muster_code *code = build_hier(known[i].topology, known[i].numbers);
        assert_int_equal(muster_code_numbers(code)->parts, known[i].parts);
        assert_int_equal(muster_code_numbers(code)->load, known[i].load);
        muster_code_free(code);
    }
}

/* ---- every pattern -------------------------------------------------------
 */

/* Does this set leave n - s_e edges with m_i - s_w workers each? */
static bool must_decode(const muster_code *code, uint32_t mask)
{
    muster_hier_numbers numbers = muster_hier_numbers_of(code);
    uint32_t good = 0;
    for (uint32_t e = 0; e < numbers.edges; e++) {
        uint32_t missing = 0;
        for (uint32_t w = muster_hier_first(code, e);
             w < muster_hier_first(code, e + 1); w++) {
            missing += (mask >> w & 1u) == 0;
        }
        good += missing <= numbers.worker_stragglers;
    }
    return good + numbers.edge_stragglers >= numbers.edges;
}

/* Decode with weights of `code` from the messages of these responders. */
static muster_status decode(const muster_code *code, const uint32_t *responders,
                            uint32_t count, const float *const *messages,
                            size_t dim, float *out)
{
    muster_code_decode_term terms[512];
    size_t term_count;
    muster_code_fit fit = MUSTER_CODE_FIT_INIT;
    assert_true(muster_code_decode_terms_max(code) <= 512);
    muster_status status =
        muster_code_weights(code, responders, count, terms, &term_count, &fit);
    muster_code_decode_input input = {terms, term_count, messages};
    assert_int_equal(muster_code_decode(code, &input, dim, NULL, out),
                     MUSTER_OK);
    return status;
}

enum { DIM = 23, EDGES_MAX = 8 };

/* As edges and a coordinator do it; the relative error. */
static double decode_in_layers(const code_bench *bench, uint32_t mask)
{
    const muster_code *code = bench->code;
    muster_hier_numbers numbers = muster_hier_numbers_of(code);
    size_t length = muster_hier_edge_length(code, DIM);
    static float sent[EDGES_MAX][2 * DIM];
    const float *messages[EDGES_MAX] = {NULL};
    uint32_t heard[EDGES_MAX];
    uint32_t heard_count = 0;
    for (uint32_t e = 0; e < numbers.edges; e++) {
        const muster_code *inner = muster_hier_inner(code, e);
        uint32_t first = muster_hier_first(code, e);
        uint32_t members[32];
        uint32_t count = 0;
        for (uint32_t w = first; w < muster_hier_first(code, e + 1); w++) {
            assert_int_equal(muster_hier_edge_of(code, w), e);
            members[count] = w - first;
            count += mask >> w & 1u;
        }
        muster_code_progress *progress = NULL;
        assert_int_equal(muster_code_progress_create(inner, &progress),
                         MUSTER_OK);
        if (count > 0 && ready_after(progress, members, count)) {
            assert_int_equal(decode(inner, members, count,
                                    bench->pointers + first, length, sent[e]),
                             MUSTER_OK);
            messages[e] = sent[e];
            heard[heard_count++] = e;
        }
        muster_code_progress_free(progress);
    }
    float out[4 * DIM];
    const muster_code *outer = muster_hier_outer(code);
    size_t padded = length * numbers.edge_comm;
    assert_int_equal(muster_code_block_length(outer, padded), length);
    assert_int_equal(decode(outer, heard, heard_count, messages, padded, out),
                     MUSTER_OK);
    double off = 0.0;
    double size = 0.0;
    for (size_t t = 0; t < DIM; t++) {
        off +=
            ((double)out[t] - bench->sum[t]) * ((double)out[t] - bench->sum[t]);
        size += bench->sum[t] * bench->sum[t];
    }
    return sqrt(off / size);
}

static void check_pattern(code_bench *bench, muster_code_progress *progress,
                          uint32_t mask, double *worst)
{
    uint32_t responders[32];
    uint32_t count = members(mask, bench->info.workers, responders);
    muster_status status;
    muster_code_fit fit = MUSTER_CODE_FIT_INIT;
    bool ready = ready_after(progress, responders, count);
    double error = bench_decode(bench, responders, count, &status, &fit);
    if (must_decode(bench->code, mask) && !ready) {
        fail_msg("mask %x is not ready", mask);
    }
    if (ready) {
        assert_int_equal(status, MUSTER_OK);
        worst[0] = fmax(worst[0], error);
        worst[1] = fmax(worst[1], decode_in_layers(bench, mask));
    } else if (status != MUSTER_OK) {
        assert_true(error > 1e-5 && fit.residual > 1e-6);
    }
}

static void check_patterns(const char *topology, const char *numbers)
{
    code_bench bench;
    bench_init(&bench, build_hier(topology, numbers), DIM, 11);
    muster_code_progress *progress = NULL;
    assert_int_equal(muster_code_progress_create(bench.code, &progress),
                     MUSTER_OK);
    double worst[2] = {0.0, 0.0};
    for (uint32_t mask = 1; mask < 1u << bench.info.workers; mask++) {
        if (must_decode(bench.code, mask) || mask % 61 == 0) {
            check_pattern(&bench, progress, mask, worst);
        }
    }
    if (!(worst[0] <= 1e-4) || !(worst[1] <= 1e-4)) {
        fail_msg("%s %s: off by %g, in layers by %g", topology, numbers,
                 worst[0], worst[1]);
    }
    muster_code_progress_free(progress);
    bench_fini(&bench);
}

static void every_pattern_of_lost_edges_and_workers_decodes(void **state)
{
    (void)state;
    check_patterns("4,4,4", "se=1,sw=1");
    check_patterns("4,4,4", "se=2,sw=1");
    check_patterns("2,3,4", "se=1,sw=1");
    check_patterns("2,3,4", "se=0,sw=1");
    check_patterns("3,3,3,3", "se=1,sw=2");
    check_patterns("2,3,3,4", "se=2,sw=1");
    check_patterns("5x2", "se=3,sw=1");
}

static void shorter_messages_of_either_layer_decode(void **state)
{
    (void)state;
    check_patterns("2,3,4", "se=1,sw=0,me=1,mw=2");
    check_patterns("2,3,4", "se=0,sw=1,me=2,mw=1");
    check_patterns("3,3,3,3", "se=1,sw=1,me=2,mw=2");
    check_patterns("4x3", "se=2,sw=0,me=2,mw=3");
    check_patterns("2,3,3,4", "se=1,sw=0,me=2,mw=2");
    check_patterns("3,3,3", "se=1,sw=1,inner=rs");
    check_patterns("4,4,3", "se=0,sw=1,inner=linear:repetition");
}

/* s_e edges lost and s_w workers under each other one, at random. */
static void check_random_patterns(const char *topology, const char *numbers)
{
    code_bench bench;
    bench_init(&bench, build_hier(topology, numbers), 16, 5);
    muster_hier_numbers of = muster_hier_numbers_of(bench.code);
    muster_rng rng = muster_rng_make(3, 4);
    double worst = 0.0;
    for (int trial = 0; trial < 300; trial++) {
        uint32_t responders[64];
        uint32_t count = 0;
        uint32_t lost = of.edge_stragglers;
        for (uint32_t e = 0; e < of.edges; e++) {
            uint32_t first = muster_hier_first(bench.code, e);
            uint32_t end = muster_hier_first(bench.code, e + 1);
            if (muster_rng_below(&rng, of.edges - e) < lost) {
                lost--;
                continue;
            }
            uint32_t missing = of.worker_stragglers;
            for (uint32_t w = first; w < end; w++) {
                bool drop = muster_rng_below(&rng, end - w) < missing;
                missing -= drop;
                responders[count] = w;
                count += !drop;
            }
        }
        muster_status status;
        muster_code_fit fit = MUSTER_CODE_FIT_INIT;
        worst =
            fmax(worst, bench_decode(&bench, responders, count, &status, &fit));
        assert_int_equal(status, MUSTER_OK);
    }
    if (!(worst <= 1e-4)) {
        fail_msg("%s %s: off by %g", topology, numbers, worst);
    }
    bench_fini(&bench);
}

static void the_large_topologies_decode_at_their_limit(void **state)
{
    (void)state;
    check_random_patterns("4x10", "se=1,sw=3");
    check_random_patterns("3,4,5,6", "se=1,sw=2");
    check_random_patterns("5,10,10,15", "se=1,sw=2");
    check_random_patterns("4,5,6", "se=1,sw=1");
    check_random_patterns("4x10", "se=2,sw=2,me=2,mw=3");
}

/* ---- numbers ------------------------------------------------------------- */

static void what_cannot_be_is_refused_with_what_can(void **state)
{
    (void)state;
    static const struct {
        const char *name;
        uint32_t workers;
        const char *text;
    } wrong[] = {
        {"hier:edges=2,2,10,se=1", 14,
         "edge 2 has 10 of the 14 workers and would hold more than all parts 2 "
         "times over (se = 1, me = 1); feasible are se + me <= 1, or at most 7 "
         "workers under an edge"},
        {"hier:edges=3,4,sw=3", 7,
         "need 4 workers under every edge, edge 0 has 3: sw + mw <= 3"},
        {"hier:edges=4x2,se=4", 8, "feasible are se + me <= 4"},
        {"hier:edges=4x2,se=1", 9, "has 8 workers, the cluster has 9"},
        {"hier:se=1", 8, "add a topology such as 4x10"},
        {"hier:edges=4y2", 8, "'4y2' is no topology"},
        {"hier:edges=4x0", 8, "'4x0' is no topology"},
        {"hier:edges=4x2,s=1", 8, "hier takes se=, sw=, me= and mw="},
        {"hier:edges=4x2,m=2", 8, "say by which layer"},
        {"hier:edges=4x2,sww=1", 8, "did you mean sw?"},
        {"hier:edges=4x2,inner=ignore", 8, "inner=ignore is not exact"},
    };
    for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
        muster_code_opts opts = MUSTER_CODE_OPTS_INIT;
        muster_error error = {MUSTER_OK, ""};
        muster_code *code = NULL;
        opts.name = wrong[i].name;
        opts.workers = wrong[i].workers;
        assert_true(muster_code_create(&opts, &error, &code) < 0);
        if (strstr(error.text, wrong[i].text) == NULL) {
            fail_msg("%s: %s", wrong[i].name, error.text);
        }
    }
}

static void the_flat_code_of_equal_protection_needs_more(void **state)
{
    (void)state;
    muster_code *code = build_hier("4x10", "se=1,sw=2");
    muster_hier_numbers numbers = muster_hier_numbers_of(code);
    assert_int_equal(numbers.flat_stragglers, 16);
    assert_true(fabs(numbers.flat_load - 0.425) < 1e-12);
    assert_true(fabs(numbers.load - 0.15) < 1e-12);
    assert_int_equal(muster_code_numbers(code)->stragglers, 5);
    muster_code_free(code);
}

static void out_of_memory_is_reported_and_leaks_nothing(void **state)
{
    (void)state;
    muster_code_opts opts = MUSTER_CODE_OPTS_INIT;
    opts.name = "hier:se=1,sw=1";
    opts.topology = "2,3,4";
    opts.workers = 9;
    uint64_t allowed = 0;
    for (;; allowed += 1 + allowed / 8) {
        muster_code *code = NULL;
        muster_mem_fail_after(allowed);
        muster_status status = muster_code_create(&opts, NULL, &code);
        muster_mem_fail_after(UINT64_MAX);
        if (status == MUSTER_OK) {
            muster_code_free(code);
            break;
        }
        assert_int_equal(status, MUSTER_ERR_NO_MEMORY);
    }
    assert_true(allowed > 20);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_load_is_the_bound),
        cmocka_unit_test(the_parts_are_as_few_as_in_the_notes),
        cmocka_unit_test(every_pattern_of_lost_edges_and_workers_decodes),
        cmocka_unit_test(shorter_messages_of_either_layer_decode),
        cmocka_unit_test(the_large_topologies_decode_at_their_limit),
        cmocka_unit_test(what_cannot_be_is_refused_with_what_can),
        cmocka_unit_test(the_flat_code_of_equal_protection_needs_more),
        cmocka_unit_test(out_of_memory_is_reported_and_leaks_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
