/*
 * edge_answers.c -- see edge_answers.h.
 */
#include "wire/edge_answers.h"

#include "wire/bytes.h"

#define LATE 1u
#define SLOW 2u

void muster_edge_answer_write(const muster_edge_answer *answer, void *bytes)
{
    uint8_t *at = bytes;
    uint32_t flags = (answer->late ? LATE : 0) | (answer->slow ? SLOW : 0);
    muster_bytes_put(at, answer->step, 8);
    muster_bytes_put(at + 8, answer->worker, 4);
    muster_bytes_put(at + 12, answer->compute_us, 4);
    muster_bytes_put(at + 16, answer->arrive_us, 4);
    muster_bytes_put(at + 20, flags, 4);
}

muster_edge_answer muster_edge_answer_read(const void *bytes)
{
    const uint8_t *at = bytes;
    uint64_t flags = muster_bytes_get(at + 20, 4);
    return (muster_edge_answer){
        .step = muster_bytes_get(at, 8),
        .worker = (uint32_t)muster_bytes_get(at + 8, 4),
        .compute_us = (uint32_t)muster_bytes_get(at + 12, 4),
        .arrive_us = (uint32_t)muster_bytes_get(at + 16, 4),
        .late = (flags & LATE) != 0,
        .slow = (flags & SLOW) != 0,
    };
}
