/*
 * wire/edge_answers.h -- the payload of an ANSWERS message: what the workers of
 * an edge did, for the records of the coordinator.
 *
 * Lines of 24 bytes, little-endian: step (8), worker (4), compute_us (4),
 * arrive_us (4), flags (4): bit 0 late, bit 1 slow.
 */
#ifndef MUSTER_WIRE_EDGE_ANSWERS_H
#define MUSTER_WIRE_EDGE_ANSWERS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define MUSTER_EDGE_ANSWER_BYTES 24u

typedef struct muster_edge_answer {
    uint64_t step;
    uint32_t worker;     // counted across edges
    uint32_t compute_us; // as the worker measured it
    uint32_t arrive_us;  // since the edge began the step
    bool late;           // after the edge had decoded the step
    bool slow;           // the edge takes the worker for a slow one
} muster_edge_answer;

/* Into MUSTER_EDGE_ANSWER_BYTES bytes. */
void muster_edge_answer_write(const muster_edge_answer *answer, void *bytes);
/* Every line of that size is one; unknown flags are passed over. */
muster_edge_answer muster_edge_answer_read(const void *bytes);

#endif // MUSTER_WIRE_EDGE_ANSWERS_H
