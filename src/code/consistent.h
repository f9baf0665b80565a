/*
 * code/consistent.h -- do the messages of a step agree with each other?
 *
 * Messages are sums of the parts' gradients with coefficients that the code
 * fixes. When more came than their rank, some combinations of them must be
 * zero; what is not, beyond rounding, shows that a worker did not send what the
 * code asked for. The smallest sets of workers without whom the rest agrees are
 * looked for: if there is one such set, those workers are wrong; if several,
 * one of them is.
 *
 * The caller brings a few numbers for each message in its place: its inner
 * products with random vectors, the same for all. Equations that hold for the
 * messages hold for them, and one that fails for the messages fails for them
 * but by chance.
 *
 *   Promise      With r answers beyond the rank, any r/2 wrong ones are found
 *                where the code lets every set of that size be told from every
 *                other (frc, and codes whose columns are in general position);
 *                else they are among the suspects.
 *   Threads      Pure.
 *   Allocation   Scratch, freed before return: control path.
 */
#ifndef MUSTER_CODE_CONSISTENT_H
#define MUSTER_CODE_CONSISTENT_H

#include <stdint.h>

#include "muster/code.h"

typedef enum muster_agreement {
    MUSTER_AGREE_UNKNOWN = 0, // no other answer says anything about it
    MUSTER_AGREE_GOOD,        // it agrees with others
    MUSTER_AGREE_SUSPECT,     // it, or another suspect, is wrong
    MUSTER_AGREE_WRONG,       // it is wrong
} muster_agreement;

typedef struct muster_consistent_input {
    const muster_code *code;
    const uint32_t *responders; // workers of the code, ascending
    uint32_t count;
    uint32_t probes;      // numbers of a message block
    const double *values; // [(responder, message block)][probe]
    const double *noise;  // by responder: standard deviation of its values
} muster_consistent_input;

/* By responder, into `agreement_out`. The values are finite. Costs at most some
 * tenths of a second; sets of liars that would take longer to try are not
 * tried, and all are suspects. MUSTER_ERR_NO_MEMORY. */
MUSTER_CHECKED muster_status muster_consistent_check(
    const muster_consistent_input *input, muster_agreement *agreement_out);

#endif // MUSTER_CODE_CONSISTENT_H
