/*
 * distribution.c -- Vose's alias table in fixed point.
 *
 * 64 random bits times the number of columns: the high part is a column c, the
 * next 32 bits are compared with keep[c]. When they are smaller, the result is
 * c, else it is alias[c].
 *
 * Invariants
 *  1. A column that always yields its own key has itself as alias, so that no
 *     threshold of 2^32 is needed.
 *  2. keep is 0 exactly for keys of weight 0, and they are no column's alias.
 */
#include "ps/store/distribution.h"

#include <math.h>

#include "base/assert.h"
#include "base/mem.h"
#include "base/rng.h"

#define EVERY_WORKER (UINT64_MAX << 32) // above the number of any worker

typedef struct column {
    uint32_t keep;
    uint32_t alias;
} column;

struct muster_key_distribution {
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

muster_draws muster_draws_at(uint64_t seed, uint32_t distribution,
                             uint64_t position)
{
    uint64_t stream = EVERY_WORKER | distribution;
    return (muster_draws){.state = muster_rng_at(seed, stream, position)};
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

/* Rounding left this column without a partner: it yields its own key, or the
 * heaviest key when its own weight is 0. */
static void settle_rest(muster_key_distribution *target, const double *weights,
                        uint32_t rest, uint32_t heaviest)
{
    bool possible = weights[rest] > 0;
    settle_column(&target->columns[rest], possible, possible ? rest : heaviest);
}

/* A key with any weight above 0 can be drawn, however small the weight is. */
static void keep_possible(muster_key_distribution *target,
                          const double *weights)
{
    for (uint32_t i = 0; i < target->count; i++) {
        MUSTER_ASSERT(weights[i] > 0 || target->columns[i].keep == 0);
        if (weights[i] > 0 && target->columns[i].keep == 0) {
            target->columns[i].keep = 1;
        }
    }
}

/* Vose: pair each column below the mean with one above it. */
static muster_status fill_alias(muster_key_distribution *target,
                                const double *weights, double sum)
{
    uint32_t count = target->count;
    double *share = muster_mem_array(count, sizeof(*share));
    uint32_t *order = muster_mem_array(count, sizeof(*order));
    if (share == NULL || order == NULL) {
        muster_mem_free(share);
        muster_mem_free(order);
        return MUSTER_ERR_NO_MEMORY;
    }
    // `order` is two stacks: small columns from the left, large from the right.
    uint32_t small = 0;
    uint32_t large = count;
    uint32_t heaviest = 0;
    for (uint32_t i = 0; i < count; i++) {
        share[i] = weights[i] / sum * count;
        heaviest = weights[i] > weights[heaviest] ? i : heaviest;
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
        settle_rest(target, weights, order[--small], heaviest);
    }
    for (; large < count; large++) {
        settle_rest(target, weights, order[large], heaviest);
    }
    keep_possible(target, weights);
    muster_mem_free(share);
    muster_mem_free(order);
    return MUSTER_OK;
}

muster_status
muster_key_distribution_create(uint32_t kind, uint32_t first, uint32_t count,
                               const double *weights,
                               muster_key_distribution **target_out)
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
    muster_key_distribution *target = muster_mem_array(
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

void muster_key_distribution_free(muster_key_distribution *target)
{
    muster_mem_free(target);
}

/* A column in the upper 32 bits, and a place in it in the lower ones. All 64
 * bits count: 32 are too few for equal shares of a billion keys. */
static inline uint64_t scale(const muster_key_distribution *target,
                             uint64_t bits)
{
    uint64_t low = (uint64_t)(uint32_t)bits * target->count >> 32;
    return (bits >> 32) * target->count + low;
}

/* The column or its alias; by a mask, since a branch would be foreseen wrongly
 * every other time. */
static inline uint32_t choose(const muster_key_distribution *target,
                              uint64_t scaled)
{
    uint32_t at = (uint32_t)(scaled >> 32);
    column chosen = target->columns[at];
    uint32_t stays = 0 - (uint32_t)((uint32_t)scaled < chosen.keep);
    return (at & stays) | (chosen.alias & ~stays);
}

uint32_t muster_key_distribution_draw(const muster_key_distribution *target,
                                      muster_draws *draws)
{
    uint64_t bits = muster_draws_next(draws);
    uint64_t scaled = scale(target, bits);
    uint32_t at = (uint32_t)(scaled >> 32);
    if (target->kind == MUSTER_PS_TARGET_WEIGHTS) {
        at = choose(target, scaled);
    } else if (target->kind == MUSTER_PS_TARGET_LOG_UNIFORM) {
        double unit = (double)(bits >> 11) * 0x1p-53;
        double real = exp(unit * target->log_span) - 1;
        at = real < target->count - 1 ? (uint32_t)real : target->count - 1;
    }
    return target->first + at;
}

void muster_key_distribution_draw_many(const muster_key_distribution *target,
                                       muster_draws *draws, uint32_t *keys_out,
                                       size_t count)
{
    muster_draws from = *draws; // in a register
    if (target->kind == MUSTER_PS_TARGET_WEIGHTS) {
        for (size_t i = 0; i < count; i++) {
            uint64_t scaled = scale(target, muster_draws_next(&from));
            keys_out[i] = target->first + choose(target, scaled);
        }
    } else {
        for (size_t i = 0; i < count; i++) {
            keys_out[i] = muster_key_distribution_draw(target, &from);
        }
    }
    *draws = from;
}

bool muster_key_distribution_possible(const muster_key_distribution *target,
                                      uint32_t key)
{
    return target->kind != MUSTER_PS_TARGET_WEIGHTS ||
           target->columns[key - target->first].keep > 0;
}

uint32_t muster_key_distribution_first(const muster_key_distribution *target)
{
    return target->first;
}

uint32_t muster_key_distribution_count(const muster_key_distribution *target)
{
    return target->count;
}

void muster_key_distribution_zipf(uint32_t count, double exponent,
                                  double *weights_out)
{
    for (uint32_t k = 0; k < count; k++) {
        weights_out[k] = pow((double)k + 1, -exponent);
    }
}
