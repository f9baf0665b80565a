/*
 * kernel_sparse.c -- nearest neighbours by tiles of inner products.
 *
 * When every row is a client a tile serves twice: its rows as clients and its
 * columns as clients; a lock for each run of clients lets tiles be worked on
 * side by side. When the clients are a sample a task is a run of clients
 * against all rows. In the end the lists (a client, its items) are turned into
 * rows (an item, its clients), which is what gains read.
 */
#include <pthread.h>
#include <stdlib.h>

#include "base/clock.h"
#include "base/mem.h"
#include "partition/kernel.h"
#include "partition/nearest.h"
#include "partition/parallel.h"
#include "partition/tile.h"

#define PROBES_MAX 64u

typedef struct sparse_build {
    const muster_kernel_input *input;
    muster_nearest nearest;
    pthread_mutex_t *locks; // one for each run of clients; NULL: not needed
    uint32_t runs;          // runs of MUSTER_TILE rows
    uint32_t tasks;
} sparse_build;

static muster_tile_rows run_of(const sparse_build *build, uint32_t number)
{
    const muster_kernel_input *in = build->input;
    return muster_tile_run(in->rows, in->count, in->columns, number);
}

static float *tile_memory(void)
{
    return muster_mem_raw_aligned((size_t)MUSTER_TILE * MUSTER_TILE,
                                  sizeof(float));
}

/* A tile on or above the diagonal, for both of its sides. */
static void build_pair(sparse_build *build, uint32_t index, float *values)
{
    uint32_t i = 0;
    while (index >= build->runs - i) {
        index -= build->runs - i;
        i++;
    }
    uint32_t j = i + index;
    muster_tile_rows left = run_of(build, i);
    muster_tile_rows right = run_of(build, j);
    muster_tile_product(left, right, values, MUSTER_TILE);
    muster_nearest_tile tile = {values,     MUSTER_TILE,     i * MUSTER_TILE,
                                left.count, j * MUSTER_TILE, right.count};
    pthread_mutex_lock(&build->locks[i]);
    muster_nearest_by_rows(&build->nearest, &tile);
    pthread_mutex_unlock(&build->locks[i]);
    if (i != j) {
        pthread_mutex_lock(&build->locks[j]);
        muster_nearest_by_columns(&build->nearest, &tile);
        pthread_mutex_unlock(&build->locks[j]);
    }
}

/* A run of clients against all rows. */
static void build_run(sparse_build *build, uint32_t index, float *values)
{
    const muster_kernel_input *in = build->input;
    muster_tile_rows left =
        muster_tile_run(in->rows, in->clients, in->columns, index);
    for (uint32_t j = 0; j < build->runs; j++) {
        muster_tile_rows right = run_of(build, j);
        muster_tile_product(left, right, values, MUSTER_TILE);
        muster_nearest_tile tile = {
            values,     MUSTER_TILE,     index * MUSTER_TILE,
            left.count, j * MUSTER_TILE, right.count};
        muster_nearest_by_rows(&build->nearest, &tile);
    }
}

static muster_status build_task(void *context, uint32_t index)
{
    sparse_build *build = context;
    int64_t start = muster_clock_thread_cpu_ns();
    float *values = tile_memory();
    if (values == NULL) {
        return MUSTER_ERR_NO_MEMORY;
    }
    if (build->locks != NULL) {
        build_pair(build, index, values);
    } else {
        build_run(build, index, values);
    }
    muster_mem_free(values);
    muster_meter_cpu(build->input->meter, MUSTER_METER_KERNEL, start);
    return muster_meter_add(build->input->meter,
                            build->input->work_ns / build->tasks);
}

/* Lists of clients to rows of items, clients ascending. */
static void fill_items(const muster_nearest *nearest, muster_facility *facility)
{
    for (uint32_t u = 0; u < nearest->clients; u++) {
        const muster_nearest_entry *list = muster_nearest_list(nearest, u);
        for (uint32_t e = 0; e < nearest->counts[u]; e++) {
            uint64_t at = facility->offsets[list[e].item]++;
            facility->columns[at] = u;
            facility->values[at] = list[e].similarity;
        }
    }
    // Every offset has moved to the end of its row: move them back.
    for (uint32_t i = facility->items; i > 0; i--) {
        facility->offsets[i] = facility->offsets[i - 1];
    }
    facility->offsets[0] = 0;
}

static muster_status turn_round(muster_nearest *nearest,
                                muster_facility *facility)
{
    uint64_t entries = 0;
    for (uint32_t u = 0; u < nearest->clients; u++) {
        muster_nearest_cut(nearest, u);
        entries += nearest->counts[u];
    }
    facility->offsets = muster_mem_array((size_t)facility->items + 1,
                                         sizeof(*facility->offsets));
    facility->columns = muster_mem_array(entries, sizeof(*facility->columns));
    facility->values = muster_mem_array(entries, sizeof(*facility->values));
    if (facility->offsets == NULL || facility->columns == NULL ||
        facility->values == NULL) {
        muster_facility_fini(facility);
        return MUSTER_ERR_NO_MEMORY;
    }
    for (uint32_t u = 0; u < nearest->clients; u++) {
        const muster_nearest_entry *list = muster_nearest_list(nearest, u);
        for (uint32_t e = 0; e < nearest->counts[u]; e++) {
            facility->offsets[list[e].item + 1]++;
        }
    }
    for (uint32_t i = 0; i < facility->items; i++) {
        facility->offsets[i + 1] += facility->offsets[i];
    }
    fill_items(nearest, facility);
    return MUSTER_OK;
}

static muster_status init_locks(sparse_build *build)
{
    build->locks = muster_mem_array(build->runs, sizeof(*build->locks));
    if (build->locks == NULL) {
        return MUSTER_ERR_NO_MEMORY;
    }
    for (uint32_t i = 0; i < build->runs; i++) {
        if (pthread_mutex_init(&build->locks[i], NULL) != 0) {
            return MUSTER_ERR_NO_MEMORY; // glibc never says so
        }
    }
    return MUSTER_OK;
}

/* Items that a client keeps, at most all. */
static uint32_t list_size(const muster_kernel_input *in)
{
    uint64_t keep = (uint64_t)in->neighbours * in->count;
    keep = (keep + in->clients - 1) / in->clients;
    return keep < in->count ? (uint32_t)keep : in->count;
}

static muster_status fill_lists(sparse_build *build)
{
    const muster_kernel_input *in = build->input;
    uint64_t tasks = muster_tile_count(in->clients);
    if (in->clients == in->count) {
        tasks = (uint64_t)build->runs * (build->runs + 1) / 2;
        muster_status status = init_locks(build);
        if (status != MUSTER_OK) {
            return status;
        }
    }
    if (tasks > UINT32_MAX) {
        return MUSTER_ERR_NO_MEMORY;
    }
    build->tasks = (uint32_t)tasks;
    return muster_parallel_run(in->threads, build->tasks, build_task, build);
}

muster_status muster_kernel_sparse(const muster_kernel_input *input,
                                   muster_facility *facility_out)
{
    sparse_build build = {.input = input};
    build.runs = muster_tile_count(input->count);
    muster_status status =
        muster_nearest_init(&build.nearest, input->clients, list_size(input));
    if (status != MUSTER_OK) {
        return status;
    }
    status = fill_lists(&build);
    if (status == MUSTER_OK) {
        muster_facility facility = {.items = input->count,
                                    .clients = input->clients};
        status = turn_round(&build.nearest, &facility);
        if (status == MUSTER_OK) {
            *facility_out = facility;
        }
    }
    muster_nearest_fini(&build.nearest);
    muster_mem_free(build.locks);
    return status;
}

static bool holds(const muster_facility *f, uint32_t item, uint32_t client)
{
    uint64_t low = f->offsets[item];
    uint64_t high = f->offsets[item + 1];
    while (low < high) {
        uint64_t middle = low + (high - low) / 2;
        if (f->columns[middle] < client) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return low < f->offsets[item + 1] && f->columns[low] == client;
}

/* Row `row` of the class is probe `probe`: which of its nearest are held. */
static double share_held(const muster_nearest *nearest, uint32_t probe,
                         uint32_t row, const muster_facility *facility)
{
    const muster_nearest_entry *list = muster_nearest_list(nearest, probe);
    uint32_t held = 0;
    uint32_t others = 0;
    for (uint32_t e = 0; e < nearest->counts[probe]; e++) {
        uint32_t item = list[e].item;
        if (item == row) {
            continue;
        }
        others++;
        held += holds(facility, item, row) || holds(facility, row, item);
    }
    // k = 1: its only neighbour is the row itself, if the sample has it.
    return others > 0 ? (double)held / others : holds(facility, row, row);
}

/* The exact neighbours of some rows, spread evenly over the class. */
static void search_probes(const muster_kernel_input *in, float *probes,
                          uint32_t count, float *values,
                          muster_nearest *nearest)
{
    muster_tile_rows left = {probes, count, in->columns};
    for (uint32_t j = 0; j < muster_tile_count(in->count); j++) {
        muster_tile_rows right =
            muster_tile_run(in->rows, in->count, in->columns, j);
        muster_tile_product(left, right, values, MUSTER_TILE);
        muster_nearest_tile tile = {values, MUSTER_TILE,     0,
                                    count,  j * MUSTER_TILE, right.count};
        muster_nearest_by_rows(nearest, &tile);
    }
}

static uint32_t probe_row(const muster_kernel_input *in, uint32_t probe,
                          uint32_t count)
{
    return (uint32_t)((uint64_t)probe * in->count / count);
}

muster_status muster_kernel_recall(const muster_kernel_input *input,
                                   const muster_facility *facility,
                                   double *recall_out)
{
    uint32_t count = input->count < PROBES_MAX ? input->count : PROBES_MAX;
    size_t columns = input->columns;
    muster_nearest nearest = {0};
    float *values = tile_memory();
    float *probes = muster_mem_raw_aligned(count * columns, sizeof(float));
    muster_status status = MUSTER_ERR_NO_MEMORY;
    if (values != NULL && probes != NULL) {
        status = muster_nearest_init(&nearest, count, input->neighbours);
    }
    if (status == MUSTER_OK) {
        for (uint32_t p = 0; p < count; p++) {
            const float *row =
                input->rows + probe_row(input, p, count) * columns;
            for (size_t t = 0; t < columns; t++) {
                probes[p * columns + t] = row[t];
            }
        }
        search_probes(input, probes, count, values, &nearest);
        double sum = 0.0;
        for (uint32_t p = 0; p < count; p++) {
            muster_nearest_cut(&nearest, p);
            sum +=
                share_held(&nearest, p, probe_row(input, p, count), facility);
        }
        *recall_out = sum / count;
    }
    muster_nearest_fini(&nearest);
    muster_mem_free(values);
    muster_mem_free(probes);
    return status;
}
