/*
 * estimate.c -- see estimate.h.
 *
 * A scheme is prepared once: what one unit of each draw costs each worker. A
 * draw then is one pass over the workers and a selection (quickselect), O(n).
 */
#include "plan/estimate.h"

#include <math.h>
#include <string.h>

#include "base/assert.h"
#include "base/mem.h"
#include "plan/draw.h"
#include "plan/kth.h"
#include "plan/nic.h"
#include "plan/staged.h"

/* What a unit of each draw costs a worker, seconds. */
typedef struct worker_cost {
    float shift, compute, down, up, relay;
} worker_cost;

struct muster_estimator {
    const muster_cluster *cluster;
    double bytes;
    uint32_t samples;
    uint32_t n, edges;
    muster_step_draws draws;
    double *shares; // of SPEEDS, per worker
    uint32_t *edge_of;
    // Of the scheme at hand:
    worker_cost *costs;
    float *edge_down, *edge_up; // a try, per edge
    float *edge_sends;          // the model, through its NIC to its workers
    float sends;                // likewise the coordinator's
    double answer_s;            // an answer alone on the coordinator's NIC
    double inner_bytes;         // of a worker's message
    muster_nic nic;
    muster_scheme staged_scheme; // that `staged` is of
    muster_staged staged;
    muster_staged_pace *paces;
    bool failed;
    float *times, *edge_times, *scratch;
};

static bool allocate(muster_estimator *e)
{
    size_t n = e->n;
    size_t edges = (size_t)e->edges + 1;
    size_t widest = n > edges ? n : edges;
    e->shares = muster_mem_array(n, sizeof(double));
    e->edge_of = muster_mem_array(n, sizeof(uint32_t));
    e->costs = muster_mem_array(n, sizeof(worker_cost));
    e->edge_down = muster_mem_array(edges, sizeof(float));
    e->edge_up = muster_mem_array(edges, sizeof(float));
    e->edge_sends = muster_mem_array(edges, sizeof(float));
    e->paces = muster_mem_array(n, sizeof(*e->paces));
    e->times = muster_mem_array(n, sizeof(float));
    e->edge_times = muster_mem_array(edges, sizeof(float));
    e->scratch = muster_mem_array(widest, sizeof(float));
    return e->shares != NULL && e->edge_of != NULL && e->costs != NULL &&
           e->edge_down != NULL && e->edge_up != NULL &&
           e->edge_sends != NULL && e->paces != NULL && e->times != NULL &&
           e->edge_times != NULL && e->scratch != NULL &&
           muster_nic_init(&e->nic, (uint32_t)widest);
}

/* False: out of memory. */
static bool draw_steps(muster_estimator *e, const muster_estimator_opts *opts)
{
    for (uint32_t i = 0; i < e->edges; i++) {
        const muster_cluster_edge *edge = &e->cluster->edges[i];
        for (uint32_t w = 0; w < edge->workers; w++) {
            e->edge_of[edge->first + w] = i;
        }
    }
    muster_step_draws_opts draws = {.cluster = e->cluster,
                                    .edge_of = e->edge_of,
                                    .samples = e->samples,
                                    .seed = opts->seed,
                                    .numbers = opts->numbers,
                                    .whole = opts->whole};
    return muster_step_draws_init(&e->draws, &draws);
}

muster_estimator *muster_estimator_create(const muster_estimator_opts *opts)
{
    muster_estimator *e = muster_mem_array(1, sizeof(*e));
    if (e == NULL) {
        return NULL;
    }
    e->cluster = opts->cluster;
    e->bytes = opts->message_bytes;
    e->samples = opts->samples;
    e->n = opts->cluster->worker_count;
    e->edges = opts->cluster->edge_count;
    if (!allocate(e) || !draw_steps(e, opts)) {
        muster_estimator_free(e);
        return NULL;
    }
    return e;
}

void muster_estimator_free(muster_estimator *e)
{
    if (e == NULL) {
        return;
    }
    muster_step_draws_fini(&e->draws);
    muster_mem_free(e->shares);
    muster_mem_free(e->edge_of);
    muster_mem_free(e->costs);
    muster_mem_free(e->edge_down);
    muster_mem_free(e->edge_up);
    muster_mem_free(e->edge_sends);
    muster_nic_fini(&e->nic);
    muster_staged_fini(&e->staged);
    muster_mem_free(e->paces);
    muster_mem_free(e->times);
    muster_mem_free(e->edge_times);
    muster_mem_free(e->scratch);
    muster_mem_free(e);
}

/* ---- a scheme's costs ---------------------------------------------------- */

static float try_time(const muster_cluster_link *link, double bytes)
{
    double wire = link->bytes_per_s > 0 ? bytes / link->bytes_per_s : 0;
    return (float)(link->latency_s + wire);
}

/* Shares in proportion to speeds, s + 1 in all, none above 1. */
static void share_by_speed(muster_estimator *e, uint32_t copies)
{
    double left = copies;
    bool again = true;
    muster_cluster_speeds(e->cluster, e->shares);
    while (again) {
        double speed = 0;
        again = false;
        for (uint32_t w = 0; w < e->n; w++) {
            speed += e->shares[w] > 0 ? e->shares[w] : 0;
        }
        for (uint32_t w = 0; w < e->n; w++) {
            if (e->shares[w] > 0 && left * e->shares[w] > speed) {
                e->shares[w] = -1; // full
                left -= 1;
                again = true;
                break;
            }
        }
        for (uint32_t w = 0; !again && w < e->n; w++) {
            e->shares[w] = e->shares[w] > 0 ? left * e->shares[w] / speed : 1.0;
        }
    }
}

/* Loads: 1 is what an uncoded worker has. */
static double load_of(const muster_estimator *e, const muster_scheme *scheme,
                      uint32_t worker)
{
    switch (scheme->kind) {
    case MUSTER_SCHEME_GROUPS: {
        uint32_t groups = e->n / (scheme->s + scheme->m);
        return (double)e->n / groups;
    }
    case MUSTER_SCHEME_SPREAD:
        return scheme->s + scheme->m;
    case MUSTER_SCHEME_SPEEDS:
        return e->shares[worker] * e->n;
    case MUSTER_SCHEME_HIER:
        return (double)(scheme->s_e + scheme->m_e) *
               (double)(scheme->s_w + scheme->m_w);
    case MUSTER_SCHEME_IGNORE:
    case MUSTER_SCHEME_STAGED:
        return 1;
    }
    return 1;
}

static bool is_layered(const muster_estimator *e, const muster_scheme *scheme)
{
    return scheme->kind == MUSTER_SCHEME_HIER ||
           (scheme->kind == MUSTER_SCHEME_IGNORE && e->edges > 0);
}

static double over_nic(double bytes, double bytes_per_s)
{
    return bytes_per_s > 0 ? bytes / bytes_per_s : 0;
}

/* What the NICs make of the model's copies and of answers. A message passes the
 * sender's and the receiver's at the same time. */
static void prepare_nics(muster_estimator *e, const muster_scheme *scheme)
{
    bool layered = is_layered(e, scheme);
    const muster_cluster *cluster = e->cluster;
    uint32_t m_e = scheme->m_e > 0 ? scheme->m_e : 1;
    uint32_t copies = layered ? e->edges : e->n;
    double answer = layered ? e->bytes / m_e : e->bytes / scheme->m;
    e->sends = (float)over_nic(e->bytes * copies, cluster->bytes_per_s);
    e->answer_s = over_nic(answer, cluster->bytes_per_s);
    e->inner_bytes = e->bytes / scheme->m;
    for (uint32_t i = 0; i < e->edges; i++) {
        const muster_cluster_edge *edge = &cluster->edges[i];
        e->edge_sends[i] = layered ? (float)over_nic(e->bytes * edge->workers,
                                                     edge->bytes_per_s)
                                   : 0;
    }
}

/* The stages of the scheme's code, unless they are at hand. */
static void prepare_staged(muster_estimator *e, const muster_scheme *scheme)
{
    muster_code *code = NULL;
    if (memcmp(scheme, &e->staged_scheme, sizeof(*scheme)) == 0) {
        return;
    }
    muster_staged_fini(&e->staged);
    e->staged_scheme = *scheme;
    e->failed = e->failed ||
                muster_scheme_build(scheme, e->cluster, &code) != MUSTER_OK ||
                !muster_staged_init(&e->staged, code);
    muster_code_free(code);
}

static void prepare(muster_estimator *e, const muster_scheme *scheme)
{
    bool layered = is_layered(e, scheme);
    double message = e->bytes / scheme->m;
    prepare_nics(e, scheme);
    if (scheme->kind == MUSTER_SCHEME_SPEEDS) {
        share_by_speed(e, scheme->s + 1);
    }
    if (scheme->kind == MUSTER_SCHEME_STAGED) {
        prepare_staged(e, scheme);
    }
    for (uint32_t i = 0; i < e->edges; i++) {
        const muster_cluster_link *link = &e->cluster->edges[i].link;
        uint32_t m_e = scheme->m_e > 0 ? scheme->m_e : 1;
        e->edge_down[i] = try_time(link, e->bytes);
        e->edge_up[i] = layered ? try_time(link, e->bytes / m_e) : 0;
    }
    for (uint32_t w = 0; w < e->n; w++) {
        const muster_cluster_worker *worker = &e->cluster->workers[w];
        uint32_t pieces = scheme->pieces > 0 ? scheme->pieces : 1;
        double load = load_of(e, scheme, w) / pieces / worker->speed;
        e->costs[w] = (worker_cost){
            .shift = (float)(load * worker->shift_s),
            .compute = (float)(load * worker->mean_s),
            .down = try_time(&worker->link, e->bytes),
            .up = try_time(&worker->link, message),
        };
        if (e->edges > 0 && !layered) {
            const muster_cluster_edge *edge = &e->cluster->edges[e->edge_of[w]];
            e->costs[w].relay = try_time(&edge->link, message * edge->workers);
        }
    }
}

/* ---- one draw ------------------------------------------------------------ */

/* When a layer of n that have these times can decode; `values` are reordered.
 */
static float layer_time(float *values, uint32_t n, uint32_t s, uint32_t m)
{
    return muster_scheme_groups(n, s, m)
               ? muster_kth_slowest_group(values, n, n / (s + m), m)
               : muster_kth_smallest(values, n, n - s);
}

/* When answers are where they are decoded first, in e->times. */
static void worker_times(muster_estimator *e, const muster_scheme *scheme,
                         const muster_step_draw *draw)
{
    bool layered = is_layered(e, scheme);
    bool relayed = e->edges > 0 && !layered;
    for (uint32_t w = 0; w < e->n; w++) {
        const worker_cost *cost = &e->costs[w];
        e->times[w] = cost->shift + cost->compute * draw->compute[w] +
                      cost->down * draw->down[w] + cost->up * draw->up[w];
        if (relayed) {
            uint32_t edge = e->edge_of[w];
            e->times[w] += cost->relay * draw->relay[w] +
                           e->edge_down[edge] * draw->edge_down[edge];
        }
    }
    if (!layered && e->answer_s > 0) {
        for (uint32_t w = 0; w < e->n; w++) {
            e->times[w] += e->sends;
        }
        muster_nic_pass(&e->nic, e->times, e->n, e->answer_s);
    }
    for (uint32_t i = 0; layered && i < e->edges; i++) {
        const muster_cluster_edge *edge = &e->cluster->edges[i];
        double alone = over_nic(e->inner_bytes, edge->bytes_per_s);
        for (uint32_t w = 0; alone > 0 && w < edge->workers; w++) {
            e->times[edge->first + w] += e->edge_sends[i];
        }
        if (alone > 0) {
            muster_nic_pass(&e->nic, e->times + edge->first, edge->workers,
                            alone);
        }
    }
}

/* What passes between the coordinator and edge i besides its workers' times:
 * both ways of its link, the model and its answer through its NIC. */
static float edge_delay(const muster_estimator *e, uint32_t i,
                        const muster_step_draw *draw)
{
    double own = over_nic(e->bytes, e->cluster->edges[i].bytes_per_s);
    return e->edge_down[i] * draw->edge_down[i] +
           e->edge_up[i] * draw->edge_up[i] + fmaxf(e->sends, (float)own);
}

static bool edges_are_equal(const muster_cluster *cluster)
{
    bool equal = true;
    for (uint32_t i = 1; i < cluster->edge_count; i++) {
        equal = equal && cluster->edges[i].workers == cluster->edges[0].workers;
    }
    return equal;
}

/* The edges' messages through their own NICs and the coordinator's. */
static void pass_above(muster_estimator *e, const muster_scheme *scheme)
{
    uint32_t m_e = scheme->m_e > 0 ? scheme->m_e : 1;
    float *sent = e->scratch; // the workers' times are not needed any more
    for (uint32_t i = 0; i < e->edges; i++) {
        double own = over_nic(e->bytes / m_e, e->cluster->edges[i].bytes_per_s);
        sent[i] = e->edge_times[i] + (float)own;
    }
    if (e->answer_s > 0) {
        muster_nic_pass(&e->nic, e->edge_times, e->edges, e->answer_s);
    }
    for (uint32_t i = 0; i < e->edges; i++) {
        e->edge_times[i] = fmaxf(e->edge_times[i], sent[i]);
    }
}

/* Uses a copy: e->times stays. */
static float layered_time(muster_estimator *e, const muster_scheme *scheme,
                          const muster_step_draw *draw)
{
    bool ignore = scheme->kind == MUSTER_SCHEME_IGNORE;
    memcpy(e->scratch, e->times, e->n * sizeof(float));
    for (uint32_t i = 0; i < e->edges; i++) {
        const muster_cluster_edge *edge = &e->cluster->edges[i];
        float *values = e->scratch + edge->first;
        float ready = ignore ? muster_kth_smallest(values, edge->workers,
                                                   edge->workers - scheme->s_w)
                             : layer_time(values, edge->workers, scheme->s_w,
                                          scheme->m_w);
        e->edge_times[i] = ready + edge_delay(e, i, draw);
    }
    pass_above(e, scheme);
    if (ignore || !edges_are_equal(e->cluster)) {
        return muster_kth_smallest(e->edge_times, e->edges,
                                   e->edges - scheme->s_e);
    }
    return layer_time(e->edge_times, e->edges, scheme->s_e, scheme->m_e);
}

/* e->times: when a worker's own share is complete, if nobody takes it over. */
static float staged_time(muster_estimator *e, const muster_scheme *scheme,
                         const muster_step_draw *draw)
{
    if (e->failed) {
        return INFINITY;
    }
    for (uint32_t w = 0; w < e->n; w++) {
        const worker_cost *cost = &e->costs[w];
        float begin = cost->down * draw->down[w] + e->sends;
        float each = cost->shift + cost->compute * draw->compute[w] +
                     cost->up * draw->up[w];
        e->paces[w] = (muster_staged_pace){begin, each};
        e->times[w] = begin + (float)scheme->pieces * each;
    }
    return (float)muster_staged_step_s(&e->staged, e->paces, e->answer_s);
}

/* When enough answers are there, if every worker has its own processors. */
static float ready_time(muster_estimator *e, const muster_scheme *scheme,
                        const muster_step_draw *draw)
{
    if (scheme->kind == MUSTER_SCHEME_STAGED) {
        return staged_time(e, scheme, draw);
    }
    worker_times(e, scheme, draw);
    if (is_layered(e, scheme)) {
        return layered_time(e, scheme, draw);
    }
    memcpy(e->scratch, e->times, e->n * sizeof(float));
    if (scheme->kind == MUSTER_SCHEME_GROUPS) {
        return muster_kth_slowest_group(
            e->scratch, e->n, e->n / (scheme->s + scheme->m), scheme->m);
    }
    return muster_kth_smallest(e->scratch, e->n, e->n - scheme->s);
}

/* What the processors that workers share take for all that is begun in a step
 * of `end`: nothing that is begun is left, also where nobody waits for it. Of a
 * code in stages, every part once. */
static float work_time(const muster_estimator *e, const muster_scheme *scheme,
                       const muster_step_draw *draw, float end)
{
    bool staged = scheme->kind == MUSTER_SCHEME_STAGED;
    float pieces = staged ? (float)scheme->pieces : 1;
    float work = 0;
    for (uint32_t w = 0; w < e->n; w++) {
        float begin = e->costs[w].down * draw->down[w];
        if (e->edges > 0) {
            uint32_t edge = e->edge_of[w];
            begin += e->edge_down[edge] * draw->edge_down[edge];
        }
        work += staged || begin < end ? pieces * e->costs[w].shift : 0;
    }
    return work / (float)e->cluster->processors;
}

/* The scheme is prepared. */
static float step_time(muster_estimator *e, const muster_scheme *scheme,
                       const muster_step_draw *draw)
{
    float end = ready_time(e, scheme, draw);
    return e->cluster->processors == 0
               ? end
               : fmaxf(end, work_time(e, scheme, draw, end));
}

/* ---- what is asked ------------------------------------------------------- */

bool muster_estimator_has_failed(const muster_estimator *e)
{
    return e->failed;
}

double muster_estimate_surrogate_s(muster_estimator *e,
                                   const muster_scheme *scheme)
{
    muster_step_draw draw = muster_step_draws_mean(&e->draws);
    prepare(e, scheme);
    return (double)step_time(e, scheme, &draw);
}

double muster_estimate_mean_s(muster_estimator *e, const muster_scheme *scheme,
                              uint32_t samples, double *error_out)
{
    double sum = 0;
    double squares = 0;
    uint32_t count = samples < e->samples ? samples : e->samples;
    prepare(e, scheme);
    for (uint32_t i = 0; i < count; i++) {
        muster_step_draw draw = muster_step_draws_at(&e->draws, i);
        double time = (double)step_time(e, scheme, &draw);
        sum += time;
        squares += time * time;
    }
    double mean = sum / count;
    if (error_out != NULL) {
        double variance = fmax(0, squares / count - mean * mean);
        *error_out = sqrt(variance / count);
    }
    return mean;
}

double muster_estimate_draw_s(muster_estimator *e, const muster_scheme *scheme,
                              uint32_t sample)
{
    muster_step_draw draw = muster_step_draws_at(&e->draws, sample);
    prepare(e, scheme);
    return (double)step_time(e, scheme, &draw);
}

void muster_estimate_workers(muster_estimator *e, const muster_scheme *scheme,
                             uint32_t samples,
                             muster_estimate_worker *workers_out)
{
    uint32_t count = samples < e->samples ? samples : e->samples;
    bool layered = is_layered(e, scheme);
    prepare(e, scheme);
    for (uint32_t w = 0; w < e->n; w++) {
        double load = load_of(e, scheme, w);
        bool staged = scheme->kind == MUSTER_SCHEME_STAGED;
        workers_out[w] = (muster_estimate_worker){
            .load = load,
            .storage =
                staged ? muster_staged_storage(&e->staged, w) : load / e->n};
    }
    for (uint32_t i = 0; i < count; i++) {
        muster_step_draw draw = muster_step_draws_at(&e->draws, i);
        double end = (double)step_time(e, scheme, &draw);
        for (uint32_t w = 0; w < e->n; w++) {
            uint32_t edge = e->edge_of[w];
            double time = (double)e->times[w];
            workers_out[w].mean_s += time / count;
            if (layered) {
                time += (double)(e->edge_down[edge] * draw.edge_down[edge] +
                                 e->edge_up[edge] * draw.edge_up[edge]);
            }
            workers_out[w].in_time += (time <= end) / (double)count;
        }
    }
}

void muster_estimate_arrivals(muster_estimator *e, const muster_scheme *scheme,
                              uint32_t sample, double *workers_out,
                              double *edges_out)
{
    muster_step_draw draw = muster_step_draws_at(&e->draws, sample);
    prepare(e, scheme);
    worker_times(e, scheme, &draw);
    for (uint32_t w = 0; w < e->n; w++) {
        workers_out[w] = (double)e->times[w];
    }
    for (uint32_t i = 0; edges_out != NULL && i < e->edges; i++) {
        edges_out[i] = (double)edge_delay(e, i, &draw);
    }
}
