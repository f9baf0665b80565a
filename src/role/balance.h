/*
 * role/balance.h -- how many shards each worker should have, from the times
 * that the workers measure.
 *
 * Each answer says how long its worker computed. With n_j shards worker j takes
 * a_j + t_j n_j: a fixed cost and one by its samples. Once every worker has
 * timed enough of its own batches, the sizes are sought that let all end
 * together. The first sizes tell t_j alone, as if there were no fixed cost; the
 * second ones, being others, tell a_j too. Workers of one machine slow each
 * other down, so that speeds depend on the sizes: there are up to three moves
 * at the start. Later times are watched, and speeds that have changed for good
 * lead to new sizes.
 *
 *   Promise      Sizes add up to the shards; every worker has at least one.
 *                The slowest takes as long as with the best whole sizes, after
 *                three maps at most 2 % more where fewer shards then move.
 *                A new map is wanted where the slowest worker would gain 7 %;
 *                after three maps where it would gain 10 %, by two
 *                measurements one after the other.
 *   Measuring    The median of answers that took half a second together, or of
 *                at least 16 that took 80 ms: a batch of below 5 ms is timed
 *                with others. For the first map four that took 20 ms will do.
 *                The first answer under a map is left out.
 *   Determinism  A function of the calls.
 */
#ifndef MUSTER_ROLE_BALANCE_H
#define MUSTER_ROLE_BALANCE_H

#include <stdbool.h>
#include <stdint.h>

#include "muster/status.h"

typedef struct muster_balance muster_balance;

/* At least one worker and as many shards. MUSTER_ERR_NO_MEMORY. */
MUSTER_CHECKED muster_status muster_balance_create(
    uint32_t workers, uint32_t shards, muster_balance **balance_out);
/* NULL is allowed and does nothing. */
void muster_balance_free(muster_balance *balance);

/* An answer under the map in force. */
void muster_balance_time(muster_balance *balance, uint32_t worker,
                         int64_t compute_ns);

/* Is another map better than `first`, by which worker j has the shards first[j]
 * .. first[j + 1] - 1? Then first_out has it, and times are taken anew once
 * muster_balance_adopted() is called. */
bool muster_balance_next(muster_balance *balance, const uint32_t *first,
                         uint32_t *first_out);
void muster_balance_adopted(muster_balance *balance);
/* The sizes are those that an earlier life had measured: they are moved as
 * after the first moves. */
void muster_balance_resume(muster_balance *balance);

/* Shards a second, without the fixed cost; 0: not known. */
double muster_balance_speed(const muster_balance *balance, uint32_t worker);

#endif // MUSTER_ROLE_BALANCE_H
