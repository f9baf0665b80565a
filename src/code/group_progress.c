/*
 * group_progress.c -- counts answers, group by group: a group is ready with
 * `blocks` independent ones.
 */
#include <math.h>
#include <string.h>

#include "code/group_inside.h"

/* Columns closer than this to the span of the others count as inside it. */
#define SPAN_TOLERANCE 1e-7

/* Answers of a progress, per group, followed by ranks and bases. */
typedef struct group_progress {
    uint32_t groups_ready;
    uint32_t pad;
    uint32_t counts[]; // per group: answers, or rank where that is needed;
                       // then the answers of the rest
} group_progress;

/* Doubles of the bases start at the first multiple of 8 after the counts. */
static size_t bases_offset(const muster_group_state *state)
{
    size_t bytes =
        sizeof(group_progress) + sizeof(uint32_t) * (state->groups + 1);
    return (bytes + 7) / 8 * 8;
}

size_t muster_group_progress_bytes(const muster_code *code)
{
    const muster_group_state *state = code->state;
    size_t base = state->any_blocks_do
                      ? 0
                      : sizeof(double) * state->blocks * state->blocks;
    return bases_offset(state) + base * state->groups;
}

void muster_group_progress_reset(const muster_code *code, void *memory)
{
    const muster_group_state *state = code->state;
    group_progress *progress = memory;
    progress->groups_ready = 0;
    memset(progress->counts, 0, sizeof(uint32_t) * (state->groups + 1));
}

/* Add column r of the generator to an orthonormal basis of `rank` vectors;
 * true when it points out of their span. Twice, because once is not enough
 * (Kahan). */
static bool extend_basis(const muster_group_shape *shape, uint32_t blocks,
                         uint32_t r, double *basis, uint32_t rank)
{
    double *fresh = basis + (size_t)rank * blocks;
    double size = 0.0;
    for (uint32_t u = 0; u < blocks; u++) {
        fresh[u] = shape->generator[(size_t)u * shape->workers + r];
        size += fresh[u] * fresh[u];
    }
    for (uint32_t i = 0; i < 2 * rank; i++) {
        const double *known = basis + (size_t)(i % rank) * blocks;
        double along = 0.0;
        for (uint32_t u = 0; u < blocks; u++) {
            along += known[u] * fresh[u];
        }
        for (uint32_t u = 0; u < blocks; u++) {
            fresh[u] -= along * known[u];
        }
    }
    double left = 0.0;
    for (uint32_t u = 0; u < blocks; u++) {
        left += fresh[u] * fresh[u];
    }
    if (left <= SPAN_TOLERANCE * SPAN_TOLERANCE * size) {
        return false;
    }
    for (uint32_t u = 0; u < blocks; u++) {
        fresh[u] /= sqrt(left);
    }
    return true;
}

/* An answer of the rest: it is ready when at most s of it are missing. */
static bool rest_is_ready(const muster_group_state *state,
                          group_progress *progress)
{
    const muster_code_info *rest = &state->rest->info;
    uint32_t heard = ++progress->counts[state->groups];
    return heard + rest->stragglers == rest->workers;
}

/* An answer of a group's member: does it make the group ready? */
static bool group_is_ready(const muster_group_state *state, void *memory,
                           uint32_t place)
{
    group_progress *progress = memory;
    muster_group_ref ref = muster_group_of(state, place);
    uint32_t *count = &progress->counts[ref.index];
    if (*count == state->blocks) {
        return false;
    }
    bool counts = true;
    if (!state->any_blocks_do) {
        double *bases =
            (double *)(void *)((char *)memory + bases_offset(state));
        double *basis =
            bases + (size_t)ref.index * state->blocks * state->blocks;
        counts = extend_basis(ref.shape, state->blocks, place - ref.first,
                              basis, *count);
    }
    *count += counts;
    return counts && *count == state->blocks;
}

bool muster_group_progress_add(const muster_code *code, void *memory,
                               uint32_t worker)
{
    const muster_group_state *state = code->state;
    group_progress *progress = memory;
    uint32_t place = muster_group_place(state, worker);
    progress->groups_ready += place < muster_group_end(state)
                                  ? group_is_ready(state, memory, place)
                                  : rest_is_ready(state, progress);
    return progress->groups_ready == state->groups + (state->rest != NULL);
}
