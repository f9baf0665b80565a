/*
 * plan/staged.h -- when a step of a code in stages ends.
 *
 * What src/role does where every worker has processors of its own: a worker
 * computes its stages in their order and sends those of its own share. When
 * half of the parts have come and a quarter of that time has passed, all are
 * told what is missing. From then on a worker sends what it has of that,
 * computes nothing else, and leaves a part that has come from somebody. The
 * step ends when every part has come. Messages share the coordinator's NIC in
 * equal parts (plan/nic.h).
 *
 *   Lifecycle    init; any number of steps; fini.
 *   Threads      A muster_staged belongs to one thread.
 *   Allocation   init only.
 */
#ifndef MUSTER_PLAN_STAGED_H
#define MUSTER_PLAN_STAGED_H

#include <stdbool.h>
#include <stdint.h>

#include "muster/code.h"

/* A worker has the model at `begin`; each of its stages takes `each`. */
typedef struct muster_staged_pace {
    float begin, each;
} muster_staged_pace;

/* A stage that is being computed. */
typedef struct muster_staged_end {
    float time;
    uint32_t worker;
} muster_staged_end;

typedef struct muster_staged {
    uint32_t workers, parts, stages, own;
    uint32_t *part_of;                // [worker][stage], or NONE
    uint32_t *first_holder, *holders; // of a part: answers
    const muster_staged_pace *paces;  // of the step at hand, as what follows
    muster_staged_end *heap;          // the next one first
    uint32_t heap_count;
    float *ends;       // by worker: of its stage; INFINITY: it has none
    uint32_t *running; // by worker: the stage
    uint64_t *done;    // by worker: bits of stages; sent, kept or left
    uint64_t *kept;    // likewise: done and not sent
    bool *come;        // by part
    uint32_t missing;
    bool asked;
    double ask_at;
    // The NIC, as nic.c has it; messages leave in the order in which they came.
    double alone, nic_now, served;
    uint32_t *message_part;
    double *message_end;
    uint32_t first_message, next_message;
} muster_staged;

/* False: out of memory. */
bool muster_staged_init(muster_staged *staged, const muster_code *code);
/* One that is all zero, or has failed to init, is allowed. */
void muster_staged_fini(muster_staged *staged);

/* How long a step takes; `alone_s` is what a message takes alone on the
 * coordinator's NIC. */
double muster_staged_step_s(muster_staged *staged,
                            const muster_staged_pace *paces, double alone_s);

/* The share of the data that a worker holds, 0..1. */
double muster_staged_storage(const muster_staged *staged, uint32_t worker);

#endif // MUSTER_PLAN_STAGED_H
