/*
 * terms_test.c -- terms applied to gradients and messages: encode plans against
 * the plain sums, decodings in ranges and what they measure, none of which
 * allocates.
 */
#include "code/code_test.h"

static void check_plan(const char *name, uint32_t n, uint32_t lanes_wanted)
{
    enum { DIM = 1000 };
    code_bench bench;
    bench_init(&bench, build_code(name, n, 0, 0), DIM, 3);
    for (uint32_t worker = 0; worker < n; worker++) {
        const muster_code_encode_term *terms;
        uint32_t count;
        muster_encode_plan *plan = NULL;
        assert_int_equal(
            muster_code_encode_terms(bench.code, worker, &terms, &count),
            MUSTER_OK);
        assert_int_equal(
            muster_encode_plan_create(terms, count, bench.info.gradient_blocks,
                                      bench.info.message_blocks, &plan),
            MUSTER_OK);
        assert_int_equal(plan->lane_count, lanes_wanted);
        float *lanes = muster_mem_array(plan->lane_count, DIM * sizeof(float));
        const float *pointers[64];
        for (uint32_t i = 0; i < plan->part_count; i++) {
            const muster_encode_plan_part *part = &plan->parts[i];
            float *lane = lanes + (size_t)part->lane * DIM;
            pointers[part->lane] = lane;
            for (size_t t = 0; t < DIM; t++) {
                lane[t] += (float)part->weight *
                           bench.gradients[(size_t)part->part * DIM + t];
            }
        }
        size_t length = muster_encode_plan_message(plan, DIM);
        float *message = muster_mem_array(length, sizeof(float));
        for (size_t at = 0; at < length; at += 97) {
            size_t end = at + 97 < length ? at + 97 : length;
            muster_encode_plan_apply(plan, pointers, DIM, at, end, message);
        }
        for (size_t t = 0; t < length; t++) {
            assert_true(fabsf(message[t] - bench.pointers[worker][t]) < 2e-5f);
        }
        muster_mem_free(message);
        muster_mem_free(lanes);
        muster_encode_plan_free(plan);
    }
    bench_fini(&bench);
}

static void lanes_reproduce_the_message(void **state)
{
    (void)state;
    check_plan("uncoded", 3, 1);
    check_plan("frc:s=3", 8, 1);
    check_plan("linear:spc", 8, 1);
    check_plan("linear:spc:m=3", 8, 1);
}

static void unlike_parts_get_lanes_of_their_own(void **state)
{
    (void)state;
    // Two blocks in, two out; parts 0 and 2 proportional, part 1 not.
    const muster_code_encode_term terms[] = {{0, 0, 0, 1.0},
                                             {1, 0, 1, -2.0},
                                             {0, 1, 1, 3.0},
                                             {0, 2, 0, -4.0},
                                             {1, 2, 1, 8.0}};
    muster_encode_plan *plan = NULL;
    assert_int_equal(muster_encode_plan_create(terms, 5, 2, 2, &plan),
                     MUSTER_OK);
    assert_int_equal(plan->lane_count, 2);
    assert_int_equal(plan->part_count, 3);
    assert_int_equal(plan->parts[0].lane, plan->parts[2].lane);
    assert_true(plan->parts[2].weight == -4.0 * plan->parts[0].weight);
    float lane0[3] = {1, 2, 3}; // dim 3: the second block is padded
    float lane1[3] = {10, 20, 30};
    const float *lanes[2] = {lane0, lane1};
    float message[4];
    assert_int_equal(muster_encode_plan_message(plan, 3), 4);
    muster_encode_plan_apply(plan, lanes, 3, 0, 4, message);
    float scale = (float)(1.0 / plan->parts[0].weight);
    assert_true(message[0] == 1 * scale + 30 && message[1] == 2 * scale);
    assert_true(message[2] == -2 * 3 * scale && message[3] == 0);
    muster_encode_plan_free(plan);
    assert_int_equal(muster_encode_plan_create(terms, 5, 1, 2, &plan),
                     MUSTER_ERR_INVALID);
    assert_int_equal(muster_encode_plan_create(terms, 5, 2, 1, &plan),
                     MUSTER_ERR_INVALID);
    muster_status status = MUSTER_ERR_NO_MEMORY;
    for (uint64_t fail = 0; status == MUSTER_ERR_NO_MEMORY; fail++) {
        muster_mem_fail_after(fail);
        status = muster_encode_plan_create(terms, 5, 2, 2, &plan);
        assert_true(fail < 100);
    }
    muster_mem_fail_after(UINT64_MAX);
    assert_int_equal(status, MUSTER_OK);
    muster_encode_plan_free(plan);
}

static void a_decode_range_equals_the_whole(void **state)
{
    (void)state;
    code_bench bench;
    bench_init(&bench, build_code("linear:spc", 3, 0, 0), 1001, 8);
    const uint32_t responders[2] = {0, 2};
    muster_status status;
    muster_code_fit fit = MUSTER_CODE_FIT_INIT;
    assert_true(bench_decode(&bench, responders, 2, &status, &fit) < 2e-6);
    float pieces[1001];
    for (size_t at = 0; at < 1001; at += 130) {
        size_t end = at + 130 < 1001 ? at + 130 : 1001;
        muster_decoder_range(bench.decoder, at, end, pieces);
    }
    assert_memory_equal(pieces, bench.out, sizeof(pieces));
    bench_fini(&bench);
}

/* The mass is the sum of |weight| * norm over terms, of measured coordinates
 * only; a term list out of order or without its message is refused. */
static void the_decoder_measures_what_it_reads(void **state)
{
    (void)state;
    enum { BLOCK = 300, WHOLE = 2 * BLOCK, MEASURED = 400 };
    static float memory[3][WHOLE];
    static float out[WHOLE];
    const float *messages[3] = {memory[0], NULL, memory[2]};
    muster_code_decode_term terms[] = {
        {0, 0, 0, 1.5}, {0, 2, 1, -2.0}, {1, 2, 0, 0.5}};
    muster_decode_input input = {terms, 3, messages, BLOCK, MEASURED};
    for (size_t t = 0; t < WHOLE; t++) {
        memory[0][t] = (float)(t % 7);
        memory[2][t] = (float)(t % 5) - 1.0f;
    }
    double squares[3] = {0};
    for (size_t t = 0; t < BLOCK; t++) {
        squares[0] += (double)(memory[0][t] * memory[0][t]);
        squares[1] += (double)(memory[2][BLOCK + t] * memory[2][BLOCK + t]);
        squares[2] +=
            t < MEASURED - BLOCK ? (double)(memory[2][t] * memory[2][t]) : 0.0;
    }
    muster_decoder *decoder = NULL;
    assert_int_equal(muster_decoder_create(0, &decoder), MUSTER_OK);
    assert_int_equal(muster_decoder_begin(decoder, &input), MUSTER_OK);
    assert_int_equal(muster_decoder_terms_at(decoder, BLOCK - 1), 2);
    assert_int_equal(muster_decoder_terms_at(decoder, BLOCK), 1);
    muster_decoder_range(decoder, 0, 350, out);
    muster_decoder_range(decoder, 350, WHOLE, out);
    double want = 1.5 * sqrt(squares[0]) + 2.0 * sqrt(squares[1]) +
                  0.5 * sqrt(squares[2]);
    assert_true(fabs(muster_decoder_mass(decoder) - want) < 1e-4 * want);
    assert_true(out[BLOCK - 1] ==
                1.5f * memory[0][BLOCK - 1] - 2.0f * memory[2][WHOLE - 1]);
    assert_true(out[BLOCK] == 0.5f * memory[2][0]);
    terms[1].worker = 1; // whose message is not there
    assert_int_equal(muster_decoder_begin(decoder, &input), MUSTER_ERR_INVALID);
    terms[1].worker = 2;
    terms[1].output_block = 2; // before a term of block 1
    assert_int_equal(muster_decoder_begin(decoder, &input), MUSTER_ERR_INVALID);
    muster_decoder_free(decoder);
}

/* Encoding and decoding with all allocation forbidden. */
static void encode_and_decode_never_allocate(void **state)
{
    (void)state;
    static const char *const names[] = {"frc:s=2", "linear:tuned:s=2,m=2",
                                        "rs:s=2", "ye-abbe-tuned:s=2,m=2"};
    enum { DIM = 2000, N = 12 };
    for (size_t c = 0; c < sizeof(names) / sizeof(names[0]); c++) {
        code_bench bench;
        bench_init(&bench, build_code(names[c], N, 0, 0), DIM, 5);
        const muster_code_encode_term *encoding;
        uint32_t count;
        assert_int_equal(
            muster_code_encode_terms(bench.code, 4, &encoding, &count),
            MUSTER_OK);
        muster_encode_plan *plan = NULL;
        assert_int_equal(muster_encode_plan_create(
                             encoding, count, bench.info.gradient_blocks,
                             bench.info.message_blocks, &plan),
                         MUSTER_OK);
        const float *lanes[N];
        for (uint32_t i = 0; i < plan->lane_count; i++) {
            lanes[i] = bench.gradients + (size_t)i * DIM;
        }
        float *message =
            muster_mem_array(muster_encode_plan_message(plan, DIM), 4);
        uint32_t everyone[N];
        uint32_t heard = members((1u << N) - 1, N, everyone);
        size_t term_count;
        muster_code_fit fit = MUSTER_CODE_FIT_INIT;
        assert_int_equal(muster_code_weights(bench.code, everyone, heard,
                                             bench.terms, &term_count, &fit),
                         MUSTER_OK);
        muster_decode_input input = {bench.terms, term_count, bench.pointers,
                                     bench.block, DIM};
        assert_int_equal(muster_decoder_begin(bench.decoder, &input),
                         MUSTER_OK);
        muster_mem_fail_after(0);
        assert_null(muster_mem_array(1, 1));
        muster_encode_plan_apply(plan, lanes, DIM, 0,
                                 muster_encode_plan_message(plan, DIM),
                                 message);
        muster_status status = muster_decoder_begin(bench.decoder, &input);
        muster_decoder_range(bench.decoder, 0, DIM, bench.out);
        muster_mem_fail_after(UINT64_MAX);
        assert_int_equal(status, MUSTER_OK);
        for (size_t t = 0; t < DIM; t++) {
            assert_true(fabs((double)bench.out[t] - bench.sum[t]) < 1e-3);
        }
        muster_mem_free(message);
        muster_encode_plan_free(plan);
        bench_fini(&bench);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(lanes_reproduce_the_message),
        cmocka_unit_test(unlike_parts_get_lanes_of_their_own),
        cmocka_unit_test(a_decode_range_equals_the_whole),
        cmocka_unit_test(the_decoder_measures_what_it_reads),
        cmocka_unit_test(encode_and_decode_never_allocate),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
