/*
 * mf_order.c -- which cells are whose, and in which order they are visited.
 */
#include <stdlib.h>

#include "base/assert.h"
#include "base/mem.h"
#include "task/mf.h"

/* A cell with the part of its row, for sorting. */
typedef struct placed {
    uint64_t major; // part and column
    muster_cell cell;
} placed;

static int compare_placed(const void *a, const void *b)
{
    const placed *x = a;
    const placed *y = b;
    if (x->major != y->major) {
        return x->major < y->major ? -1 : 1;
    }
    return (x->cell.row > y->cell.row) - (x->cell.row < y->cell.row);
}

/* Replace the number of cells of each row (or column) by the part it falls
 * to, so that parts follow each other and have about as many cells each. */
static void divide(const muster_mf *m, uint32_t *cells_to_part, uint32_t count)
{
    uint64_t seen = 0;
    for (uint32_t i = 0; i < count; i++) {
        uint64_t part = seen * m->parts / m->train.count;
        seen += cells_to_part[i];
        cells_to_part[i] = (uint32_t)(part < m->parts ? part : m->parts - 1);
    }
}

/* The first index whose part is `part` or above. */
static uint32_t first_of(const uint32_t *parts, uint32_t count, uint32_t part)
{
    uint32_t low = 0;
    uint32_t high = count;
    while (low < high) {
        uint32_t middle = low + (high - low) / 2;
        if (parts[middle] < part) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return low;
}

/* Sort, with what part each row and each column falls to. */
static void place(muster_mf *m, const uint32_t *part_of_row,
                  const uint32_t *part_of_col, placed *all)
{
    for (uint32_t part = 0; part <= m->parts; part++) {
        m->parts_at[part].row = first_of(part_of_row, m->train.rows, part);
        m->parts_at[part].block = first_of(part_of_col, m->train.cols, part);
    }
    for (uint64_t i = 0; i < m->train.count; i++) {
        muster_cell cell = m->train.cells[i];
        uint64_t part = part_of_row[cell.row];
        all[i].major = part << 32 | cell.col;
        all[i].cell = cell;
        m->parts_at[part + 1].cell++;
    }
    for (uint32_t part = 0; part < m->parts; part++) {
        m->parts_at[part + 1].cell += m->parts_at[part].cell;
    }
    qsort(all, m->train.count, sizeof(*all), compare_placed);
    for (uint64_t i = 0; i < m->train.count; i++) {
        m->train.cells[i] = all[i].cell;
    }
}

/* Whether cell `i` is the first of its part and column. */
static bool begins_run(const muster_mf *m, uint64_t i, uint32_t part)
{
    const muster_cell *cells = m->train.cells;
    return i == m->parts_at[part].cell || cells[i].col != cells[i - 1].col;
}

static muster_status find_runs(muster_mf *m)
{
    uint64_t runs = 0;
    for (uint32_t part = 0; part < m->parts; part++) {
        m->parts_at[part].run = runs;
        for (uint64_t i = m->parts_at[part].cell;
             i < m->parts_at[part + 1].cell; i++) {
            runs += begins_run(m, i, part);
        }
    }
    m->parts_at[m->parts].run = runs;
    m->runs = muster_mem_array(runs + 1, sizeof(*m->runs));
    if (m->runs == NULL) {
        return MUSTER_ERR_NO_MEMORY;
    }
    muster_mf_run *run = m->runs;
    for (uint32_t part = 0; part < m->parts; part++) {
        for (uint64_t i = m->parts_at[part].cell;
             i < m->parts_at[part + 1].cell; i++) {
            if (begins_run(m, i, part)) {
                *run++ = (muster_mf_run){i, m->train.cells[i].col};
            }
        }
    }
    run->cell = m->train.count;
    return MUSTER_OK;
}

muster_status muster_mf_arrange(muster_mf *m)
{
    MUSTER_ASSERT(m->parts > 0 && m->train.count > 0 && m->train.cols > 0);
    uint32_t *rows = muster_mem_array(m->train.rows, sizeof(*rows));
    uint32_t *cols = muster_mem_array(m->train.cols, sizeof(*cols));
    placed *all = muster_mem_array(m->train.count, sizeof(*all));
    m->parts_at = muster_mem_array((size_t)m->parts + 1, sizeof(*m->parts_at));
    m->settled = muster_mem_array(m->parts, sizeof(*m->settled));
    bool built = rows != NULL && cols != NULL && all != NULL &&
                 m->parts_at != NULL && m->settled != NULL;
    if (built) {
        for (uint64_t i = 0; i < m->train.count; i++) {
            rows[m->train.cells[i].row]++;
            cols[m->train.cells[i].col]++;
        }
        divide(m, rows, m->train.rows);
        divide(m, cols, m->train.cols);
        place(m, rows, cols, all);
    }
    muster_mem_free(rows);
    muster_mem_free(cols);
    muster_mem_free(all);
    return built ? find_runs(m) : MUSTER_ERR_NO_MEMORY;
}

uint64_t muster_mf_start(const muster_mf *m, uint32_t part, uint32_t epoch)
{
    uint32_t block = (part + m->parts - epoch % m->parts) % m->parts;
    uint32_t column = m->parts_at[block].block;
    const muster_mf_run *runs = m->runs + m->parts_at[part].run;
    uint64_t count = m->parts_at[part + 1].run - m->parts_at[part].run;
    uint64_t low = 0;
    uint64_t high = count;
    while (low < high) {
        uint64_t middle = low + (high - low) / 2;
        if (runs[middle].col < column) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return low == count ? 0 : low;
}
