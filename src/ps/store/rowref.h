/*
 * ps/store/rowref.h -- a row by name: table and key in one 64-bit number.
 *
 *     bit   0       UNLATCHED: an open row is used without its latch (bias.h)
 *     bits  1..32   key
 *     bits 33..63   table
 *
 * References compare in the order of table, then key. This is the order in
 * which one worker may open several rows (muster/ps.h).
 */
#ifndef MUSTER_PS_STORE_ROWREF_H
#define MUSTER_PS_STORE_ROWREF_H

#include <stdint.h>

typedef uint64_t muster_rowref;

#define MUSTER_ROWREF_NONE       UINT64_MAX // names no row
#define MUSTER_ROWREF_UNLATCHED  1ull
#define MUSTER_ROWREF_TABLE_MASK (UINT64_MAX << 33)

static inline muster_rowref muster_rowref_make(uint32_t table, uint32_t key)
{
    return (uint64_t)table << 33 | (uint64_t)key << 1;
}

static inline uint32_t muster_rowref_table(muster_rowref ref)
{
    return (uint32_t)(ref >> 33);
}

static inline uint32_t muster_rowref_key(muster_rowref ref)
{
    return (uint32_t)(ref >> 1);
}

#endif // MUSTER_PS_STORE_ROWREF_H
