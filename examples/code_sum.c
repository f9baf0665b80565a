/*
 * code_sum.c -- sum the gradients of all parts although some workers are late.
 *
 *     example_code_sum CODE WORKERS LATE..      e.g. frc:s=1 4 2
 *
 * One process plays everybody. Each worker computes the gradients of its own
 * parts and encodes them into one message. The messages of the late workers
 * never arrive; the others are decoded, and the sum is compared with the plain
 * one. A program of yours would send the messages over a network of its own.
 *
 *     cc code_sum.c $(pkg-config --cflags --libs muster) -lm
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include <muster/code.h>

#define DIM 1000

/* Everything a worker and the one who gathers share. */
typedef struct round_state {
    muster_code *code;
    muster_code_info info;
    float **messages; // by worker; NULL: has not come
    double *scratch;  // for encode and decode: one for each thread
    float sum[DIM];
} round_state;

/* Stands for a real gradient: any numbers that depend on the part. */
static float gradient_at(uint32_t part, size_t t)
{
    return sinf((float)(part * 17 + 1) * (float)(t + 1));
}

static void *must(void *memory)
{
    if (memory == NULL) {
        fprintf(stderr, "out of memory\n");
        exit(1);
    }
    return memory;
}

/* What one worker does in a step. */
static float *work(const round_state *r, uint32_t worker)
{
    const uint32_t *parts;
    uint32_t count;
    size_t length = muster_code_message_length(r->code, DIM);
    if (muster_code_parts(r->code, worker, &parts, &count) != MUSTER_OK) {
        return NULL;
    }
    float *own = must(calloc((size_t)count * DIM + 1, sizeof(float)));
    const float **grads = must(calloc(count + 1, sizeof(*grads)));
    float *message = must(calloc(length, sizeof(float)));
    for (uint32_t i = 0; i < count; i++) {
        grads[i] = own + (size_t)i * DIM;
        for (size_t t = 0; t < DIM; t++) {
            own[(size_t)i * DIM + t] = gradient_at(parts[i], t);
        }
    }
    muster_status status =
        muster_code_encode(r->code, worker, grads, DIM, r->scratch, message);
    free(grads);
    free(own);
    if (status != MUSTER_OK) {
        free(message);
        return NULL;
    }
    return message;
}

/* What the one who gathers does with the messages that came. Weights are found
 * once for a set of responders; a training loop keeps them in a
 * muster_code_cache. */
static muster_status gather(round_state *r, muster_code_fit *fit_out)
{
    uint32_t *responders = must(calloc(r->info.workers, sizeof(uint32_t)));
    muster_code_decode_term *terms =
        must(calloc(muster_code_decode_terms_max(r->code), sizeof(*terms)));
    uint32_t count = 0;
    size_t term_count = 0;
    for (uint32_t w = 0; w < r->info.workers; w++) {
        if (r->messages[w] != NULL) {
            responders[count++] = w;
        }
    }
    muster_status solved = muster_code_weights(r->code, responders, count,
                                               terms, &term_count, fit_out);
    muster_status status = solved;
    if (solved >= 0) {
        muster_code_decode_input input = {terms, term_count,
                                          (const float *const *)r->messages};
        status = muster_code_decode(r->code, &input, DIM, r->scratch, r->sum);
    }
    free(terms);
    free(responders);
    return status < 0 ? status : solved;
}

/* ||decoded - plain sum|| / ||plain sum|| */
static double error_of(const round_state *r)
{
    double off = 0.0;
    double size = 0.0;
    for (size_t t = 0; t < DIM; t++) {
        double right = 0.0;
        for (uint32_t part = 0; part < r->info.parts; part++) {
            right += (double)gradient_at(part, t);
        }
        off += ((double)r->sum[t] - right) * ((double)r->sum[t] - right);
        size += right * right;
    }
    return sqrt(off / size);
}

static int run(round_state *r, char **late, int late_count)
{
    for (uint32_t w = 0; w < r->info.workers; w++) {
        r->messages[w] = work(r, w);
    }
    for (int i = 0; i < late_count; i++) {
        unsigned long worker = strtoul(late[i], NULL, 10);
        if (worker < r->info.workers) {
            free(r->messages[worker]);
            r->messages[worker] = NULL;
        }
    }
    muster_code_fit fit = MUSTER_CODE_FIT_INIT;
    muster_status status = gather(r, &fit);
    if (status < 0) {
        fprintf(stderr, "%s\n", muster_status_text(status));
        return 1;
    }
    printf("%s: %u workers, message %zu of %d floats, %s, error %.1e\n",
           r->info.name, r->info.workers,
           muster_code_message_length(r->code, DIM), DIM,
           status == MUSTER_OK ? "exact" : "inexact", error_of(r));
    return 0;
}

int main(int argc, char **argv)
{
    static round_state r;
    muster_code_opts opts = MUSTER_CODE_OPTS_INIT;
    muster_error error = {MUSTER_OK, ""};
    if (argc < 3) {
        fprintf(stderr, "usage: code_sum CODE WORKERS LATE..\n");
        return 2;
    }
    opts.name = argv[1];
    opts.workers = (uint32_t)strtoul(argv[2], NULL, 10);
    muster_status status = muster_code_create(&opts, &error, &r.code);
    if (status != MUSTER_OK) {
        fprintf(stderr, "%s\n", error.text);
        return muster_status_exit_code(status);
    }
    r.info = (muster_code_info)MUSTER_CODE_INFO_INIT;
    if (muster_code_describe(r.code, &r.info) != MUSTER_OK) {
        return 1;
    }
    r.messages = must(calloc(r.info.workers, sizeof(*r.messages)));
    r.scratch = must(calloc(muster_code_scratch_length(), sizeof(double)));
    int code = run(&r, argv + 3, argc - 3);
    for (uint32_t w = 0; w < r.info.workers; w++) {
        free(r.messages[w]);
    }
    free(r.messages);
    free(r.scratch);
    muster_code_free(r.code);
    return code;
}
