/*
 * draw.c -- see draw.h.
 */
#include "plan/draw.h"

#include <math.h>

#include "base/mem.h"
#include "base/rng.h"

enum {
    STREAM_COMPUTE = 0,
    STREAM_DOWN,
    STREAM_UP,
    STREAM_RELAY,
    STREAM_EDGE_DOWN,
    STREAM_EDGE_UP,
    STREAMS,
};

static size_t floats_of_step(const muster_step_draws *draws)
{
    return 4 * (size_t)draws->workers + 2 * (size_t)draws->edges;
}

static muster_step_draw look(const muster_step_draws *draws, const float *at)
{
    size_t n = draws->workers;
    return (muster_step_draw){at,         at + n,
                              at + 2 * n, at + 3 * n,
                              at + 4 * n, at + 4 * n + draws->edges};
}

muster_step_draw muster_step_draws_at(const muster_step_draws *draws,
                                      uint32_t sample)
{
    return look(draws, draws->steps + sample * floats_of_step(draws));
}

muster_step_draw muster_step_draws_mean(const muster_step_draws *draws)
{
    return look(draws, draws->mean);
}

static float tries(double loss, double uniform)
{
    if (loss <= 0) {
        return 1;
    }
    return (float)(1 + floor(log(1 - uniform) / log(loss)));
}

static float mean_tries(double loss)
{
    return (float)(1 / (1 - loss));
}

/* Of the link of a worker's edge. */
static double relay_loss(const muster_step_draws_opts *opts, uint32_t worker)
{
    const muster_cluster *cluster = opts->cluster;
    return cluster->edge_count > 0
               ? cluster->edges[opts->edge_of[worker]].link.loss
               : 0;
}

/* The number that worker w has in the whole cluster. */
static uint64_t number_of(const muster_step_draws_opts *opts, uint32_t w)
{
    return opts->numbers != NULL ? opts->numbers[w] : w;
}

static void fill_step(const muster_step_draws *draws, float *at,
                      const muster_step_draws_opts *opts, uint64_t sample)
{
    size_t n = draws->workers;
    muster_rng rng[STREAMS];
    uint64_t first = sample * (opts->numbers != NULL ? opts->whole : n);
    for (uint64_t stream = 0; stream < STREAMS; stream++) {
        rng[stream] = muster_rng_make(opts->seed, stream);
    }
    for (uint32_t w = 0; w < n; w++) {
        double loss = opts->cluster->workers[w].link.loss;
        double relay = relay_loss(opts, w);
        for (uint64_t stream = 0; stream < STREAM_EDGE_DOWN; stream++) {
            rng[stream].index = first + number_of(opts, w);
        }
        at[w] = (float)muster_rng_exponential(&rng[STREAM_COMPUTE]);
        at[n + w] = tries(loss, muster_rng_uniform(&rng[STREAM_DOWN]));
        at[2 * n + w] = tries(loss, muster_rng_uniform(&rng[STREAM_UP]));
        at[3 * n + w] = tries(relay, muster_rng_uniform(&rng[STREAM_RELAY]));
    }
    for (uint32_t i = 0; i < draws->edges; i++) {
        double loss = opts->cluster->edges[i].link.loss;
        uint64_t number = number_of(opts, opts->cluster->edges[i].first);
        rng[STREAM_EDGE_DOWN].index = first + number;
        rng[STREAM_EDGE_UP].index = first + number;
        at[4 * n + i] = tries(loss, muster_rng_uniform(&rng[STREAM_EDGE_DOWN]));
        at[4 * n + draws->edges + i] =
            tries(loss, muster_rng_uniform(&rng[STREAM_EDGE_UP]));
    }
}

static void fill_mean(const muster_step_draws *draws,
                      const muster_step_draws_opts *opts)
{
    size_t n = draws->workers;
    for (uint32_t w = 0; w < n; w++) {
        float both = mean_tries(opts->cluster->workers[w].link.loss);
        draws->mean[w] = 1;
        draws->mean[n + w] = both;
        draws->mean[2 * n + w] = both;
        draws->mean[3 * n + w] =
            draws->edges > 0 ? mean_tries(relay_loss(opts, w)) : 0;
    }
    for (uint32_t i = 0; i < draws->edges; i++) {
        float both = mean_tries(opts->cluster->edges[i].link.loss);
        draws->mean[4 * n + i] = both;
        draws->mean[4 * n + draws->edges + i] = both;
    }
}

bool muster_step_draws_init(muster_step_draws *draws,
                            const muster_step_draws_opts *opts)
{
    *draws = (muster_step_draws){.workers = opts->cluster->worker_count,
                                 .edges = opts->cluster->edge_count};
    size_t step = floats_of_step(draws);
    draws->steps = muster_mem_array(opts->samples, step * sizeof(float));
    draws->mean = muster_mem_array(step, sizeof(float));
    if (draws->steps == NULL || draws->mean == NULL) {
        return false;
    }
    for (uint32_t i = 0; i < opts->samples; i++) {
        fill_step(draws, draws->steps + i * step, opts, i);
    }
    fill_mean(draws, opts);
    return true;
}

void muster_step_draws_fini(muster_step_draws *draws)
{
    muster_mem_free(draws->steps);
    muster_mem_free(draws->mean);
    *draws = (muster_step_draws){0};
}
