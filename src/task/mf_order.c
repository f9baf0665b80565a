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

static int compare_rows(const void *a, const void *b)
{
    const muster_cell *x = a;
    const muster_cell *y = b;
    if (x->row != y->row) {
        return x->row < y->row ? -1 : 1;
    }
    return (x->col > y->col) - (x->col < y->col);
}

/* Sort numbers, one byte at a time; `spare` is as long as they are. */
static void sort_numbers(uint32_t *numbers, uint32_t *spare, uint64_t count)
{
    uint32_t *from = numbers;
    uint32_t *to = spare;
    for (uint32_t shift = 0; shift < 32; shift += 8) {
        uint64_t starts[257] = {0};
        for (uint64_t i = 0; i < count; i++) {
            starts[(from[i] >> shift & 255) + 1]++;
        }
        for (uint32_t byte = 0; byte < 256; byte++) {
            starts[byte + 1] += starts[byte];
        }
        for (uint64_t i = 0; i < count; i++) {
            to[starts[from[i] >> shift & 255]++] = from[i];
        }
        uint32_t *read = from;
        from = to;
        to = read;
    }
}

/* The first row (or column) of `part`, so that parts follow each other and have
 * about as many cells each: the first one that has at least the cells of the
 * parts before it behind it. `sorted` are those of all cells, in order. */
static uint32_t first_of(const muster_mf *m, const uint32_t *sorted,
                         uint32_t end, uint32_t part)
{
    uint64_t before = (part * m->train.count + m->parts - 1) / m->parts;
    if (part == m->parts) {
        return end;
    }
    return before == 0 ? 0 : sorted[before - 1] + 1;
}

/* The last part that begins at `row` or below it: those before are empty. */
static uint32_t part_of(const muster_mf *m, uint32_t row)
{
    uint32_t low = 0;
    uint32_t high = m->parts - 1;
    while (low < high) {
        uint32_t middle = low + (high - low + 1) / 2;
        if (m->parts_at[middle].row <= row) {
            low = middle;
        } else {
            high = middle - 1;
        }
    }
    return low;
}

/* Where the parts of the rows and the blocks of the columns begin. */
static void divide(muster_mf *m, uint32_t *numbers, uint32_t *spare)
{
    uint64_t count = m->train.count;
    for (uint64_t i = 0; i < count; i++) {
        numbers[i] = m->train.cells[i].row;
    }
    sort_numbers(numbers, spare, count);
    for (uint32_t part = 0; part <= m->parts; part++) {
        m->parts_at[part].row = first_of(m, numbers, m->train.rows, part);
    }
    for (uint64_t i = 0; i < count; i++) {
        numbers[i] = m->train.cells[i].col;
    }
    sort_numbers(numbers, spare, count);
    for (uint32_t part = 0; part <= m->parts; part++) {
        m->parts_at[part].block = first_of(m, numbers, m->train.cols, part);
    }
}

/* Sort the cells by part, column and row. */
static void place(muster_mf *m, placed *all)
{
    for (uint64_t i = 0; i < m->train.count; i++) {
        muster_cell cell = m->train.cells[i];
        uint64_t part = part_of(m, cell.row);
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
    // By cells: the file's head may promise any number of rows and columns.
    uint32_t *numbers = muster_mem_array(m->train.count, sizeof(*numbers));
    uint32_t *spare = muster_mem_array(m->train.count, sizeof(*spare));
    placed *all = muster_mem_array(m->train.count, sizeof(*all));
    m->parts_at = muster_mem_array((size_t)m->parts + 1, sizeof(*m->parts_at));
    m->settled = muster_mem_array(m->parts, sizeof(*m->settled));
    bool built = numbers != NULL && spare != NULL && all != NULL &&
                 m->parts_at != NULL && m->settled != NULL;
    if (built) {
        divide(m, numbers, spare);
        place(m, all);
    }
    muster_mem_free(numbers);
    muster_mem_free(spare);
    muster_mem_free(all);
    if (m->test.count > 0) {
        qsort(m->test.cells, m->test.count, sizeof(muster_cell), compare_rows);
    }
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
