/*
 * muster/ps_sample.h -- random rows of a parameter server, and how far they may
 * differ from independent draws.
 *
 * A distribution over the keys of a table, with a scheme that says how far
 * samples may differ from independent draws in exchange for speed:
 *
 *   INDEPENDENT  (L1) independent draws from the target.
 *   REUSE        (L2) draws are made in groups and each is used `reuse` times,
 *                shuffled within its group: every sample has the target as its
 *                distribution, dependence is bounded by the group.
 *   POSTPONE     (L3) as REUSE, but a sample whose row is on another node is
 *                put off once to the end of its handle: long-run frequencies
 *                tend to the target.
 *   LOCAL        (L4) only rows of this node; no promise on frequencies. If 16
 *                draws are rows of other nodes, and so are the 4096 keys after
 *                the last draw, that draw is given all the same.
 *   REPURPOSE    (L4) rows that this worker itself has lately accessed.
 *
 *   Promise      Each scheme keeps what its level says, whatever the nodes do.
 *   Lifecycle    Distributions are added after their table and before workers;
 *                samples are prepared, then pulled.
 *   Threads      As muster/ps.h: a worker belongs to one thread at a time.
 *   Allocation   At add, and at a worker's first use of a distribution.
 *   Determinism  Samples of the first two schemes are a function of (seed,
 *                worker number, draw), and of the positions sought. After a
 *                seek INDEPENDENT ones are a function of (seed, distribution,
 *                position, draw): the same for every worker that draws them,
 *                and after a resume.
 *   Errors       add writes error_out; for the rest muster_ps_error_text().
 */
#ifndef MUSTER_PS_SAMPLE_H
#define MUSTER_PS_SAMPLE_H

#include <stddef.h>
#include <stdint.h>

#include "muster/export.h"
#include "muster/ps.h"
#include "muster/status.h"

#ifdef __cplusplus
extern "C" {
#endif

#define MUSTER_PS_DISTRIBUTIONS_MAX 16u
/* Samples, and handles of them, that one worker may have prepared of one
 * distribution and not yet pulled. */
#define MUSTER_PS_SAMPLES_MAX        65536u
#define MUSTER_PS_SAMPLE_HANDLES_MAX 64u

typedef enum muster_ps_target {
    MUSTER_PS_TARGET_UNIFORM = 0,
    MUSTER_PS_TARGET_WEIGHTS = 1,     // proportional to weights (alias table)
    MUSTER_PS_TARGET_LOG_UNIFORM = 2, // P(k) ~ log((k + 2) / (k + 1))
} muster_ps_target;

typedef enum muster_ps_scheme {
    MUSTER_PS_INDEPENDENT = 1,
    MUSTER_PS_REUSE = 2,
    MUSTER_PS_POSTPONE = 3,
    MUSTER_PS_LOCAL = 4,
    MUSTER_PS_REPURPOSE = 5,
} muster_ps_scheme;

typedef struct muster_ps_distribution_opts {
    uint32_t struct_size;
    uint32_t table;
    uint32_t first;        // lowest key drawn; default 0
    uint32_t count;        // keys first..first+count-1; 0: to the table's end
    uint32_t target;       // a muster_ps_target; default uniform
    uint32_t scheme;       // a muster_ps_scheme; default independent
    uint32_t reuse;        // U of REUSE and POSTPONE, 1..1024; default 16
    uint32_t group;        // draws per group, 1..16384; default 250
    const double *weights; // count of them, >= 0, sum > 0; read during add
} muster_ps_distribution_opts;

#define MUSTER_PS_DISTRIBUTION_OPTS_INIT                               \
    {                                                                  \
        (uint32_t)sizeof(muster_ps_distribution_opts), 0u, 0u, 0u, 0u, \
            (uint32_t)MUSTER_PS_INDEPENDENT, 16u, 250u, NULL           \
    }

/*
 * Add a distribution; they are numbered 0, 1, .. in the order they are added.
 * MUSTER_ERR_INVALID    a field is out of range, the weights are not a
 *                       distribution, DISTRIBUTIONS_MAX are there, or there are
 *                       workers already
 * MUSTER_ERR_NO_MEMORY  for O(count) bytes
 */
MUSTER_API MUSTER_CHECKED muster_status muster_ps_distribution_add(
    muster_ps *ps, const muster_ps_distribution_opts *opts,
    muster_error *error_out, uint32_t *distribution_out);

/*
 * Draw from now on the samples of `position`: any number that names a piece of
 * the work, such as epoch and batch. Samples that the first three schemes have
 * prepared stay, and a group of REUSE or POSTPONE is used up first; the others
 * draw when they are pulled.
 * MUSTER_ERR_INVALID    NULL, or no such distribution
 * MUSTER_ERR_NO_MEMORY  at the worker's first use of the distribution
 */
MUSTER_API MUSTER_CHECKED muster_status muster_ps_sample_seek(
    muster_ps_worker *worker, uint32_t distribution, uint64_t position);
/*
 * Announce that `count` samples will be wanted, so that their rows can be
 * brought to this node meanwhile.
 * MUSTER_ERR_INVALID    NULL, no such distribution, or count is 0
 * MUSTER_ERR_AGAIN      SAMPLES_MAX or SAMPLE_HANDLES_MAX would be passed
 * MUSTER_ERR_NO_MEMORY  at the worker's first use of the distribution
 */
MUSTER_API MUSTER_CHECKED muster_status
muster_ps_sample_prepare(muster_ps_worker *worker, uint32_t distribution,
                         size_t count, uint64_t *handle_out);
/*
 * The next `count` samples of a handle: keys, and their weights unless
 * values_out is NULL (the caller may then begin the rows itself). The handle
 * ends with its last sample.
 * MUSTER_ERR_INVALID    no such handle, more than were prepared, or a row is
 *                       open
 * MUSTER_ERR_NO_MEMORY, MUSTER_ERR_PEER_LOST  the values, as muster_ps_pull();
 *                       the samples are used up
 */
MUSTER_API MUSTER_CHECKED muster_status
muster_ps_sample_pull(muster_ps_worker *worker, uint64_t handle, size_t count,
                      uint32_t *keys_out, float *values_out);
/* Give back a handle before its last sample. MUSTER_ERR_INVALID: no such
 * handle. */
MUSTER_API MUSTER_CHECKED muster_status
muster_ps_sample_finish(muster_ps_worker *worker, uint64_t handle);

#ifdef __cplusplus
}
#endif
#endif // MUSTER_PS_SAMPLE_H
