/*
 * plan/scheme.h -- what a planner may choose: a kind of code and its numbers.
 *
 * A kind stands for all codes that have the same load and are ready at the same
 * time:
 *   GROUPS   n / (s + m) groups, each ready with any m of its workers: uncoded,
 *            frc, linear:repetition, linear:tuned
 *   SPREAD   any n - s workers, load s + m: ye-abbe-tuned
 *   SPEEDS   any n - s workers, loads in proportion to speeds: heter
 *   HIER     the two-layer code
 *   STAGED   a share of the data each, sent when it is done, and those of s
 *            others where they are late: scheduled. Not with edges, which
 *            would have to pass on what is missing
 *   IGNORE   any n - s workers of an uncoded cluster, what is missing is lost;
 *            with edges, n - s_e edges of which each has lost s_w. Not exact:
 *            a comparison, never chosen
 */
#ifndef MUSTER_PLAN_SCHEME_H
#define MUSTER_PLAN_SCHEME_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/vec.h"
#include "cluster/file.h"
#include "muster/code.h"

typedef enum muster_scheme_kind {
    MUSTER_SCHEME_GROUPS = 0,
    MUSTER_SCHEME_SPREAD,
    MUSTER_SCHEME_SPEEDS,
    MUSTER_SCHEME_HIER,
    MUSTER_SCHEME_IGNORE,
    MUSTER_SCHEME_STAGED,
} muster_scheme_kind;

typedef enum muster_scheme_order {
    MUSTER_ORDER_CYCLIC = 0,
    MUSTER_ORDER_STAIRCASE,
    MUSTER_ORDER_SPEEDS,
} muster_scheme_order;

typedef struct muster_scheme {
    muster_scheme_kind kind;
    uint32_t s, m;             // flat; m also of HIER: m_e m_w
    uint32_t s_e, s_w;         // HIER, IGNORE with edges
    uint32_t m_e, m_w;         // HIER
    muster_scheme_order order; // STAGED
    uint32_t pieces;           // STAGED: messages of a share
} muster_scheme;

/* A layer of n workers or edges with these numbers: does it form groups? */
static inline bool muster_scheme_groups(uint32_t n, uint32_t s, uint32_t m)
{
    return n % (s + m) == 0;
}

/* All schemes for the cluster whose codes stay within their float32 limits,
 * uncoded first; with `split`, shorter messages (m > 1) too. An uncoded cluster
 * with edges is HIER with s_e = s_w = 0. False: out of memory. */
bool muster_scheme_list(const muster_cluster *cluster, bool split,
                        muster_vec *schemes_out);

/* Every worker has an even share; with edges HIER with s_e = s_w = 0. */
muster_scheme muster_scheme_uncoded(const muster_cluster *cluster);
bool muster_scheme_is_uncoded(const muster_scheme *scheme);

/* Do loads or orders follow the workers' speeds? */
bool muster_scheme_by_speed(const muster_scheme *scheme);

/* The family and the whole name, as --code takes it. */
void muster_scheme_name(const muster_scheme *scheme,
                        const muster_cluster *cluster, char *family_out,
                        size_t family_size, char *name_out, size_t name_size);

/* The topology of the cluster as hier takes it, for muster_mem_free(); NULL
 * when out of memory. */
char *muster_scheme_topology(const muster_cluster *cluster);

/* Build the scheme's code. Statuses as muster_code_create(). */
MUSTER_CHECKED muster_status muster_scheme_build(const muster_scheme *scheme,
                                                 const muster_cluster *cluster,
                                                 muster_code **code_out);

#endif // MUSTER_PLAN_SCHEME_H
