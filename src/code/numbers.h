/*
 * code/numbers.h -- the numbers of a code, for callers inside the library.
 *
 *   Ownership    Lent until muster_code_free().
 */
#ifndef MUSTER_CODE_NUMBERS_H
#define MUSTER_CODE_NUMBERS_H

#include "muster/code.h"

const muster_code_info *muster_code_numbers(const muster_code *code);

/* When a worker begins the stages that are not its own share. */
typedef enum muster_code_start_rule {
    MUSTER_CODE_START_AUTO = 0, // as the run finds it best
    MUSTER_CODE_START_NOW,      // when the stage before is done
    MUSTER_CODE_START_ASKED,    // when the coordinator says what is missing
} muster_code_start_rule;

muster_code_start_rule muster_code_starts(const muster_code *code);

/* By what the order of a worker's stages goes. */
typedef enum muster_code_order_rule {
    MUSTER_CODE_ORDER_FIXED = 0,
    MUSTER_CODE_ORDER_SPEEDS, // of the workers, as they were given
    MUSTER_CODE_ORDER_LEARNT, // likewise, but none were given
} muster_code_order_rule;

muster_code_order_rule muster_code_order(const muster_code *code);

#endif // MUSTER_CODE_NUMBERS_H
