/*
 * ps/store/intent.h -- when to act on what a worker intends, by its own clock.
 *
 * A worker says ahead of time which rows it will use while its logical clock is
 * in [start, end). Acting at once would hold copies for nothing; acting at
 * `start` would be too late. So intents wait here until `start` is within reach
 * of the clock: as far as it may get until rows asked for now are here. That is
 * estimated from how far the clock went in past rounds, as AdaPM does
 * (Renz-Wieland et al., CIKM 2023): rounds of the network thread are of about
 * one length, clocks per round are smoothed, and an intent is acted on when
 * its start is below the 0.9999 quantile of what two more rounds may bring.
 *
 *   muster_intents_add()    keeps an intent
 *   muster_intents_round()  a round has passed: estimate again
 *   muster_intents_next()   the next intent that begins or ends now, if any
 *
 *   Promise      Every intent begins once, and ends once and later. At a clock
 *                of start or above it has begun, at end or above it has ended,
 *                when next() has been called until it says no.
 *   Threads      One.
 *   Allocation   add: a copy of the keys, given back after the end.
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

/* MUSTER_ERR_NO_MEMORY: it was not kept. */
MUSTER_CHECKED muster_status muster_intents_add(muster_intents *intents,
                                                const muster_intent *intent);

/* A round ends at this reading of the clock. */
void muster_intents_round(muster_intents *intents, uint64_t clock);

/* True: *due_out begins or ends now; its keys are lent until the next call. */
bool muster_intents_next(muster_intents *intents, uint64_t clock,
                         muster_intent *due_out, bool *begins_out);

/* End what has begun and forget the rest, one at a time; false: all ended. */
bool muster_intents_abandon(muster_intents *intents, muster_intent *ended_out);

/* Intents that have not ended, and how far ahead of the clock one is acted on.
 */
size_t muster_intents_count(const muster_intents *intents);
uint64_t muster_intents_reach(const muster_intents *intents);

#endif // MUSTER_PS_STORE_INTENT_H
