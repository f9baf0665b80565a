/*
 * apply_test.c -- encode and decode over a user's buffers. Every family, every
 * responder set of a small cluster, every length from 1 to 20 and lengths
 * around a tile: the bits are those of a slow twin that adds one product at a
 * time, and what decodes exactly is the plain sum. Neither call allocates.
 */
#include "code/code_test.h"
#include "code/families/families.h"

/* One code of each family, small enough for all responder sets. */
static const struct {
    const char *name;
    uint32_t n;
} every_family[] = {{"uncoded", 4},
                    {"ignore", 5},
                    {"frc:s=1", 6},
                    {"crc:s=1,draws=2", 5},
                    {"cyclic-mds:s=1", 4},
                    {"cyclic-mds:s=2", 7},
                    {"rs:s=1", 4},
                    {"ye-abbe:s=1,m=2", 6},
                    {"ye-abbe-random:s=1,m=3,draws=2", 6},
                    {"ye-abbe-tuned:s=1,m=2", 5},
                    {"heter:s=1", 5},
                    {"heter-group:s=1", 5},
                    {"hier:edges=2,3,4,se=1,sw=1", 9},
                    {"hier:edges=3x3,se=1,mw=2,me=2", 9},
                    {"linear:tuned:s=1,m=2", 7},
                    {"linear:gaussian:s=1,m=2,draws=2", 4},
                    {"linear:vandermonde:s=1,m=2", 4},
                    {"linear:repetition:s=1", 5},
                    {"linear:spc", 6},
                    {"linear:hamming", 7},
                    {"linear:product", 9},
                    {"bgc:d=2,draws=1", 6},
                    {"rbgc:d=2,draws=1", 6},
                    {"sgc:d=2,draws=1", 6},
                    {"erasurehead:d=2", 6},
                    {"graph:degree=2", 5},
                    {"scheduled:s=1", 4}};
enum { FAMILIES = sizeof(every_family) / sizeof(every_family[0]) };

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

/* The gradients of a worker's parts, as muster_code_encode() wants them. */
static void point_at_parts(const code_bench *bench, uint32_t worker,
                           const float **grads)
{
    const uint32_t *parts = NULL;
    uint32_t count = 0;
    assert_int_equal(
        muster_code_answer_parts(bench->code, worker, &parts, &count),
        MUSTER_OK);
    for (uint32_t i = 0; i < count; i++) {
        grads[i] = bench->gradients + parts[i] * bench->dim;
    }
}

/* bench_init() made the messages the slow way. */
static void check_messages(code_bench *bench, double *scratch)
{
    size_t length = muster_code_message_length(bench->code, bench->dim);
    assert_int_equal(length, bench->block * bench->info.message_blocks);
    float *message = muster_mem_array(length + 1, sizeof(float));
    const float **grads =
        muster_mem_array(bench->info.parts, sizeof(const float *));
    for (uint32_t w = 0; w < muster_code_answers(bench->code); w++) {
        point_at_parts(bench, w, grads);
        message[length] = 7.0f;
        muster_mem_fail_after(0);
        muster_status status = muster_code_encode(bench->code, w, grads,
                                                  bench->dim, scratch, message);
        muster_mem_fail_after(UINT64_MAX);
        assert_int_equal(status, MUSTER_OK);
        assert_memory_equal(message, bench->pointers[w],
                            length * sizeof(float));
        assert_true(message[length] == 7.0f);
    }
    muster_mem_free(grads);
    muster_mem_free(message);
}

/* The oracle: one product at a time, in double, rounded once. */
static float slow_coordinate(const code_bench *bench, size_t terms, size_t t)
{
    double sum = 0.0;
    for (size_t i = 0; i < terms; i++) {
        const muster_code_decode_term *term = &bench->terms[i];
        if (term->output_block == t / bench->block) {
            const float *message = bench->pointers[term->worker];
            size_t at = term->message_block * bench->block + t % bench->block;
            sum = sum + term->weight * (double)message[at];
        }
    }
    return (float)sum;
}

static void check_sum(code_bench *bench, const uint32_t *responders,
                      uint32_t count, double *scratch)
{
    muster_code_fit fit = MUSTER_CODE_FIT_INIT;
    size_t terms = 0;
    muster_status solved = muster_code_weights(bench->code, responders, count,
                                               bench->terms, &terms, &fit);
    assert_true(solved >= 0);
    const float *heard[32] = {NULL}; // of the responders alone
    for (uint32_t i = 0; i < count; i++) {
        heard[responders[i]] = bench->pointers[responders[i]];
    }
    const muster_code_decode_input input = {bench->terms, terms, heard};
    muster_mem_fail_after(0);
    muster_status status = muster_code_decode(bench->code, &input, bench->dim,
                                              scratch, bench->out);
    muster_mem_fail_after(UINT64_MAX);
    assert_int_equal(status, MUSTER_OK);
    for (size_t t = 0; t < bench->dim; t++) {
        assert_true(bench->out[t] == slow_coordinate(bench, terms, t));
        double off = fabs((double)bench->out[t] - bench->sum[t]);
        if (solved == MUSTER_OK && off > 1e-4) {
            fail_msg("%s, dim %zu: coordinate %zu is off by %g",
                     bench->info.name, bench->dim, t, off);
        }
    }
}

static void check_dim(const char *name, uint32_t n, size_t dim)
{
    code_bench bench;
    bench_init(&bench, build_code(name, n, 0, 0), dim, dim);
    check_messages(&bench, NULL);
    n = muster_code_answers(bench.code);
    for (uint32_t mask = 1; mask < 1u << n; mask++) {
        uint32_t responders[32];
        uint32_t count = members(mask, n, responders);
        check_sum(&bench, responders, count, NULL);
    }
    bench_fini(&bench);
}

static void every_responder_set_sums_every_short_length(void **state)
{
    (void)state;
    for (size_t i = 0; i < FAMILIES; i++) {
        for (size_t dim = 1; dim <= 20; dim++) {
            check_dim(every_family[i].name, every_family[i].n, dim);
        }
    }
}

/* Short tiles hold 384 coordinates of a block; a block is a half or a third of
 * the gradient where messages are split. */
static void lengths_around_a_tile_leave_no_tail(void **state)
{
    (void)state;
    const size_t dims[] = {383, 384, 385, 767, 769, 1153, 2309};
    double *scratch =
        muster_mem_array(muster_code_scratch_length(), sizeof(double));
    for (size_t i = 0; i < FAMILIES; i++) {
        for (size_t d = 0; d < COUNT(dims); d++) {
            code_bench bench;
            bench_init(
                &bench,
                build_code(every_family[i].name, every_family[i].n, 0, 0),
                dims[d], d);
            uint32_t everyone[32];
            uint32_t count =
                members(UINT32_MAX, muster_code_answers(bench.code), everyone);
            check_messages(&bench, NULL);
            check_sum(&bench, everyone, count, NULL);
            check_messages(&bench, scratch);
            check_sum(&bench, everyone, count, scratch);
            bench_fini(&bench);
        }
    }
    muster_mem_free(scratch);
}

/* A worker of many parts and a sum of many messages come in several groups. */
static void long_sums_have_the_bits_of_the_slow_twin(void **state)
{
    (void)state;
    const char *const names[] = {"frc:s=29", "heter:s=9", "uncoded",
                                 "ye-abbe-tuned:s=9,m=2"};
    double *scratch =
        muster_mem_array(muster_code_scratch_length(), sizeof(double));
    for (size_t i = 0; i < COUNT(names); i++) {
        code_bench bench;
        bench_init(&bench, build_code(names[i], 30, 0, 0), 601, i);
        uint32_t heard[30];
        uint32_t count = 0;
        for (uint32_t w = 0; w < 30; w++) {
            heard[count] = w;
            count += w != 7 || bench.info.stragglers == 0;
        }
        check_messages(&bench, NULL);
        check_sum(&bench, heard, count, NULL);
        check_messages(&bench, scratch);
        check_sum(&bench, heard, count, scratch);
        bench_fini(&bench);
    }
    muster_mem_free(scratch);
}

static void every_family_of_the_table_is_tested_here(void **state)
{
    (void)state;
    for (size_t f = 0; muster_code_families[f] != NULL; f++) {
        const char *family = muster_code_families[f]->name;
        bool found = strcmp(family, "linear:file") == 0; // as linear, from disk
        for (size_t i = 0; i < FAMILIES; i++) {
            size_t length = strlen(family);
            const char *name = every_family[i].name;
            found |= strncmp(name, family, length) == 0 &&
                     (name[length] == ':' || name[length] == '\0');
        }
        if (!found) {
            fail_msg("no code of the family %s is tested", family);
        }
    }
}

static void mistakes_of_a_caller_are_refused(void **state)
{
    (void)state;
    code_bench bench;
    bench_init(&bench, build_code("ye-abbe:s=1,m=2", 5, 0, 0), 9, 1);
    const float *grads[5] = {NULL};
    float message[9];
    point_at_parts(&bench, 0, grads);
    const muster_code *code = bench.code;
    assert_int_equal(muster_code_encode(code, 5, grads, 9, NULL, message),
                     MUSTER_ERR_INVALID);
    assert_int_equal(muster_code_encode(code, 0, grads, 0, NULL, message),
                     MUSTER_ERR_INVALID);
    assert_int_equal(muster_code_encode(code, 0, grads, 9, NULL, NULL),
                     MUSTER_ERR_INVALID);
    grads[1] = NULL;
    assert_int_equal(muster_code_encode(code, 0, grads, 9, NULL, message),
                     MUSTER_ERR_INVALID);
    const float *messages[5] = {bench.pointers[0], bench.pointers[1], NULL};
    const muster_code_decode_term bad[][2] = {
        {{1, 0, 0, 1.0}, {0, 1, 0, 1.0}},  // not sorted
        {{0, 0, 0, 1.0}, {0, 2, 0, 1.0}},  // its message is not there
        {{0, 0, 0, 1.0}, {0, 5, 0, 1.0}},  // no such worker
        {{0, 0, 0, 1.0}, {2, 1, 0, 1.0}},  // no such output block
        {{0, 0, 0, 1.0}, {0, 1, 1, 1.0}}}; // no such message block
    for (size_t i = 0; i < COUNT(bad); i++) {
        const muster_code_decode_input input = {bad[i], 2, messages};
        bench.out[0] = 7.0f;
        assert_int_equal(muster_code_decode(code, &input, 9, NULL, bench.out),
                         MUSTER_ERR_INVALID);
        assert_true(bench.out[0] == 7.0f);
    }
    const muster_code_decode_input one = {bad[0], 1, messages};
    assert_int_equal(muster_code_decode(code, &one, 0, NULL, message),
                     MUSTER_ERR_INVALID);
    assert_int_equal(muster_code_decode(code, &one, 9, NULL, NULL),
                     MUSTER_ERR_INVALID);
    assert_int_equal(muster_code_decode(code, &one, 9, NULL, message),
                     MUSTER_OK); // output block 0 has no term
    assert_true(message[0] == 0.0f && message[4] == 0.0f);
    bench_fini(&bench);
}

static void structs_of_other_versions_are_read_and_filled(void **state)
{
    (void)state;
    muster_code *code = build_code("frc:s=1", 4, 0, 0);
    const uint32_t everyone[] = {0, 1, 2, 3};
    muster_code_decode_term terms[4];
    size_t count = 0;
    struct {
        muster_code_info info;
        uint64_t later; // a field of a newer header
    } newer = {MUSTER_CODE_INFO_INIT, 7};
    newer.info.struct_size = sizeof(newer);
    assert_int_equal(muster_code_describe(code, &newer.info), MUSTER_OK);
    assert_int_equal(newer.info.workers, 4);
    assert_int_equal(newer.info.struct_size, sizeof(newer));
    assert_true(newer.later == 0); // what this library does not know

    muster_code_info info = {0}; // not started from the initialiser
    assert_int_equal(muster_code_describe(code, &info), MUSTER_ERR_INVALID);
    muster_code_fit fit = {0};
    assert_int_equal(
        muster_code_weights(code, everyone, 4, terms, &count, &fit),
        MUSTER_ERR_INVALID);
    muster_code_free(code);

    struct {
        muster_code_opts opts;
        uint64_t later;
    } options = {MUSTER_CODE_OPTS_INIT, 0};
    options.opts.struct_size = sizeof(options);
    options.opts.name = "frc:s=1";
    options.opts.workers = 4;
    assert_int_equal(muster_code_create(&options.opts, NULL, &code), MUSTER_OK);
    muster_code_free(code);
    options.later = 1; // asks for what this library cannot do
    assert_int_equal(muster_code_create(&options.opts, NULL, &code),
                     MUSTER_ERR_INVALID);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_responder_set_sums_every_short_length),
        cmocka_unit_test(lengths_around_a_tile_leave_no_tail),
        cmocka_unit_test(long_sums_have_the_bits_of_the_slow_twin),
        cmocka_unit_test(every_family_of_the_table_is_tested_here),
        cmocka_unit_test(mistakes_of_a_caller_are_refused),
        cmocka_unit_test(structs_of_other_versions_are_read_and_filled),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
