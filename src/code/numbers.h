/*
 * code/numbers.h -- the numbers of a code, for callers inside the library.
 *
 *   Ownership    Lent until muster_code_free().
 */
#ifndef MUSTER_CODE_NUMBERS_H
#define MUSTER_CODE_NUMBERS_H

#include "muster/code.h"

const muster_code_info *muster_code_numbers(const muster_code *code);

#endif // MUSTER_CODE_NUMBERS_H
