/*
 * code/group.h -- codes made of groups: the engine behind uncoded, frc,
 * erasurehead and linear:*.
 *
 * The n workers are cut into q groups; every group owns d' parts that each of
 * its workers holds. With S the sum of the group's gradients cut into m blocks
 * S^0..S^(m-1), worker r of the group sends sum_u G[u][r] S^u, where G is the
 * m x n_b generator of a linear code. A group decodes by itself from the
 * columns of G that answered: with all of them, by least squares, or by a
 * shortcut of the family. When d' does not divide n the groups are larger than
 * d' (by one worker more or less equal) and tolerate more; or, where the family
 * names a cyclic code of the same s and m, the last 2 d' - 1 workers or fewer
 * take that, and every worker's load is d' of n parts, the least there is.
 *
 * With speeds that differ, a group has one of the fastest workers, one of the
 * next, and so on, and parts in proportion to its members' speeds.
 *
 *   Cost         Decoding is one m x m problem a group, never anything in n.
 */
#ifndef MUSTER_CODE_GROUP_H
#define MUSTER_CODE_GROUP_H

#include <stdbool.h>
#include <stdint.h>

#include "code/family.h"

/* All groups of one size. */
typedef struct muster_group_shape {
    uint32_t workers;  // n_b
    double *generator; // m x n_b
    double *full;      // m x n_b: weights when all have answered
    double full_condition;
} muster_group_shape;

/*
 * Decode weights of a group without a solve: fills weights (m x count) for the
 * members present (ascending positions in the group) and returns true, or
 * returns false to have least squares do it.
 */
typedef bool (*muster_group_shortcut)(const void *context,
                                      const muster_group_shape *shape,
                                      const uint32_t *present, uint32_t count,
                                      double *weights);

/* What a family asks for. */
typedef struct muster_group_plan {
    uint32_t length;     // d', parts and smallest number of workers of a group
    uint32_t blocks;     // m
    uint32_t stragglers; // s, any of which are tolerated
    bool any_blocks_do;  // any m members decode (MDS)
    /* Fill the m x workers generator. */
    muster_status (*generate)(void *context, uint32_t workers,
                              double *generator_out, muster_error *error);
    void *context; // for generate
    muster_group_shortcut shortcut;
    const void *shortcut_context; // kept; owned by the caller's state or static
    void *owned;                  // freed with the code, may be NULL
    const char *instead;          // warn when rough: what to use; NULL: never
    bool by_speed;                // form groups by the speeds, loads too
    const char *rest; // a code for workers that fill no group; NULL: none
} muster_group_plan;

MUSTER_CHECKED muster_status muster_group_build(muster_code *code,
                                                const muster_code_spec *spec,
                                                const muster_group_plan *plan,
                                                muster_error *error);

/* The functions of the table. */
muster_status muster_group_weights(const muster_code *code,
                                   muster_code_query *query);
void muster_group_free(void *state);
size_t muster_group_progress_bytes(const muster_code *code);
void muster_group_progress_reset(const muster_code *code, void *progress);
bool muster_group_progress_add(const muster_code *code, void *progress,
                               uint32_t worker);

/* A shortcut: the first member's message is the group's sum (m = 1, G = 1). */
bool muster_group_first(const void *context, const muster_group_shape *shape,
                        const uint32_t *present, uint32_t count,
                        double *weights);

/* The table's condition_bound, for Gaussian generators. */
double muster_group_condition_bound(const muster_code *code, double risk);

/* A generator of ones. */
muster_status muster_group_ones(void *context, uint32_t workers,
                                double *generator_out, muster_error *error);

#endif // MUSTER_CODE_GROUP_H
