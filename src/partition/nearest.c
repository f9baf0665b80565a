/*
 * nearest.c -- top-k lists with a floor.
 *
 * Most similarities are below the floor of their list. Eight are compared at
 * once, and only where one of them is not below, they are looked at singly.
 */
#include "partition/nearest.h"

#include <float.h>
#include <stdbool.h>

#include "base/mem.h"
#include "base/simd.h"

#define LANES 8u

muster_status muster_nearest_init(muster_nearest *nearest, uint32_t clients,
                                  uint32_t keep)
{
    *nearest = (muster_nearest){.clients = clients, .keep = keep};
    nearest->floors = muster_mem_array(clients, sizeof(*nearest->floors));
    nearest->counts = muster_mem_array(clients, sizeof(*nearest->counts));
    nearest->entries = muster_mem_raw_aligned(
        clients, (size_t)2 * keep * sizeof(*nearest->entries));
    if (nearest->floors == NULL || nearest->counts == NULL ||
        nearest->entries == NULL) {
        muster_nearest_fini(nearest);
        return MUSTER_ERR_NO_MEMORY;
    }
    for (uint32_t u = 0; u < clients; u++) {
        nearest->floors[u] = FLT_MIN;
    }
    return MUSTER_OK;
}

void muster_nearest_fini(muster_nearest *nearest)
{
    muster_mem_free(nearest->floors);
    muster_mem_free(nearest->counts);
    muster_mem_free(nearest->entries);
    *nearest = (muster_nearest){0};
}

static bool is_nearer(muster_nearest_entry a, muster_nearest_entry b)
{
    return a.similarity > b.similarity ||
           (a.similarity == b.similarity && a.item < b.item);
}

static void exchange(muster_nearest_entry *a, muster_nearest_entry *b)
{
    muster_nearest_entry kept = *a;
    *a = *b;
    *b = kept;
}

/* The nearest `keep` to the front (Hoare's FIND). */
static void select_nearest(muster_nearest_entry *list, uint32_t count,
                           uint32_t keep)
{
    ptrdiff_t wanted = (ptrdiff_t)keep - 1;
    ptrdiff_t left = 0;
    ptrdiff_t right = (ptrdiff_t)count - 1;
    while (left < right) {
        muster_nearest_entry pivot = list[left + (right - left) / 2];
        ptrdiff_t low = left;
        ptrdiff_t high = right;
        while (low <= high) {
            while (is_nearer(list[low], pivot)) {
                low++;
            }
            while (is_nearer(pivot, list[high])) {
                high--;
            }
            if (low <= high) {
                exchange(&list[low++], &list[high--]);
            }
        }
        left = high < wanted ? low : left;
        right = wanted < low ? high : right;
    }
}

void muster_nearest_cut(muster_nearest *nearest, uint32_t client)
{
    muster_nearest_entry *list = muster_nearest_list(nearest, client);
    if (nearest->counts[client] <= nearest->keep) {
        return;
    }
    select_nearest(list, nearest->counts[client], nearest->keep);
    nearest->counts[client] = nearest->keep;
    float floor = list[0].similarity;
    for (uint32_t i = 1; i < nearest->keep; i++) {
        floor = list[i].similarity < floor ? list[i].similarity : floor;
    }
    nearest->floors[client] = floor;
}

/* Entries equal to the floor enter: a lower item may win at the next cut. */
static void offer(muster_nearest *nearest, uint32_t client, float similarity,
                  uint32_t item)
{
    if (nearest->counts[client] == 2 * nearest->keep) {
        muster_nearest_cut(nearest, client);
    }
    if (similarity >= nearest->floors[client]) {
        muster_nearest_list(nearest, client)[nearest->counts[client]++] =
            (muster_nearest_entry){similarity, item};
    }
}

/* Whether any of eight values reaches its floor. */
static inline bool any_reaches(const float *values, const float *floors)
{
    int reached = 0;
    for (uint32_t l = 0; l < LANES; l++) {
        reached |= values[l] >= floors[l];
    }
    return reached != 0;
}

static inline bool any_reaches_one(const float *values, float floor)
{
    int reached = 0;
    for (uint32_t l = 0; l < LANES; l++) {
        reached |= values[l] >= floor;
    }
    return reached != 0;
}

/* Up to eight values of one client. */
static inline void offer_row(muster_nearest *nearest, uint32_t client,
                             const float *values, uint32_t count,
                             uint32_t first_item)
{
    if (count == LANES && !any_reaches_one(values, nearest->floors[client])) {
        return;
    }
    for (uint32_t l = 0; l < count; l++) {
        if (values[l] >= nearest->floors[client]) {
            offer(nearest, client, values[l], first_item + l);
        }
    }
}

/* Up to eight values of one item. */
static inline void offer_column(muster_nearest *nearest, uint32_t first_client,
                                const float *values, uint32_t count,
                                uint32_t item)
{
    const float *floors = nearest->floors + first_client;
    if (count == LANES && !any_reaches(values, floors)) {
        return;
    }
    for (uint32_t l = 0; l < count; l++) {
        if (values[l] >= floors[l]) {
            offer(nearest, first_client + l, values[l], item);
        }
    }
}

static inline uint32_t lanes_at(const muster_nearest_tile *tile, uint32_t b)
{
    return tile->columns - b < LANES ? tile->columns - b : LANES;
}

MUSTER_SIMD void muster_nearest_by_rows(muster_nearest *nearest,
                                        const muster_nearest_tile *tile)
{
    for (uint32_t a = 0; a < tile->rows; a++) {
        const float *row = tile->values + a * tile->stride;
        for (uint32_t b = 0; b < tile->columns; b += LANES) {
            offer_row(nearest, tile->first_row + a, row + b, lanes_at(tile, b),
                      tile->first_column + b);
        }
    }
}

MUSTER_SIMD void muster_nearest_by_columns(muster_nearest *nearest,
                                           const muster_nearest_tile *tile)
{
    for (uint32_t a = 0; a < tile->rows; a++) {
        const float *row = tile->values + a * tile->stride;
        for (uint32_t b = 0; b < tile->columns; b += LANES) {
            offer_column(nearest, tile->first_column + b, row + b,
                         lanes_at(tile, b), tile->first_row + a);
        }
    }
}
