/*
 * plan/nic.h -- when equal messages have passed a NIC that they share.
 *
 * Each message that is passing gets an equal part of the NIC's rate, as TCP's
 * streams do and as src/sim has it. Equal messages leave in the order in which
 * they came, so that one pass over their sorted times is enough.
 *
 *   Threads      A muster_nic belongs to one thread.
 */
#ifndef MUSTER_PLAN_NIC_H
#define MUSTER_PLAN_NIC_H

#include <stdbool.h>
#include <stdint.h>

typedef struct muster_nic_entry {
    float time;
    uint32_t index;
} muster_nic_entry;

/* Room for `room` messages. */
typedef struct muster_nic {
    uint32_t room;
    muster_nic_entry *entries, *other;
    double *ends;
} muster_nic;

/* False: out of memory. */
bool muster_nic_init(muster_nic *nic, uint32_t room);
void muster_nic_fini(muster_nic *nic);

/* times[i] is when message i comes, afterwards when it has passed; `alone_s` is
 * what it takes alone. */
void muster_nic_pass(muster_nic *nic, float *times, uint32_t count,
                     double alone_s);

#endif // MUSTER_PLAN_NIC_H
