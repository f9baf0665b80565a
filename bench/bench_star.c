/*
 * bench_star.c -- a star step over net.h, against Open MPI and against memory.
 *
 *   muster-bench-star [--workers 10] [--large] [--key-file FILE]
 *                     [--engine sock|ucx] [--json]
 *
 * Rows, for 1e5 and 1e6 floats, with --large for 1e7:
 *   star_1e5             Unix sockets, shared payloads, against Open MPI's TCP
 *   star_1e5_vs_shm      the same, against Open MPI's shared memory
 *   star_1e5_vs_memory   the same, against the time that memory alone needs
 *   star_1e5_sum         of it, from the last answer to the next model: the
 *                        coordinator's own time, against memory
 *   star_tcp_1e5         TCP on the loopback, against Open MPI's TCP
 *   star_tls_1e5         with a key: the same through TLS, against plain TCP
 *   star_tls_1e5_rate    and the rates of both, in GB of payload a second
 *   star_tls_1e5_crowd   while 2,000 strangers call, against star_tls
 *   star_ucx_1e5         --engine ucx: TCP by UCX, against Open MPI's TCP
 *   star_ucx_1e5_rate    and the rates of UCX and our TCP
 * A value is the median time of a step in ms: the median over BLOCKS blocks in
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
#include "star_work.h"

#define BLOCKS      3
#define WORKERS_MAX 64
#define PATH_BYTES  1024
#define CROWD       2000

typedef enum variant {
    OURS_UNIX,
    OURS_TCP,
    OURS_TLS,
    OURS_CROWD, // OURS_TLS, and strangers that call
    OURS_UCX,
    MPI_TCP,
    MPI_SHM,
    VARIANTS
} variant;

typedef struct results {
    size_t first; // sizes first..end-1 are measured
    size_t end;
    bool with_ucx;
    double median_ms[VARIANTS][STAR_SIZES][BLOCKS];
    double sum_ms[VARIANTS][STAR_SIZES][BLOCKS];
    double rate[STAR_SIZES][BLOCKS]; // of memory, bytes a second
} results;

/* How coordinator and workers are connected. */
typedef struct way {
    variant which;
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

static void run_ours(int workers, const way *by, results *out, int block)
{
    static const muster_net_callbacks callbacks = {hub_up, hub_message,
                                                   hub_down, NULL};
    static hub self;
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
    for (size_t i = out->first; ready && i < out->end; i++) {
        hub_measure(&self, i, &out->median_ms[by->which][i][block],
                    &out->sum_ms[by->which][i][block]);
    }
    hub_stop(&self);
    star_crowd_stop(crowd);
    muster_net_close(self.net);
    for (int i = 0; i < workers; i++) {
        wait(NULL);
    }
}

/* Open MPI ---------------------------------------------------------------- */

/* The MPI program beside this one; false when it is not there. */
static bool find_peer(char *path)
{
    ssize_t length = readlink("/proc/self/exe", path, PATH_BYTES - 1);
    if (length <= 0) {
        return false;
    }
    path[length] = '\0';
    char *slash = strrchr(path, '/');
    if (slash == NULL || (size_t)(slash - path) + 32 > PATH_BYTES) {
        return false;
    }
    snprintf(slash, 32, "/muster-bench-star-mpi");
    return access(path, X_OK) == 0;
}

static _Noreturn void exec_mpirun(const char *path, int workers,
                                  const char *btl, bool large, int out)
{
    char ranks[16];
    snprintf(ranks, sizeof(ranks), "%d", workers + 1);
    dup2(out, STDOUT_FILENO);
    execlp("mpirun", "mpirun", "--allow-run-as-root", "--oversubscribe",
           "--timeout", "60", "-np", ranks, "--mca", "pml", "ob1", "--mca",
           "btl", btl, "--mca", "btl_tcp_if_include", "lo", "--mca",
           "mpi_yield_when_idle", "1", path, large ? "--large" : NULL,
           (char *)NULL);
    _exit(127);
}

/* Start mpirun and read its lines; what it does not say stays NAN. */
static void run_mpi(const char *path, int workers, const char *btl,
                    results *out, variant which, int block)
{
    int ends[2];
    if (pipe(ends) != 0) {
        return;
    }
    pid_t child = fork();
    if (child == 0) {
        close(ends[0]);
        exec_mpirun(path, workers, btl, out->first == STAR_LARGE, ends[1]);
    }
    close(ends[1]);
    FILE *lines = fdopen(ends[0], "r");
    char line[256];
    while (lines != NULL && fgets(line, sizeof(line), lines) != NULL) {
        char *end = NULL;
        if (strncmp(line, "star ", 5) != 0) {
            continue;
        }
        size_t count = strtoul(line + 5, &end, 10);
        (void)strtod(end, &end); // the best
        double median = strtod(end, &end);
        for (size_t i = 0; i < STAR_SIZES; i++) {
            if (star_counts[i] == count && median > 0) {
                out->median_ms[which][i][block] = median;
            }
        }
    }
    if (lines != NULL) {
        fclose(lines);
    }
    if (child > 0) {
        waitpid(child, NULL, 0);
    }
}

/* memory ------------------------------------------------------------------ */

/* Every worker reads the model and writes its answer. */
static double workers_limit_ms(size_t count, int workers, double rate)
{
    return 4.0 * (double)count * 2.0 * workers / rate * 1e3;
}

/* The coordinator reads each answer and writes the model. */
static double sum_limit_ms(size_t count, int workers, double rate)
{
    return 4.0 * (double)count * (workers + 1.0) / rate * 1e3;
}

/* the program ------------------------------------------------------------- */

static bool is_asked(variant which, const void *key, const results *out)
{
    bool is_keyed = which == OURS_TLS || which == OURS_CROWD;
    return (!is_keyed || key != NULL) && (which != OURS_UCX || out->with_ucx);
}

static void measure(int workers, const muster_run_key *key, results *out)
{
    static const char *const loopback = "tcp:127.0.0.1:0";
    char path[PATH_BYTES];
    char name[MUSTER_NET_ADDRESS_MAX];
    double *steps = &out->median_ms[0][0][0];
    double *sums = &out->sum_ms[0][0][0];
    for (size_t i = 0; i < VARIANTS * STAR_SIZES * BLOCKS; i++) {
        steps[i] = NAN;
        sums[i] = NAN;
    }
    bool with_mpi = find_peer(path);
    for (int block = 0; block < BLOCKS; block++) {
        snprintf(name, sizeof(name), "unix:@muster-bench-star-%d-%d",
                 (int)getpid(), block);
        const way ways[] = {{OURS_UNIX, name, NULL, NULL},
                            {OURS_TCP, loopback, NULL, NULL},
                            {OURS_TLS, loopback, key, NULL},
                            {OURS_CROWD, loopback, key, NULL},
                            {OURS_UCX, loopback, NULL, "ucx"}};
        for (size_t i = 0; i < sizeof(ways) / sizeof(ways[0]); i++) {
            if (is_asked(ways[i].which, key, out)) {
                run_ours(workers, &ways[i], out, block);
            }
        }
        if (with_mpi) {
            run_mpi(path, workers, "tcp,self", out, MPI_TCP, block);
            run_mpi(path, workers, "vader,self", out, MPI_SHM, block);
        }
        for (size_t i = out->first; i < out->end; i++) {
            out->rate[i][block] = star_memory_rate(star_counts[i]);
        }
    }
}

/* Payload of a step, there and back, by its time. */
static double rate_gb_s(size_t count, int workers, double step_ms)
{
    return 2.0 * workers * 4.0 * (double)count / step_ms * 1e-6;
}

/* The rate of a way over TCP beside that of our plain TCP. */
static void report_rate(const char *label, double way_ms, double tcp_ms,
                        size_t size, int workers, bool json)
{
    char name[64];
    size_t count = star_counts[size];
    snprintf(name, sizeof(name), "star_%s_%s_rate", label, star_names[size]);
    bench_row rate = {name, rate_gb_s(count, workers, way_ms), "GB/s",
                      "star_tcp_rate", rate_gb_s(count, workers, tcp_ms)};
    bench_print(&rate, json);
}

typedef struct star_row {
    const char *format; // of its name, with the size's
    double value;
    const char *baseline;
    double baseline_value;
} star_row;

static int print_row(const star_row *row, size_t size, bool json)
{
    char name[64] = "";
    const char *mark = strstr(row->format, "%s");
    snprintf(name, sizeof(name), "%.*s%s%s", (int)(mark - row->format),
             row->format, star_names[size], mark + 2);
    bench_row printed = {name, row->value, "ms", row->baseline,
                         row->baseline_value};
    bench_print(&printed, json);
    return !isfinite(row->value);
}

static int report_size(results *out, size_t i, int workers, bool with_key,
                       bool json)
{
    double median[VARIANTS];
    int failed = 0;
    for (int v = 0; v < VARIANTS; v++) {
        median[v] = bench_median(out->median_ms[v][i], BLOCKS);
    }
    double rate = bench_median(out->rate[i], BLOCKS);
    double sum = sum_limit_ms(star_counts[i], workers, rate);
    double memory = workers_limit_ms(star_counts[i], workers, rate) + sum;
    const star_row rows[] = {
        {"star_%s", median[OURS_UNIX], "openmpi_tcp", median[MPI_TCP]},
        {"star_%s_vs_shm", median[OURS_UNIX], "openmpi_shm", median[MPI_SHM]},
        {"star_%s_vs_memory", median[OURS_UNIX], "memory_limit", memory},
        {"star_%s_sum", bench_median(out->sum_ms[OURS_UNIX][i], BLOCKS),
         "memory_limit", sum},
        {"star_tcp_%s", median[OURS_TCP], "openmpi_tcp", median[MPI_TCP]},
    };
    for (size_t r = 0; r < sizeof(rows) / sizeof(rows[0]); r++) {
        failed += print_row(&rows[r], i, json);
    }
    if (with_key) {
        const star_row tls = {"star_tls_%s", median[OURS_TLS], "star_tcp",
                              median[OURS_TCP]};
        const star_row crowd = {"star_tls_%s_crowd", median[OURS_CROWD],
                                "star_tls", median[OURS_TLS]};
        failed += print_row(&tls, i, json);
        report_rate("tls", median[OURS_TLS], median[OURS_TCP], i, workers,
                    json);
        failed += print_row(&crowd, i, json);
    }
    if (out->with_ucx) {
        const star_row ucx = {"star_ucx_%s", median[OURS_UCX], "openmpi_tcp",
                              median[MPI_TCP]};
        failed += print_row(&ucx, i, json);
        report_rate("ucx", median[OURS_UCX], median[OURS_TCP], i, workers,
                    json);
    }
    return failed;
}

static int report(results *out, int workers, bool with_key, bool json)
{
    int failed = 0;
    for (size_t i = out->first; i < out->end; i++) {
        failed += report_size(out, i, workers, with_key, json);
    }
    return failed;
}

int main(int argc, char **argv)
{
    static results all;
    int workers = 10;
    bool json = false;
    const char *engine = "sock";
    bool large = false;
    const char *key_file = NULL;
    muster_run_key key;
    for (int i = 1; i < argc; i++) {
        char *end = NULL;
        if (strcmp(argv[i], "--json") == 0) {
            json = true;
        } else if (strcmp(argv[i], "--large") == 0) {
            large = true;
        } else if (strcmp(argv[i], "--key-file") == 0 && i + 1 < argc) {
            key_file = argv[++i];
        } else if (strcmp(argv[i], "--engine") == 0 && i + 1 < argc) {
            engine = argv[++i];
        } else if (strcmp(argv[i], "--workers") == 0 && i + 1 < argc) {
            long value = strtol(argv[++i], &end, 10);
            workers = *end == '\0' && value > 0 && value <= WORKERS_MAX
                          ? (int)value
                          : 0;
        } else {
            workers = 0;
        }
    }
    bool with_ucx = strcmp(engine, "ucx") == 0;
    if (workers == 0 || (!with_ucx && strcmp(engine, "sock") != 0)) {
        return bench_usage(argc, argv,
                           "star [--workers 1..64] [--large] [--key-file FILE] "
                           "[--engine sock|ucx] [--json]");
    }
    muster_error error = {.text = ""};
    if (key_file != NULL &&
        muster_run_key_read(key_file, &error, &key) != MUSTER_OK) {
        fprintf(stderr, "bench_star: %s\n", error.text);
        return 2;
    }
    all.with_ucx = with_ucx;
    all.first = large ? STAR_LARGE : 0;
    all.end = large ? STAR_SIZES : STAR_LARGE;
    measure(workers, key_file != NULL ? &key : NULL, &all);
    return report(&all, workers, key_file != NULL, json) == 0 ? 0 : 1;
}
