/*
 * A worker's executor on one part of synthetic data, and its matrix products
 * alone.
 */
#define _POSIX_C_SOURCE 200809L
#include <cblas.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/clock.h"
#include "base/mem.h"
#include "bench.h"
#include "bench_dense.h"
#include "code/numbers.h"
#include "config/config.h"
#include "job/executor.h"
#include "muster/code.h"
#include "wire/terms.h"

#define TURNS_MAX 201u
#define TURNS_MIN 3u
#define BUDGET_S  1.5 // of a case
#define NAP_NS    100000000L

typedef struct bench_worker {
    muster_executor *coordinator;
    muster_executor *worker;
    muster_blob *message; // made once, as by the network's pool
} bench_worker;

static void stop(const char *why)
{
    fprintf(stderr, "bench dense: %s\n", why);
    exit(1);
}

static muster_job_result run_job(muster_executor *executor, muster_job job,
                                 double *piece_s)
{
    muster_job_result result;
    int64_t begin = muster_clock_ns();
    muster_executor_begin(executor, &job);
    while (muster_executor_piece(executor) == MUSTER_IN_PROGRESS) {
        int64_t now = muster_clock_ns();
        double took = (double)(now - begin) * 1e-9;
        *piece_s = took > *piece_s ? took : *piece_s;
        begin = now;
    }
    muster_executor_end(executor, &result);
    if (result.status != MUSTER_OK) {
        stop(result.text);
    }
    return result;
}

static muster_blob *plan_of(const muster_code *code)
{
    const muster_code_encode_term *lent = NULL;
    muster_code_info info = *muster_code_numbers(code);
    muster_terms terms = {.gradient_blocks = info.gradient_blocks,
                          .message_blocks = info.message_blocks};
    if (muster_code_encode_terms(code, 0, &lent, &terms.count) != MUSTER_OK) {
        stop("no terms");
    }
    terms.part_count = 1; // of one shard
    terms.terms = muster_mem_array(terms.count, sizeof(*lent));
    terms.parts = muster_mem_array(terms.part_count, sizeof(*terms.parts));
    muster_blob *blob =
        muster_blob_create(muster_terms_bytes(terms.count, terms.part_count));
    if (terms.terms == NULL || terms.parts == NULL || blob == NULL) {
        stop("out of memory");
    }
    memcpy(terms.terms, lent, terms.count * sizeof(*lent));
    terms.parts[0].count = 1;
    muster_terms_write(&terms, blob->data);
    muster_terms_fini(&terms);
    return blob;
}

static muster_executor *make_coordinator(const dense_case *sizes)
{
    char data[128];
    char model[64];
    char batch[16];
    snprintf(data, sizeof(data),
             "synthetic:samples=%u,features=%u,classes=%u,test=1",
             2 * sizes->batch, DENSE_FEATURES, DENSE_CLASSES);
    snprintf(model, sizeof(model), "mlp:hidden=%u,%u", sizes->hidden,
             sizes->hidden);
    snprintf(batch, sizeof(batch), "%u", sizes->batch);
    const struct {
        const char *name;
        const char *value;
    } options[] = {{"data", data},   {"model", model}, {"batch", batch},
                   {"steps", "100"}, {"shards", "1"},  {"optimizer", "sgd"}};
    muster_config *config = NULL;
    muster_executor *coordinator = NULL;
    muster_error error = {MUSTER_OK, ""};
    muster_status status = muster_config_create("train", &config);
    for (size_t i = 0;
         i < sizeof(options) / sizeof(options[0]) && status == MUSTER_OK; i++) {
        status = muster_config_set(config, options[i].name, options[i].value,
                                   &error);
    }
    if (status == MUSTER_OK) {
        status = muster_config_check(config, &error);
    }
    if (status == MUSTER_OK) {
        status = muster_executor_create_coordinator(
            config, 1, &muster_executor_heap, &error, &coordinator);
    }
    if (status != MUSTER_OK) {
        stop(error.text);
    }
    muster_config_free(config);
    return coordinator;
}

static muster_blob *make_message(void *context, size_t bytes)
{
    bench_worker *w = context;
    if (w->message == NULL) {
        w->message = muster_blob_create(bytes);
    }
    return muster_blob_ref(w->message);
}

static void make_worker(const dense_case *sizes, bench_worker *out)
{
    *out = (bench_worker){make_coordinator(sizes), NULL, NULL};
    const muster_executor_alloc alloc = {make_message, out};
    bench_worker w = *out;
    double unused = 0;
    muster_code *code = NULL;
    muster_code_opts opts = MUSTER_CODE_OPTS_INIT;
    opts.name = "uncoded";
    opts.workers = 1;
    if (muster_code_create(&opts, NULL, &code) != MUSTER_OK ||
        muster_executor_create_worker(&alloc, &w.worker) != MUSTER_OK ||
        muster_executor_use_threads(w.worker, sizes->threads) != MUSTER_OK) {
        stop("out of memory");
    }
    const muster_job setup = {.kind = MUSTER_JOB_SETUP,
                              .input =
                                  muster_executor_setup_blob(w.coordinator)};
    (void)run_job(w.worker, setup, &unused);
    const muster_job adopt = {
        .kind = MUSTER_JOB_ADOPT, .plan = 1, .input = plan_of(code)};
    (void)run_job(w.worker, adopt, &unused);
    const muster_job cut = {.kind = MUSTER_JOB_SHARD};
    muster_job_result shard = run_job(w.coordinator, cut, &unused);
    const muster_job load = {.kind = MUSTER_JOB_LOAD, .input = shard.output};
    (void)run_job(w.worker, load, &unused);
    muster_code_free(code);
    out->worker = w.worker;
}

static double gradient_turn(bench_worker *w, double *piece_s)
{
    const muster_job job = {.kind = MUSTER_JOB_GRADIENT,
                            .plan = 1,
                            .input =
                                muster_executor_model_blob(w->coordinator)};
    int64_t begin = muster_clock_ns();
    muster_job_result result = run_job(w->worker, job, piece_s);
    muster_blob_unref(result.output);
    return (double)(muster_clock_ns() - begin) * 1e-9;
}

/* By as many threads of BLAS; the worker's own calls have one each. */
static double products_turn(dense_products *p, uint32_t threads)
{
    openblas_set_num_threads((int)threads);
    if (threads > 1) {
        dense_products_all(p); // they slept
    }
    int64_t begin = muster_clock_ns();
    dense_products_all(p);
    double took = (double)(muster_clock_ns() - begin) * 1e-9;
    openblas_set_num_threads(1);
    if (threads > 1) { // those of BLAS stay busy for a while: let them sleep
        const struct timespec nap = {0, NAP_NS};
        (void)nanosleep(&nap, NULL);
    }
    return took;
}

double dense_operations(const dense_case *sizes)
{
    double h = sizes->hidden;
    double first = 4 * DENSE_FEATURES * h; // nothing is below the rows
    return sizes->batch * (first + 6 * h * h + 6 * h * DENSE_CLASSES);
}

dense_times dense_measure(const dense_case *sizes)
{
    double gradient[TURNS_MAX];
    double alone[TURNS_MAX];
    double pieces[TURNS_MAX];
    double unused = 0;
    double spent_s = 0;
    size_t turns = 0;
    dense_products p;
    bench_worker w;
    make_worker(sizes, &w);
    dense_products_init(&p, sizes);
    (void)gradient_turn(&w, &unused); // makes its buffers
    (void)products_turn(&p, sizes->threads);
    while (turns < TURNS_MAX && (turns < TURNS_MIN || spent_s < BUDGET_S)) {
        pieces[turns] = 0;
        if (sizes->threads > 1) {
            (void)gradient_turn(&w, &unused); // they slept
        }
        gradient[turns] = gradient_turn(&w, &pieces[turns]);
        alone[turns] = products_turn(&p, sizes->threads);
        spent_s += gradient[turns] + alone[turns];
        spent_s += sizes->threads > 1 ? NAP_NS * 1e-9 : 0;
        turns++;
    }
    dense_products_fini(&p);
    muster_executor_free(w.worker);
    muster_executor_free(w.coordinator);
    muster_blob_unref(w.message);
    return (dense_times){bench_median(gradient, turns),
                         bench_median(alone, turns),
                         bench_median(pieces, turns)};
}
