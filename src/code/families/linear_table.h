/*
 * code/families/linear_table.h -- the generators of linear:tuned that a search
 * found.
 */
#ifndef MUSTER_CODE_FAMILIES_LINEAR_TABLE_H
#define MUSTER_CODE_FAMILIES_LINEAR_TABLE_H

#include <stdint.h>

/* Entries (n', k', then n' columns of k' numbers); a 0 ends the list. */
extern const int16_t muster_linear_table[];

#define MUSTER_LINEAR_TABLE_UNIT (1.0 / 9999.0)

#endif // MUSTER_CODE_FAMILIES_LINEAR_TABLE_H
