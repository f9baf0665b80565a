/*
 * fuzz_code.c -- any name and any responder set: a code is built or refused
 * with a line, and what it decodes is legal and as good as it says; gradients
 * of ones then go through encoding and decoding.
 *
 * Input: workers (one byte), responders (a mask of three bytes), the name.
 */
#include <math.h>
#include <string.h>

#include "base/assert.h"
#include "base/mem.h"
#include "code/decode.h"
#include "code/family.h"
#include "muster/code.h"

#define WORKERS_MAX 12u

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Every gradient is all ones, so a message block is the sum of its
 * coefficients. */
static float ones_message(const muster_code *code, uint32_t worker,
                          uint32_t block)
{
    const muster_code_encode_term *terms;
    uint32_t count;
    double sum = 0.0;
    MUSTER_ASSERT(muster_code_encode_terms(code, worker, &terms, &count) ==
                  MUSTER_OK);
    for (uint32_t i = 0; i < count; i++) {
        sum += terms[i].message_block == block ? terms[i].coef : 0.0;
    }
    return (float)sum;
}

/* An exact decoding of messages of one float a block gives the number of parts
 * everywhere. */
static void apply(const muster_code *code, const muster_decode_input *given,
                  double error_f32)
{
    muster_code_info info = *muster_code_numbers(code);
    uint32_t n = info.workers;
    uint32_t blocks = info.message_blocks;
    float *memory = muster_mem_array((size_t)n * blocks, sizeof(float));
    float *out = muster_mem_array(info.gradient_blocks, sizeof(float));
    const float **messages = muster_mem_array(n, sizeof(const float *));
    muster_decoder *decoder = NULL;
    MUSTER_ASSERT(memory != NULL && out != NULL && messages != NULL);
    for (uint32_t i = 0; i < n * blocks; i++) {
        memory[i] = ones_message(code, i / blocks, i % blocks);
        messages[i / blocks] = memory + (size_t)(i / blocks) * blocks;
    }
    muster_decode_input input = *given;
    input.messages = messages;
    MUSTER_ASSERT(muster_decoder_create(0, &decoder) == MUSTER_OK);
    MUSTER_ASSERT(muster_decoder_begin(decoder, &input) == MUSTER_OK);
    muster_decoder_range(decoder, 0, info.gradient_blocks, out);
    double allowed = (1e-5 + 1000 * error_f32) * info.parts;
    for (uint32_t u = 0; u < info.gradient_blocks; u++) {
        MUSTER_ASSERT(fabs((double)out[u] - info.parts) <= allowed);
    }
    muster_decoder_free(decoder);
    muster_mem_free(messages);
    muster_mem_free(out);
    muster_mem_free(memory);
}

static void decode(const muster_code *code, uint32_t mask)
{
    muster_code_info info = *muster_code_numbers(code);
    size_t most = muster_code_decode_terms_max(code);
    muster_code_decode_term *terms = muster_mem_array(most, sizeof(*terms));
    muster_code_progress *progress = NULL;
    MUSTER_ASSERT(terms != NULL);
    MUSTER_ASSERT(muster_code_progress_create(code, &progress) == MUSTER_OK);
    uint32_t responders[WORKERS_MAX];
    uint32_t count = 0;
    bool ready = false;
    for (uint32_t i = 0; i < info.workers; i++) {
        if ((mask >> i) & 1u) {
            responders[count++] = i;
            ready = muster_code_progress_add(progress, i);
        }
    }
    size_t term_count = 0;
    muster_code_fit fit = MUSTER_CODE_FIT_INIT;
    muster_status status =
        muster_code_weights(code, responders, count, terms, &term_count, &fit);
    MUSTER_ASSERT(status == MUSTER_OK || status == MUSTER_INEXACT);
    MUSTER_ASSERT(term_count <= most);
    MUSTER_ASSERT(status != MUSTER_OK || fit.residual <= MUSTER_CODE_EXACT);
    MUSTER_ASSERT(status != MUSTER_OK || fit.parts_missing == 0);
    // Ready sets decode, but for what create has warned of.
    MUSTER_ASSERT(!ready || !info.exact || status == MUSTER_OK ||
                  info.warning != NULL);
    for (size_t i = 0; i < term_count; i++) {
        MUSTER_ASSERT(terms[i].output_block < info.gradient_blocks);
        MUSTER_ASSERT(terms[i].message_block < info.message_blocks);
        MUSTER_ASSERT(((mask >> terms[i].worker) & 1u) != 0);
        MUSTER_ASSERT(i == 0 ||
                      terms[i - 1].output_block <= terms[i].output_block);
    }
    if (status == MUSTER_OK) {
        const muster_decode_input input = {terms, term_count, NULL, 1, 0};
        apply(code, &input, fit.error_f32);
    }
    muster_code_progress_free(progress);
    muster_mem_free(terms);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char name[256];
    if (size < 5 || size - 4 >= sizeof(name)) {
        return 0;
    }
    memcpy(name, data + 4, size - 4);
    name[size - 4] = '\0';
    // Files are fuzz_code_matrix.c's; thousands of draws only take time.
    if (strstr(name, "file") != NULL || strstr(name, "draws") != NULL) {
        return 0;
    }
    muster_code_opts opts = MUSTER_CODE_OPTS_INIT;
    muster_error error = {.text = ""};
    muster_code *code = NULL;
    opts.name = name;
    opts.workers = data[0] % (WORKERS_MAX + 1);
    uint32_t mask = (uint32_t)data[1] | (uint32_t)data[2] << 8;
    muster_status status = muster_code_create(&opts, &error, &code);
    if (status != MUSTER_OK) {
        MUSTER_ASSERT(status == MUSTER_ERR_INVALID ||
                      status == MUSTER_ERR_UNSUPPORTED);
        MUSTER_ASSERT(error.text[0] != '\0');
        return 0;
    }
    decode(code, mask);
    muster_code_free(code);
    return 0;
}
