/*
 * code_test.c -- the promises of muster/code.h, on the families that need no
 * solve or a tiny one. Exhaustive over responder sets: a set decodes exactly
 * if and only if `ready` says so, and the decoded gradient is the plain sum;
 * any other set says INEXACT and its residual.
 */
#define _POSIX_C_SOURCE 200809L
#include <pthread.h>

#include "code/code_test.h"

/* Feed the members of a mask to a fresh progress, in the given direction. */
static bool ready_for(muster_code_progress *progress, uint32_t mask, uint32_t n,
                      bool backwards)
{
    muster_code_progress_reset(progress);
    bool ready = false;
    for (uint32_t i = 0; i < n; i++) {
        uint32_t worker = backwards ? n - 1 - i : i;
        if ((mask >> worker) & 1u) {
            bool now = muster_code_progress_add(progress, worker);
            assert_true(now || !ready); // never taken back
            ready = now;
            assert_int_equal(muster_code_progress_add(progress, worker), ready);
        }
    }
    assert_int_equal(muster_code_progress_ready(progress), ready);
    return ready;
}

static void check_all_sets(const char *name, uint32_t n, uint32_t s, uint32_t m)
{
    code_bench bench;
    bench_init(&bench, build_code(name, n, s, m), 127, 5);
    for (set_walk at = walk_from(&bench, 0); walk_on(&at);) {
        assert_int_equal(ready_for(at.progress, at.mask, n, false), at.ready);
        assert_int_equal(ready_for(at.progress, at.mask, n, true), at.ready);
        assert_int_equal(at.status, at.ready ? MUSTER_OK : MUSTER_INEXACT);
        if (at.count >= n - bench.info.stragglers) {
            assert_true(at.ready);
        }
        if (at.ready) {
            assert_true(at.error < 2e-6);
            assert_true(at.fit.residual < 1e-12);
            assert_int_equal(at.fit.parts_missing, 0);
            assert_true(at.error < 20 * at.fit.error_f32);
        } else {
            // Gradients are random: what is missing shows in the sum.
            assert_true(at.fit.residual > 0.05);
            assert_true(at.error > 0.2 * at.fit.residual);
        }
    }
    bench_fini(&bench);
}

static void every_responder_set_decodes_or_says_so(void **state)
{
    (void)state;
    for (uint32_t n = 1; n <= 10; n++) {
        check_all_sets("uncoded", n, 0, 0);
        for (uint32_t s = 0; s < n; s++) {
            if (n % (s + 1) == 0) {
                check_all_sets("frc", n, s, 0);
            }
        }
    }
    for (uint32_t n = 2; n <= 10; n++) {
        for (uint32_t m = 1; m < n; m++) {
            check_all_sets("linear:spc", n, 1, m);
        }
    }
}

static void numbers_are_as_described(void **state)
{
    (void)state;
    muster_code *code = build_code("frc:s=2", 12, 0, 0);
    muster_code_info info = *muster_code_numbers(code);
    assert_string_equal(info.name, "frc");
    assert_int_equal(info.parts, 12);
    assert_int_equal(info.stragglers, 2);
    assert_int_equal(info.load, 3);
    assert_int_equal(info.comm, 1);
    assert_true(info.exact);
    const uint32_t *parts;
    uint32_t count;
    assert_int_equal(muster_code_parts(code, 5, &parts, &count), MUSTER_OK);
    assert_int_equal(count, 3);
    assert_int_equal(parts[0], 3);
    assert_int_equal(parts[2], 5);
    assert_int_equal(muster_code_parts(code, 12, &parts, &count),
                     MUSTER_ERR_INVALID);
    muster_code_free(code);

    code = build_code("linear:spc", 8, 0, 0);
    info = *muster_code_numbers(code);
    assert_int_equal(info.parts, 6); // two groups of four, three parts each
    assert_int_equal(info.load, 3);
    assert_int_equal(info.comm, 2);
    assert_int_equal(info.stragglers, 1);
    assert_int_equal(muster_code_block_length(code, 7), 4);
    muster_code_free(code);
}

static void refuses(const char *name, uint32_t n, muster_status want,
                    const char *says)
{
    muster_code_opts opts = MUSTER_CODE_OPTS_INIT;
    opts.name = name;
    opts.workers = n;
    muster_error error = {MUSTER_OK, ""};
    muster_code *code = NULL;
    assert_int_equal(muster_code_create(&opts, &error, &code), want);
    assert_null(code);
    if (strstr(error.text, says) == NULL) {
        fail_msg("%s: '%s' does not say '%s'", name, error.text, says);
    }
}

static void illegal_numbers_are_refused_with_legal_ones(void **state)
{
    (void)state;
    refuses("frc:s=2", 8, MUSTER_ERR_UNSUPPORTED, "use s = 1 or s = 3");
    refuses("frc:s=8", 8, MUSTER_ERR_UNSUPPORTED, "at most 7");
    refuses("frc:s=1,m=2", 8, MUSTER_ERR_UNSUPPORTED, "linear:tuned");
    refuses("frc:s=3,d=2", 8, MUSTER_ERR_UNSUPPORTED, "at least 4");
    refuses("frc:d=9", 8, MUSTER_ERR_UNSUPPORTED, "<= 8");
    refuses("frc", 0, MUSTER_ERR_INVALID, "1 to 65536");
    refuses("frc", 70000, MUSTER_ERR_INVALID, "1 to 65536");
    refuses("uncoded:s=1", 8, MUSTER_ERR_UNSUPPORTED, "frc");
    refuses("linear:spc:s=2", 8, MUSTER_ERR_UNSUPPORTED, "linear:tuned");
    refuses("linear:spc:m=8", 8, MUSTER_ERR_UNSUPPORTED, "at least 9");
    refuses("frk", 8, MUSTER_ERR_INVALID,
            "did you mean frc? There are uncoded");
    refuses("", 8, MUSTER_ERR_INVALID, "write NAME");
    refuses("frc:", 8, MUSTER_ERR_INVALID, "no '='");
    refuses("frc:s", 8, MUSTER_ERR_INVALID, "no '='");
    refuses("frc:s=", 8, MUSTER_ERR_INVALID, "empty");
    refuses("frc:s=-1", 8, MUSTER_ERR_INVALID, "s=-1: expected a whole");
    refuses("frc:s=0x1", 8, MUSTER_ERR_INVALID, "s=0x1: expected a whole");
    refuses("frc:sede=1", 8, MUSTER_ERR_INVALID, "did you mean seed?");
    refuses("frc:s=1,s", 8, MUSTER_ERR_INVALID, "s=1,s: expected");
    refuses("frc:s=99999999999999999999999", 8, MUSTER_ERR_INVALID, "whole");
    refuses("frc:colour=red", 8, MUSTER_ERR_INVALID,
            "parameter colour: unknown");
    refuses("frc:q=1,q=2", 8, MUSTER_ERR_INVALID, "frc: q= is given twice");
    refuses("frc:s=1,s=3", 8, MUSTER_ERR_INVALID, "frc: s= is given twice");
    refuses("frc:force=1,force=0", 8, MUSTER_ERR_INVALID, "force= is given");
    muster_code *code = NULL;
    muster_code_opts opts = MUSTER_CODE_OPTS_INIT;
    opts.struct_size = 3;
    assert_int_equal(muster_code_create(&opts, NULL, &code),
                     MUSTER_ERR_INVALID);
    opts.struct_size = sizeof(opts);
    assert_int_equal(muster_code_create(&opts, NULL, &code),
                     MUSTER_ERR_INVALID);
}

static void bad_responder_lists_are_refused(void **state)
{
    (void)state;
    muster_code *code = build_code("frc:s=1", 4, 0, 0);
    muster_code_decode_term terms[4];
    size_t count;
    muster_code_fit fit = MUSTER_CODE_FIT_INIT;
    uint32_t twice[2] = {1, 1};
    uint32_t down[2] = {2, 1};
    uint32_t high[1] = {4};
    assert_int_equal(muster_code_weights(code, twice, 2, terms, &count, &fit),
                     MUSTER_ERR_INVALID);
    assert_int_equal(muster_code_weights(code, down, 2, terms, &count, &fit),
                     MUSTER_ERR_INVALID);
    assert_int_equal(muster_code_weights(code, high, 1, terms, &count, &fit),
                     MUSTER_ERR_INVALID);
    assert_int_equal(muster_code_weights(code, NULL, 0, terms, &count, &fit),
                     MUSTER_INEXACT);
    assert_true(fabs(fit.residual - 1.0) < 1e-15);
    assert_int_equal(fit.parts_missing, 4);
    muster_code_free(code);
}

static void groups_reach_65536_workers(void **state)
{
    (void)state;
    static const char *const names[] = {"frc:s=31", "linear:spc", "uncoded",
                                        "frc:s=65535"};
    for (size_t c = 0; c < sizeof(names) / sizeof(names[0]); c++) {
        muster_code *code = build_code(names[c], 65536, 0, 0);
        uint32_t *all = muster_mem_array(65536, sizeof(uint32_t));
        muster_code_decode_term *terms = muster_mem_array(
            muster_code_decode_terms_max(code), sizeof(*terms));
        for (uint32_t i = 0; i < 65536; i++) {
            all[i] = i;
        }
        size_t count;
        muster_code_fit fit = MUSTER_CODE_FIT_INIT;
        assert_int_equal(
            muster_code_weights(code, all, 65536, terms, &count, &fit),
            MUSTER_OK);
        assert_true(fit.residual < 1e-12);
        muster_mem_free(terms);
        muster_mem_free(all);
        muster_code_free(code);
    }
}

static void out_of_memory_is_reported_and_leaks_nothing(void **state)
{
    (void)state;
    static const char *const names[] = {"uncoded", "frc:s=1", "linear:spc"};
    for (size_t c = 0; c < sizeof(names) / sizeof(names[0]); c++) {
        muster_code_opts opts = MUSTER_CODE_OPTS_INIT;
        opts.name = names[c];
        opts.workers = 8;
        uint64_t allowed = 0;
        for (;; allowed++) {
            muster_code *code = NULL;
            muster_error error;
            muster_mem_fail_after(allowed);
            muster_status status = muster_code_create(&opts, &error, &code);
            muster_mem_fail_after(UINT64_MAX);
            if (status == MUSTER_OK) {
                muster_code_free(code);
                break;
            }
            assert_int_equal(status, MUSTER_ERR_NO_MEMORY);
            assert_int_equal(error.status, MUSTER_ERR_NO_MEMORY);
        }
        assert_true(allowed > 5);
    }
}

/* ---- sharing ------------------------------------------------------------- */

enum {
    SHARE_N = 12,
    SHARE_TERMS = 4 * SHARE_N * SHARE_N,
    SHARE_THREADS = 4,
    SHARE_SETS = 60
};

typedef struct sharer {
    const muster_code *code;
    double sum; // of all weights and coefficients met, in order
    bool failed;
} sharer;

/* What a thread does with a code of others': everything that reads it. */
static void *use_code(void *argument)
{
    sharer *self = argument;
    muster_code_progress *progress = NULL;
    muster_code_decode_term terms[SHARE_TERMS];
    self->failed =
        muster_code_progress_create(self->code, &progress) != MUSTER_OK ||
        muster_code_decode_terms_max(self->code) > SHARE_TERMS;
    for (uint32_t set = 0; !self->failed && set < SHARE_SETS; set++) {
        uint32_t gone = set % SHARE_N;
        uint32_t responders[SHARE_N];
        uint32_t heard =
            members(((1u << SHARE_N) - 1) ^ (1u << gone), SHARE_N, responders);
        const muster_code_encode_term *encoding;
        uint32_t encoded;
        size_t count;
        muster_code_fit fit = MUSTER_CODE_FIT_INIT;
        self->failed = !ready_after(progress, responders, heard) ||
                       muster_code_weights(self->code, responders, heard, terms,
                                           &count, &fit) != MUSTER_OK ||
                       muster_code_encode_terms(self->code, gone, &encoding,
                                                &encoded) != MUSTER_OK;
        for (size_t i = 0; !self->failed && i < count; i++) {
            self->sum += terms[i].weight * (double)(i + 1);
        }
        for (uint32_t i = 0; !self->failed && i < encoded; i++) {
            self->sum += encoding[i].coef;
        }
    }
    muster_code_progress_free(progress);
    return NULL;
}

/* The thread sanitizer looks for what the sums do not show. */
static void a_code_is_shared_by_threads_without_locks(void **state)
{
    (void)state;
    static const char *const names[] = {
        "frc:s=2",         "linear:tuned:s=2,m=2", "cyclic-mds:s=3",
        "rs:s=2",          "ye-abbe-tuned:s=2",    "heter:s=2",
        "heter-group:s=2", "linear:product"};
    for (size_t c = 0; c < sizeof(names) / sizeof(names[0]); c++) {
        muster_code *code = build_code(names[c], SHARE_N, 0, 0);
        sharer alone = {code, 0.0, false};
        sharer all[SHARE_THREADS];
        pthread_t threads[SHARE_THREADS];
        use_code(&alone);
        assert_false(alone.failed);
        for (size_t t = 0; t < SHARE_THREADS; t++) {
            all[t] = (sharer){code, 0.0, false};
            assert_int_equal(
                pthread_create(&threads[t], NULL, use_code, &all[t]), 0);
        }
        for (size_t t = 0; t < SHARE_THREADS; t++) {
            assert_int_equal(pthread_join(threads[t], NULL), 0);
            assert_false(all[t].failed);
            assert_true(all[t].sum == alone.sum);
        }
        muster_code_free(code);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_responder_set_decodes_or_says_so),
        cmocka_unit_test(numbers_are_as_described),
        cmocka_unit_test(illegal_numbers_are_refused_with_legal_ones),
        cmocka_unit_test(bad_responder_lists_are_refused),
        cmocka_unit_test(groups_reach_65536_workers),
        cmocka_unit_test(out_of_memory_is_reported_and_leaks_nothing),
        cmocka_unit_test(a_code_is_shared_by_threads_without_locks),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
