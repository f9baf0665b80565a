/*
 * mf_sort.c -- see mf_sort.h.
 *
 * One pass a digit of nine bits, the lowest digit of the last field first.
 * Digits that are the same in all cells, as the upper ones of small numbers
 * are, take no pass.
 */
#include "task/mf_sort.h"

#include <stdbool.h>
#include <string.h>

enum { DIGIT_BITS = 9, DIGITS = 1 << DIGIT_BITS, FIELD_BITS = 32 };

typedef enum field { VALUE, COLUMN, ROW, MINOR, PART } field;

/* Bits that are in the order of the floats. */
static inline uint32_t value_bits(float value)
{
    uint32_t bits;
    memcpy(&bits, &value, sizeof(bits));
    return bits >> 31 != 0 ? ~bits : bits | 1u << 31;
}

static inline uint32_t number_of(const muster_mf_placed *at, field by)
{
    switch (by) {
    case VALUE:
        return value_bits(at->cell.value);
    case COLUMN:
        return at->cell.col;
    case ROW:
        return at->cell.row;
    case MINOR:
        return at->minor;
    case PART:
        break;
    }
    return at->part;
}

static inline uint32_t digit_of(const muster_mf_placed *at, field by,
                                uint32_t shift)
{
    return number_of(at, by) >> shift & (DIGITS - 1);
}

/* Where each digit begins; false: all have the same one. */
static bool find_starts(const muster_mf_placed *from, uint64_t count, field by,
                        uint32_t shift, uint64_t *starts_out)
{
    memset(starts_out, 0, DIGITS * sizeof(*starts_out));
    for (uint64_t i = 0; i < count; i++) {
        starts_out[digit_of(&from[i], by, shift)]++;
    }
    if (starts_out[digit_of(from, by, shift)] == count) {
        return false;
    }
    uint64_t before = 0;
    for (uint32_t digit = 0; digit < DIGITS; digit++) {
        uint64_t here = starts_out[digit];
        starts_out[digit] = before;
        before += here;
    }
    return true;
}

/* Sort from one array into the other; false: it was not needed. */
static bool pass(const muster_mf_placed *from, muster_mf_placed *to,
                 uint64_t count, field by, uint32_t shift)
{
    uint64_t starts[DIGITS];
    if (!find_starts(from, count, by, shift, starts)) {
        return false;
    }
    for (uint64_t i = 0; i < count; i++) {
        to[starts[digit_of(&from[i], by, shift)]++] = from[i];
    }
    return true;
}

static void sort_from(field lowest, muster_mf_placed *all,
                      muster_mf_placed *spare, uint64_t count)
{
    muster_mf_placed *from = all;
    muster_mf_placed *to = spare;
    for (field by = lowest; count > 0 && by <= PART; by++) {
        for (uint32_t shift = 0; shift < FIELD_BITS; shift += DIGIT_BITS) {
            if (pass(from, to, count, by, shift)) {
                muster_mf_placed *sorted = to;
                to = from;
                from = sorted;
            }
        }
    }
    if (from != all) {
        memcpy(all, spare, count * sizeof(*all));
    }
}

void muster_mf_sort(muster_mf_placed *all, muster_mf_placed *spare,
                    uint64_t count)
{
    sort_from(VALUE, all, spare, count);
}

void muster_mf_sort_stable(muster_mf_placed *all, muster_mf_placed *spare,
                           uint64_t count)
{
    sort_from(MINOR, all, spare, count);
}
