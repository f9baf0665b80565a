/*
 * ps/store/intent.h -- when to act on the intents of a worker.
 *
 * A worker announces ahead of time which rows it will use while its logical
 * clock is in [start, end). If the node acted at once, it would hold replicas
 * that nobody uses yet. If it acted at `start`, the rows would come too late.
 * So an intent waits here until the worker's clock may reach `start` before
 * rows that are requested now arrive. AdaPM (Renz-Wieland et al., CIKM 2023)
 * estimates this from the past, and so do we: the network thread works in
 * rounds of about equal length; the number of clocks per round is smoothed
 * exponentially; an intent begins when its start is below the 0.9999 quantile
 * of the clock after two more rounds.
 *
 *   muster_intents_add()    stores an intent
 *   muster_intents_round()  a round has passed: update the estimate
 *   muster_intents_next()   the next intent that begins or ends now, if any
 *
 *   Promise      Every intent begins once, and later ends once. When next() was
 *                called until it returned false, every intent whose start is at
 *                or below the clock has begun, and every intent whose end is at
 *                or below the clock has ended.
 *   Threads      One.
 *   Allocation   add: a copy of the keys, freed after the end.
 */
#ifndef MUSTER_PS_STORE_INTENT_H
#define MUSTER_PS_STORE_INTENT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "muster/status.h"

typedef struct muster_intents muster_intents; // of one worker

typedef struct muster_intent {
    uint32_t table;
    uint32_t count;
    const uint32_t *keys; // lent
    uint64_t start;
    uint64_t end; // above start
} muster_intent;

MUSTER_CHECKED muster_status muster_intents_create(muster_intents **out);
void muster_intents_free(muster_intents *intents);

/* MUSTER_ERR_NO_MEMORY: the intent was not stored. */
MUSTER_CHECKED muster_status muster_intents_add(muster_intents *intents,
                                                const muster_intent *intent);

/* A round ends; `clock` is the worker's clock. */
void muster_intents_round(muster_intents *intents, uint64_t clock);

/* True: *due_out begins or ends now; its keys are lent until the next call. */
bool muster_intents_next(muster_intents *intents, uint64_t clock,
                         muster_intent *due_out, bool *begins_out);

/* Call it until it returns false: each call ends one intent that has begun; at
 * last the intents that have not begun are dropped. */
bool muster_intents_abandon(muster_intents *intents, muster_intent *ended_out);

/* Number of intents that have not ended, and how far ahead of the clock an
 * intent begins. */
size_t muster_intents_count(const muster_intents *intents);
uint64_t muster_intents_reach(const muster_intents *intents);

#endif // MUSTER_PS_STORE_INTENT_H
