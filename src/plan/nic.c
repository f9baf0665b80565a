/*
 * nic.c -- see nic.h.
 *
 * `served` is how much of a message's own time every message that is passing
 * has had: it grows by 1 / (number of them) a second. A message that came at
 * `served` has passed at `served + alone_s`.
 */
#include "plan/nic.h"

#include <math.h>
#include <string.h>

#include "base/mem.h"

#define DIGIT_BITS 8u
#define DIGITS     (1u << DIGIT_BITS)
#define SMALL      48u // fewer are sorted by insertion

bool muster_nic_init(muster_nic *nic, uint32_t room)
{
    nic->room = room;
    nic->entries = muster_mem_array(room, sizeof(*nic->entries));
    nic->other = muster_mem_array(room, sizeof(*nic->other));
    nic->ends = muster_mem_array(room, sizeof(*nic->ends));
    return nic->entries != NULL && nic->other != NULL && nic->ends != NULL;
}

void muster_nic_fini(muster_nic *nic)
{
    muster_mem_free(nic->entries);
    muster_mem_free(nic->other);
    muster_mem_free(nic->ends);
    *nic = (muster_nic){0};
}

/* Times are not negative, so their bits have their order. */
static uint32_t bits_of(const muster_nic_entry *entry)
{
    uint32_t bits;
    memcpy(&bits, &entry->time, sizeof(bits));
    return bits;
}

static void insertion_sort(muster_nic_entry *entries, uint32_t count)
{
    for (uint32_t i = 1; i < count; i++) {
        muster_nic_entry entry = entries[i];
        uint32_t at = i;
        for (; at > 0 && entries[at - 1].time > entry.time; at--) {
            entries[at] = entries[at - 1];
        }
        entries[at] = entry;
    }
}

/* One digit of a radix sort, the lowest first. */
static void sort_digit(const muster_nic_entry *from, muster_nic_entry *to,
                       uint32_t count, uint32_t shift)
{
    uint32_t begins[DIGITS] = {0};
    for (uint32_t i = 0; i < count; i++) {
        begins[bits_of(&from[i]) >> shift & (DIGITS - 1)]++;
    }
    for (uint32_t digit = 0, before = 0; digit < DIGITS; digit++) {
        uint32_t own = begins[digit];
        begins[digit] = before;
        before += own;
    }
    for (uint32_t i = 0; i < count; i++) {
        to[begins[bits_of(&from[i]) >> shift & (DIGITS - 1)]++] = from[i];
    }
}

static void sort_entries(muster_nic *nic, uint32_t count)
{
    if (count <= SMALL) {
        insertion_sort(nic->entries, count);
        return;
    }
    for (uint32_t shift = 0; shift < 32; shift += 2 * DIGIT_BITS) {
        sort_digit(nic->entries, nic->other, count, shift);
        sort_digit(nic->other, nic->entries, count, shift + DIGIT_BITS);
    }
}

void muster_nic_pass(muster_nic *nic, float *times, uint32_t count,
                     double alone_s)
{
    muster_nic_entry *entries = nic->entries;
    for (uint32_t i = 0; i < count; i++) {
        entries[i] = (muster_nic_entry){times[i], i};
    }
    sort_entries(nic, count);
    double now = 0;
    double served = 0;
    uint32_t next = 0; // to come
    for (uint32_t first = 0; first < count;) {
        uint32_t passing = next - first;
        double end = passing > 0 ? now + (nic->ends[first] - served) * passing
                                 : (double)INFINITY;
        if (next < count && (double)entries[next].time <= end) {
            double come = (double)entries[next].time;
            served += passing > 0 ? (come - now) / passing : 0;
            now = come;
            nic->ends[next++] = served + alone_s;
        } else {
            served = nic->ends[first];
            now = end;
            times[entries[first++].index] = (float)now;
        }
    }
}
