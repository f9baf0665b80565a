/*
 * kernel_dense.c -- all pairs of a class, a tile at a time.
 *
 * A task is a tile on or above the diagonal. It writes its own place and the
 * mirrored one, which no other task touches.
 */
#include <stdlib.h>

#include "base/clock.h"
#include "base/mem.h"
#include "partition/kernel.h"
#include "partition/parallel.h"
#include "partition/tile.h"

typedef struct dense_build {
    const muster_kernel_input *input;
    float *matrix;
    size_t stride;
    uint32_t tiles; // along a side
} dense_build;

/* max(0, cosine). */
static void clamp_tile(float *tile, size_t stride, uint32_t high, uint32_t wide)
{
    for (uint32_t a = 0; a < high; a++) {
        float *row = tile + a * stride;
        for (uint32_t b = 0; b < wide; b++) {
            row[b] = row[b] > 0.0f ? row[b] : 0.0f;
        }
    }
}

/* Sixteen columns at a time, so that each written line is filled at once. */
static void mirror_tile(const float *from, float *to, size_t stride,
                        uint32_t high, uint32_t wide)
{
    for (uint32_t begin = 0; begin < high; begin += 16) {
        uint32_t end = begin + 16 < high ? begin + 16 : high;
        for (uint32_t b = 0; b < wide; b++) {
            for (uint32_t a = begin; a < end; a++) {
                to[b * stride + a] = from[a * stride + b];
            }
        }
    }
}

/* A tile on the diagonal: BLAS may round s(i, u) and s(u, i) differently. */
static void mirror_inside(float *tile, size_t stride, uint32_t count)
{
    for (uint32_t a = 1; a < count; a++) {
        for (uint32_t b = 0; b < a; b++) {
            tile[a * stride + b] = tile[b * stride + a];
        }
    }
}

/* Task `index` counts the tiles above the diagonal row by row. */
static muster_status build_tile(void *context, uint32_t index)
{
    dense_build *build = context;
    const muster_kernel_input *in = build->input;
    int64_t start = muster_clock_thread_cpu_ns();
    uint32_t i = 0;
    while (index >= build->tiles - i) {
        index -= build->tiles - i;
        i++;
    }
    uint32_t j = i + index;
    muster_tile_rows left =
        muster_tile_run(in->rows, in->count, in->columns, i);
    muster_tile_rows right =
        muster_tile_run(in->rows, in->count, in->columns, j);
    size_t stride = build->stride;
    float *tile = build->matrix + (i * stride + j) * MUSTER_TILE;
    muster_tile_product(left, right, tile, stride);
    clamp_tile(tile, stride, left.count, right.count);
    if (i == j) {
        mirror_inside(tile, stride, left.count);
    } else {
        mirror_tile(tile, build->matrix + (j * stride + i) * MUSTER_TILE,
                    stride, left.count, right.count);
    }
    muster_meter_cpu(in->meter, MUSTER_METER_KERNEL, start);
    uint64_t tasks = (uint64_t)build->tiles * (build->tiles + 1) / 2;
    return muster_meter_add(in->meter, in->work_ns / (double)tasks);
}

/* Rows begin at a cache line, and not all at the same place of a page. */
static size_t row_stride(uint32_t count)
{
    size_t stride = ((size_t)count + 15) / 16 * 16;
    return stride % 1024 == 0 ? stride + 16 : stride;
}

muster_status muster_kernel_dense(const muster_kernel_input *input,
                                  muster_facility *facility_out)
{
    dense_build build = {.input = input, .stride = row_stride(input->count)};
    build.tiles = muster_tile_count(input->count);
    uint64_t tasks = (uint64_t)build.tiles * (build.tiles + 1) / 2;
    if (tasks > UINT32_MAX) {
        return MUSTER_ERR_NO_MEMORY;
    }
    build.matrix =
        muster_mem_raw_aligned(input->count, build.stride * sizeof(float));
    if (build.matrix == NULL) {
        return MUSTER_ERR_NO_MEMORY;
    }
    muster_status status = muster_parallel_run(input->threads, (uint32_t)tasks,
                                               build_tile, &build);
    if (status != MUSTER_OK) {
        muster_mem_free(build.matrix);
        return status;
    }
    *facility_out = (muster_facility){.items = input->count,
                                      .clients = input->count,
                                      .dense = build.matrix,
                                      .stride = build.stride,
                                      .own = build.matrix};
    return MUSTER_OK;
}
