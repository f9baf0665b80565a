/*
 * target.c -- Vose's alias table in fixed point: column c keeps itself when the
 * draw's lower 32 bits are below keep[c], else it gives alias[c]. A column that
 * always keeps itself is its own alias, so that no threshold of 2^32 is needed.
 */
#include "ps/target.h"

#include <math.h>
#include <stdbool.h>

#include "base/mem.h"
#include "base/rng.h"

typedef struct column {
    uint32_t keep;
    uint32_t alias;
} column;

struct muster_target {
    uint32_t kind;
    uint32_t first;
    uint32_t count;
    double log_span;  // log-uniform: log(count + 1)
    column columns[]; // count of them for weights, else none
};

muster_draws muster_draws_make(uint64_t seed, uint64_t stream)
{
    return (muster_draws){.state = muster_rng_at(seed, stream, 0)};
}

static double weight_sum(const double *weights, uint32_t count)
{
    double sum = 0;
    for (uint32_t i = 0; i < count; i++) {
        if (!(weights[i] >= 0) || !isfinite(weights[i])) {
            return -1;
        }
        sum += weights[i];
    }
    return isfinite(sum) ? sum : -1;
}

static void settle_column(column *at, double share, uint32_t alias)
{
    double scaled = share * 0x1p32;
    at->keep = scaled >= 0x1p32 - 1 ? UINT32_MAX : (uint32_t)scaled;
    at->alias = alias;
}

/* Vose: pair each column below the mean with one above it. */
static muster_status fill_alias(muster_target *target, const double *weights,
                                double sum)
{
    uint32_t count = target->count;
    double *share = muster_mem_array(count, sizeof(*share));
    uint32_t *order = muster_mem_array(count, sizeof(*order));
    if (share == NULL || order == NULL) {
        muster_mem_free(share);
        muster_mem_free(order);
        return MUSTER_ERR_NO_MEMORY;
    }
    // Small columns stack up from the left, large ones from the right.
    uint32_t small = 0;
    uint32_t large = count;
    for (uint32_t i = 0; i < count; i++) {
        share[i] = weights[i] / sum * count;
        if (share[i] < 1) {
            order[small++] = i;
        } else {
            order[--large] = i;
        }
    }
    while (small > 0 && large < count) {
        uint32_t low = order[--small];
        uint32_t high = order[large];
        settle_column(&target->columns[low], share[low], high);
        share[high] -= 1 - share[low];
        if (share[high] < 1) {
            large++;
            order[small++] = high;
        }
    }
    while (small > 0) {
        uint32_t rest = order[--small];
        settle_column(&target->columns[rest], 1, rest);
    }
    for (; large < count; large++) {
        settle_column(&target->columns[order[large]], 1, order[large]);
    }
    muster_mem_free(share);
    muster_mem_free(order);
    return MUSTER_OK;
}

muster_status muster_target_create(uint32_t kind, uint32_t first,
                                   uint32_t count, const double *weights,
                                   muster_target **target_out)
{
    double sum = 0;
    if (count == 0 || kind > MUSTER_PS_TARGET_LOG_UNIFORM) {
        return MUSTER_ERR_INVALID;
    }
    bool weighted = kind == MUSTER_PS_TARGET_WEIGHTS;
    if (weighted &&
        (weights == NULL || !((sum = weight_sum(weights, count)) > 0))) {
        return MUSTER_ERR_INVALID;
    }
    size_t columns = weighted ? count : 0;
    muster_target *target = muster_mem_array(
        1, sizeof(*target) + columns * sizeof(target->columns[0]));
    if (target == NULL) {
        return MUSTER_ERR_NO_MEMORY;
    }
    target->kind = kind;
    target->first = first;
    target->count = count;
    target->log_span = log((double)count + 1);
    if (weighted && fill_alias(target, weights, sum) != MUSTER_OK) {
        muster_mem_free(target);
        return MUSTER_ERR_NO_MEMORY;
    }
    *target_out = target;
    return MUSTER_OK;
}

void muster_target_free(muster_target *target)
{
    muster_mem_free(target);
}

uint32_t muster_target_draw(const muster_target *target, muster_draws *draws)
{
    uint64_t bits = muster_draws_next(draws);
    uint32_t high = (uint32_t)(bits >> 32);
    uint32_t at = (uint32_t)(((uint64_t)high * target->count) >> 32);
    if (target->kind == MUSTER_PS_TARGET_UNIFORM) {
        // All 64 bits: 32 are too few for even shares of a billion keys.
        uint64_t low = (uint64_t)(uint32_t)bits * target->count >> 32;
        at = (uint32_t)(((uint64_t)high * target->count + low) >> 32);
    } else if (target->kind == MUSTER_PS_TARGET_WEIGHTS) {
        const column *chosen = &target->columns[at];
        at = (uint32_t)bits < chosen->keep ? at : chosen->alias;
    } else if (target->kind == MUSTER_PS_TARGET_LOG_UNIFORM) {
        double unit = (double)(bits >> 11) * 0x1p-53;
        double real = exp(unit * target->log_span) - 1;
        at = real < target->count - 1 ? (uint32_t)real : target->count - 1;
    }
    return target->first + at;
}

uint32_t muster_target_first(const muster_target *target)
{
    return target->first;
}

uint32_t muster_target_count(const muster_target *target)
{
    return target->count;
}

void muster_target_zipf(uint32_t count, double exponent, double *weights_out)
{
    for (uint32_t k = 0; k < count; k++) {
        weights_out[k] = pow((double)k + 1, -exponent);
    }
}
