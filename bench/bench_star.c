/*
 * bench_star.c -- a star step over net.h, against Open MPI and against memory.
 *
 *   muster-bench-star [--workers 10] [--sizes 1e5,1e6] [--key-file FILE]
 *                     [--engine sock|ucx] [--json]
 *
 * Rows, for each of --sizes (of 1e4 to 1e7 floats; --large is --sizes 1e7):
 *   star_1e5             Unix sockets, shared payloads, against Open MPI's TCP
 *   star_1e5_vs_shm      the same, against Open MPI's shared memory
 *   star_1e5_vs_memory   the same, against the time that memory alone needs
 *   star_1e5_sum         of it, from the last answer to the next model: the
 *                        coordinator's own time, against memory
 *   star_tcp_1e5         TCP on the loopback, against Open MPI's TCP
 *   star_tcp_1e5_rate    the rates of both, in GB of payload a second
 *   star_tls_1e5         with a key: the same through TLS, against plain TCP
 *   star_tls_1e5_rate    and the rates of both
 *   star_tls_1e5_crowd   while 2,000 strangers call, against star_tls
 *   star_ucx_1e5         --engine ucx: TCP by UCX, against Open MPI's TCP
 *   star_ucx_1e5_rate    and the rates of UCX and our TCP
 * and without --json a table of the rates over TCP: both engines, sock with a
 * key, Open MPI.
 * A value is the median time of a step in ms: the median over three blocks in
 * which all variants take turns, so that what else the machine does meets them
 * alike. Workers are forked processes; star_work.h is the work. Open MPI runs
 * muster-bench-star-mpi, which lies beside this program, if there is an mpirun.
 *
 * The memory limit is the bytes that a step must touch over the bandwidth of
 * a triad of the same vector length on every core at once. The coordinator adds
 * up with as many threads as there are cores, as it does with --threads.
 */
#define _GNU_SOURCE
#include <signal.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/mem.h"
#include "base/threads.h"
#include "bench.h"
#include "linalg/combine.h"
#include "net/net.h"
#include "star_crowd.h"
#include "star_memory.h"
#include "star_mpi.h"
#include "star_report.h"
#include "star_work.h"

#define WORKERS_MAX 64
#define CROWD       2000

/* How coordinator and workers are connected. */
typedef struct way {
    star_variant which;
    const char *listen_at;
    const muster_run_key *key; // of TCP connections; NULL: none
    const char *engine;
} way;

/* a worker ---------------------------------------------------------------- */

typedef struct worker {
    muster_net *net;
    bool over;
} worker;

static void worker_message(void *context, muster_peer peer,
                           const muster_net_message *message)
{
    worker *self = context;
    size_t count = message->payload->bytes / sizeof(float);
    muster_blob *answer = muster_net_blob(self->net, message->payload->bytes);
    if (answer == NULL) {
        _exit(1);
    }
    star_answer(message->payload->data, answer->data, count);
    muster_net_send_opts opts = {.payload = answer};
    if (muster_net_send(self->net, peer, &opts) != MUSTER_OK) {
        _exit(1);
    }
    muster_blob_unref(answer);
}

static void worker_down(void *context, muster_peer peer, muster_status status,
                        const char *reason)
{
    worker *self = context;
    (void)peer;
    (void)status;
    (void)reason;
    self->over = true;
}

static _Noreturn void worker_run(const char *address, const way *by)
{
    muster_net_opts opts = MUSTER_NET_OPTS_INIT;
    const muster_net_send_opts first = {.header = "here", .header_bytes = 4};
    static const muster_net_callbacks callbacks = {.on_message = worker_message,
                                                   .on_down = worker_down};
    worker self = {0};
    muster_peer peer = 0;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    opts.key = by->key;
    opts.engine = by->engine;
    if (muster_net_open(&opts, &callbacks, &self, NULL, &self.net) !=
            MUSTER_OK ||
        muster_net_connect(self.net, address, NULL, &peer) != MUSTER_OK ||
        muster_net_send(self.net, peer, &first) != MUSTER_OK) {
        _exit(1);
    }
    while (!self.over) {
        if (muster_net_poll(self.net, -1) != MUSTER_OK) {
            _exit(1);
        }
    }
    muster_net_close(self.net);
    _exit(0);
}

/* the coordinator --------------------------------------------------------- */

typedef struct hub {
    muster_net *net;
    int workers;
    muster_peer peers[WORKERS_MAX];
    int up;
    int here; // have sent their first, short message
    int lost;
    int answers; // of this step
    muster_blob *answer[WORKERS_MAX];
    size_t count;
    muster_threads *pool;
    double *scratch[MUSTER_THREADS_MAX];
} hub;

static void hub_up(void *context, muster_peer peer, int incoming)
{
    hub *self = context;
    (void)incoming;
    self->peers[self->up++] = peer;
}

static void hub_message(void *context, muster_peer peer,
                        const muster_net_message *message)
{
    hub *self = context;
    (void)peer;
    if (message->payload == NULL) {
        self->here++;
        return;
    }
    self->answer[self->answers++] = muster_blob_ref(message->payload);
}

static void hub_down(void *context, muster_peer peer, muster_status status,
                     const char *reason)
{
    hub *self = context;
    (void)status;
    for (int i = 0; i < self->up; i++) { // else a stranger
        if (self->peers[i] == peer) {
            fprintf(stderr, "bench_star: a worker is lost: %s\n", reason);
            self->lost++;
        }
    }
}

/* Poll until *value is `wanted`; false when a worker is lost. */
static bool hub_wait(hub *self, const int *value, int wanted)
{
    while (*value < wanted && self->lost == 0) {
        if (muster_net_poll(self->net, -1) != MUSTER_OK) {
            return false;
        }
    }
    return self->lost == 0;
}

/* All answers are here: the next model is their sum, scaled. */
typedef struct hub_sum {
    hub *self;
    muster_combine_rows input;
    float *model;
} hub_sum;

static void sum_part(void *context, uint32_t index)
{
    const hub_sum *sum = context;
    hub *self = sum->self;
    uint32_t parts = muster_threads_count(self->pool);
    muster_combine(&sum->input, muster_threads_part(self->count, parts, index),
                   muster_threads_part(self->count, parts, index + 1),
                   self->scratch[index], sum->model);
}

static void hub_sum_up(hub *self, float *model)
{
    const float *rows[WORKERS_MAX];
    double weights[WORKERS_MAX];
    for (int i = 0; i < self->workers; i++) {
        rows[i] = self->answer[i]->data;
        weights[i] = 1.0 / ((double)STAR_FACTOR * self->workers);
    }
    hub_sum sum = {self, {rows, weights, NULL, (uint32_t)self->workers}, model};
    muster_threads_run(self->pool, muster_threads_count(self->pool), sum_part,
                       &sum);
}

static void hub_forget(hub *self)
{
    for (int i = 0; i < self->answers; i++) {
        muster_blob_unref(self->answer[i]);
    }
    self->answers = 0;
}

/* One step; *model_inout is given up and replaced by the next model. */
static bool hub_step(hub *self, muster_blob **model_inout, double *sum_ms)
{
    muster_net_send_opts opts = {.payload = *model_inout};
    for (int i = 0; i < self->workers; i++) {
        if (muster_net_send(self->net, self->peers[i], &opts) != MUSTER_OK) {
            return false;
        }
    }
    muster_blob_unref(*model_inout);
    *model_inout = NULL;
    if (!hub_wait(self, &self->answers, self->workers)) {
        return false;
    }
    int64_t before = muster_clock_ns();
    *model_inout = muster_net_blob(self->net, self->count * sizeof(float));
    if (*model_inout == NULL) {
        return false;
    }
    hub_sum_up(self, (*model_inout)->data);
    hub_forget(self);
    *sum_ms = (double)(muster_clock_ns() - before) * 1e-6;
    return true;
}

/* Median times at one size; NAN when something failed. */
static void hub_measure(hub *self, size_t size, double *step_ms, double *sum_ms)
{
    static double times[STAR_STEPS_MAX];
    static double sums[STAR_STEPS_MAX];
    int steps = star_steps[size];
    self->count = star_counts[size];
    muster_blob *model =
        muster_net_blob(self->net, self->count * sizeof(float));
    if (model == NULL) {
        return;
    }
    star_start(model->data, self->count);
    for (int i = -STAR_WARM; i < steps; i++) {
        int at = i < 0 ? 0 : i;
        int64_t before = muster_clock_ns();
        if (!hub_step(self, &model, &sums[at])) {
            hub_forget(self);
            muster_blob_unref(model);
            return;
        }
        times[at] = (double)(muster_clock_ns() - before) * 1e-6;
    }
    if (star_check(model->data, self->count)) {
        *step_ms = bench_median(times, (size_t)steps);
        *sum_ms = bench_median(sums, (size_t)steps);
    } else {
        fprintf(stderr, "bench_star: the sum is wrong\n");
    }
    muster_blob_unref(model);
}

/* Threads that add up: after the workers were forked. */
static void hub_start(hub *self)
{
    uint32_t threads = muster_threads_here();
    bool ready = muster_threads_create(threads, &self->pool) == MUSTER_OK;
    for (uint32_t i = 0; ready && i < threads; i++) {
        self->scratch[i] =
            muster_mem_raw_aligned(MUSTER_COMBINE_RUN, sizeof(double));
        ready = self->scratch[i] != NULL;
    }
    if (!ready) {
        fprintf(stderr, "bench_star: out of memory\n");
        exit(1);
    }
}

static void hub_stop(hub *self)
{
    for (uint32_t i = 0; i < muster_threads_count(self->pool); i++) {
        muster_mem_free(self->scratch[i]);
    }
    muster_threads_free(self->pool);
}

static void run_ours(const way *by, star_results *out, int block)
{
    static const muster_net_callbacks callbacks = {
        .on_up = hub_up, .on_message = hub_message, .on_down = hub_down};
    static hub self;
    int workers = out->workers;
    self = (hub){.workers = workers};
    char address[MUSTER_NET_ADDRESS_MAX];
    muster_error error = {0};
    muster_net_opts opts = MUSTER_NET_OPTS_INIT;
    opts.key = by->key;
    opts.engine = by->engine;
    if (muster_net_open(&opts, &callbacks, &self, &error, &self.net) !=
            MUSTER_OK ||
        muster_net_listen(self.net, by->listen_at, &error, address) !=
            MUSTER_OK) {
        fprintf(stderr, "bench_star: %s\n", error.text);
        exit(1);
    }
    fflush(stdout);
    for (int i = 0; i < workers; i++) {
        pid_t child = fork();
        if (child == 0) {
            worker_run(address, by);
        }
        if (child < 0) {
            perror("bench_star: fork");
            exit(1);
        }
    }
    bool ready = hub_wait(&self, &self.here, workers);
    pid_t crowd =
        by->which == OURS_CROWD ? star_crowd_start(address, CROWD) : 0;
    ready = ready && (crowd > 0 || by->which != OURS_CROWD);
    hub_start(&self);
    for (size_t i = 0; ready && i < STAR_SIZES; i++) {
        if (star_has(out->sizes, i)) {
            hub_measure(&self, i, &out->median_ms[by->which][i][block],
                        &out->sum_ms[by->which][i][block]);
        }
    }
    hub_stop(&self);
    star_crowd_stop(crowd);
    muster_net_close(self.net);
    for (int i = 0; i < workers; i++) {
        wait(NULL);
    }
}

/* the program ------------------------------------------------------------- */

static bool is_asked(star_variant which, const star_results *out)
{
    bool is_keyed = which == OURS_TLS || which == OURS_CROWD;
    return (!is_keyed || out->with_key) && (which != OURS_UCX || out->with_ucx);
}

/* All variants in turn. */
static void measure_block(const char *sizes, const muster_run_key *key,
                          star_results *out, int block)
{
    static const char *const loopback = "tcp:127.0.0.1:0";
    char name[MUSTER_NET_ADDRESS_MAX];
    snprintf(name, sizeof(name), "unix:@muster-bench-star-%d-%d", (int)getpid(),
             block);
    const way ways[] = {{OURS_UNIX, name, NULL, NULL},
                        {OURS_TCP, loopback, NULL, NULL},
                        {OURS_TLS, loopback, key, NULL},
                        {OURS_CROWD, loopback, key, NULL},
                        {OURS_UCX, loopback, NULL, "ucx"}};
    for (size_t i = 0; i < sizeof(ways) / sizeof(ways[0]); i++) {
        if (is_asked(ways[i].which, out)) {
            run_ours(&ways[i], out, block);
        }
    }
    star_mpi_run(sizes, out, block);
    for (size_t i = 0; i < STAR_SIZES; i++) {
        if (star_has(out->sizes, i)) {
            out->rate[i][block] = star_memory_rate(star_counts[i]);
        }
    }
}

typedef struct star_options {
    int workers; // 0: the command line has no meaning
    const char *sizes;
    const char *key_file;
    const char *engine;
    bool json;
} star_options;

static int read_workers(const char *text)
{
    char *end = NULL;
    long value = strtol(text, &end, 10);
    return *end == '\0' && value > 0 && value <= WORKERS_MAX ? (int)value : 0;
}

static star_options read_options(int argc, char **argv)
{
    star_options options = {
        .workers = 10, .sizes = STAR_DEFAULT, .engine = "sock"};
    bool known = true;
    for (int i = 1; i < argc && known; i++) {
        bool more = i + 1 < argc;
        if (strcmp(argv[i], "--json") == 0) {
            options.json = true;
        } else if (strcmp(argv[i], "--large") == 0) {
            options.sizes = STAR_LARGE;
        } else if (strcmp(argv[i], "--sizes") == 0 && more) {
            options.sizes = argv[++i];
        } else if (strcmp(argv[i], "--key-file") == 0 && more) {
            options.key_file = argv[++i];
        } else if (strcmp(argv[i], "--engine") == 0 && more) {
            options.engine = argv[++i];
        } else if (strcmp(argv[i], "--workers") == 0 && more) {
            options.workers = read_workers(argv[++i]);
        } else {
            known = false;
        }
    }
    known = known && star_sizes(options.sizes) != 0 &&
            (strcmp(options.engine, "sock") == 0 ||
             strcmp(options.engine, "ucx") == 0);
    options.workers = known ? options.workers : 0;
    return options;
}

int main(int argc, char **argv)
{
    static star_results all;
    star_options options = read_options(argc, argv);
    muster_run_key key = {{0}};
    muster_error error = {.text = ""};
    if (options.workers == 0) {
        return bench_usage(argc, argv,
                           "star [--workers 1..64] [--sizes 1e4,1e5,1e6,1e7] "
                           "[--key-file FILE] "
                           "[--engine sock|ucx] [--json]");
    }
    if (options.key_file != NULL &&
        muster_run_key_read(options.key_file, &error, &key) != MUSTER_OK) {
        fprintf(stderr, "bench_star: %s\n", error.text);
        return 2;
    }
    star_results_clear(&all);
    all.workers = options.workers;
    all.sizes = star_sizes(options.sizes);
    all.with_key = options.key_file != NULL;
    all.with_ucx = strcmp(options.engine, "ucx") == 0;
    all.no_mpi = star_mpi_missing();
    for (int block = 0; block < STAR_BLOCKS; block++) {
        measure_block(options.sizes, &key, &all, block);
    }
    return star_report(&all, options.json) == 0 ? 0 : 1;
}
