/*
 * mf_order.c -- which cells are whose, and in which order they are visited.
 */
#include "base/assert.h"
#include "base/mem.h"
#include "base/rng.h"
#include "task/mf.h"
#include "task/mf_deal.h"
#include "task/mf_random.h"
#include "task/mf_sort.h"
#include "task/mf_tour.h"

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

/* Cut the columns into pieces that follow each other and have about as many
 * cells each: piece i begins with the first column that has at least the cells
 * of i pieces behind it. `sorted` are those of all cells, in order. */
static void cut(muster_mf *m, const uint32_t *sorted)
{
    uint64_t count = m->train.count;
    uint64_t pieces = (uint64_t)MUSTER_MF_CUTS * m->parts;
    for (uint64_t i = 0; i < pieces; i++) {
        uint64_t before = (i * count + pieces - 1) / pieces;
        m->cuts[i] = before == 0 ? 0 : sorted[before - 1] + 1;
    }
    m->cuts[pieces] = m->train.cols;
}

/* Divide the rows among the parts, and the columns into pieces. */
static muster_status divide(muster_mf *m, uint32_t *numbers, uint32_t *spare)
{
    uint64_t count = m->train.count;
    for (uint64_t i = 0; i < count; i++) {
        numbers[i] = m->train.cells[i].col;
    }
    sort_numbers(numbers, spare, count);
    cut(m, numbers);
    for (uint64_t i = 0; i < count; i++) {
        numbers[i] = m->train.cells[i].row;
    }
    sort_numbers(numbers, spare, count);
    return muster_mf_deal(m, numbers);
}

typedef enum within_part { BY_ROW, BY_COLUMN, BY_CHANCE } within_part;

/* Where cell `i` of the data belongs in its part. By chance a cell that is
 * there twice has two places. */
static uint32_t minor_of(const muster_mf *m, muster_cell cell, uint64_t i,
                         within_part order)
{
    switch (order) {
    case BY_COLUMN:
        return cell.col;
    case BY_CHANCE:
        return (uint32_t)muster_rng_at(m->seed, UINT32_MAX, i);
    case BY_ROW:
        break;
    }
    return cell.row;
}

/* Cells in a random order, given by part: put those of one column in a block
 * together. */
static void join_columns(muster_mf_placed *all, muster_mf_placed *spare,
                         const uint64_t *counts, uint32_t parts)
{
    uint64_t at = 0;
    uint32_t block = 0;
    for (uint32_t part = 0; part < parts; part++) {
        for (uint64_t i = 0; i < counts[part]; i++, at++) {
            block += i % MUSTER_MF_BLOCK == 0;
            all[at].part = block; // the parts follow each other already
            all[at].minor = all[at].cell.col;
        }
    }
    muster_mf_sort_stable(all, spare, at);
}

/* Sort cells by part, in it by `order`, then by row; parts count them in
 * `counts_out`. MUSTER_ERR_NO_MEMORY. */
static muster_status place(const muster_mf *m, muster_ratings *cells,
                           within_part order, uint64_t *counts_out)
{
    muster_mf_placed *all = muster_mem_raw_aligned(cells->count, sizeof(*all));
    muster_mf_placed *spare =
        muster_mem_raw_aligned(cells->count, sizeof(*all));
    bool built = all != NULL && spare != NULL;
    for (uint64_t i = 0; built && i < cells->count; i++) {
        muster_cell cell = cells->cells[i];
        uint32_t part = muster_mf_part_of(m, cell.row);
        all[i] = (muster_mf_placed){part, minor_of(m, cell, i, order), cell};
        counts_out[part]++;
    }
    if (built) {
        muster_mf_sort(all, spare, cells->count);
        if (order == BY_CHANCE) {
            join_columns(all, spare, counts_out, m->parts);
        }
    }
    for (uint64_t i = 0; built && i < cells->count; i++) {
        cells->cells[i] = all[i].cell;
    }
    muster_mem_free(all);
    muster_mem_free(spare);
    return built ? MUSTER_OK : MUSTER_ERR_NO_MEMORY;
}

/* Sort the cells by part and column, or by part and chance; others by
 * part and row. */
static muster_status place_all(muster_mf *m)
{
    uint64_t *counts = muster_mem_array(3 * (size_t)m->parts, sizeof(*counts));
    if (counts == NULL) {
        return MUSTER_ERR_NO_MEMORY;
    }
    uint64_t *tests = counts + m->parts;
    uint64_t *valid = tests + m->parts;
    bool columns = m->options.order == MUSTER_MF_ORDER_COLUMN;
    muster_status status =
        place(m, &m->train, columns ? BY_COLUMN : BY_CHANCE, counts);
    if (status == MUSTER_OK && m->test.count > 0) {
        status = place(m, &m->test, BY_ROW, tests);
    }
    if (status == MUSTER_OK && m->valid.count > 0) {
        status = place(m, &m->valid, BY_ROW, valid);
    }
    for (uint32_t part = 0; part < m->parts; part++) {
        const muster_mf_part *at = &m->parts_at[part];
        m->parts_at[part + 1].cell = at->cell + counts[part];
        m->parts_at[part + 1].test = at->test + tests[part];
        m->parts_at[part + 1].valid = at->valid + valid[part];
    }
    muster_mem_free(counts);
    return status;
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

/* Memory for what is by part. */
static bool make_room(muster_mf *m)
{
    size_t pieces = (size_t)MUSTER_MF_CUTS * m->parts;
    m->parts_at = muster_mem_array((size_t)m->parts + 1, sizeof(*m->parts_at));
    m->settled = muster_mem_array(m->parts, sizeof(*m->settled));
    m->progress = muster_mem_lines(m->parts, sizeof(*m->progress));
    m->cuts = muster_mem_array(pieces + 1, sizeof(*m->cuts));
    return m->parts_at != NULL && m->settled != NULL && m->progress != NULL &&
           m->cuts != NULL;
}

muster_status muster_mf_arrange(muster_mf *m)
{
    MUSTER_ASSERT(m->parts > 0 && m->train.count > 0 && m->train.cols > 0);
    // By cells: the file's head may promise any number of rows and columns.
    uint32_t *numbers = muster_mem_array(m->train.count, sizeof(*numbers));
    uint32_t *spare = muster_mem_array(m->train.count, sizeof(*spare));
    muster_status status = MUSTER_ERR_NO_MEMORY;
    if (make_room(m) && numbers != NULL && spare != NULL) {
        status = divide(m, numbers, spare);
    }
    muster_mem_free(numbers);
    muster_mem_free(spare);
    if (status == MUSTER_OK) {
        status = place_all(m);
    }
    if (status == MUSTER_OK) {
        muster_mf_dealt(m);
        status = m->options.order == MUSTER_MF_ORDER_COLUMN ? find_runs(m)
                                                            : MUSTER_OK;
    }
    return status;
}

void muster_mf_arranged_free(muster_mf *m)
{
    muster_mem_free(m->parts_at);
    muster_mem_free(m->runs);
    muster_mem_free(m->progress);
    muster_mem_free(m->cuts);
    muster_mem_free(m->groups);
    muster_mem_free(m->settled);
}

uint64_t muster_mf_run_at(const muster_mf *m, uint32_t part, uint32_t col)
{
    const muster_mf_run *runs = m->runs + m->parts_at[part].run;
    uint64_t low = 0;
    uint64_t high = m->parts_at[part + 1].run - m->parts_at[part].run;
    while (low < high) {
        uint64_t middle = low + (high - low) / 2;
        if (runs[middle].col < col) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return low;
}

uint32_t muster_mf_first_piece(const muster_mf *m, uint32_t part,
                               uint32_t epoch)
{
    return MUSTER_MF_CUTS * ((part + m->parts - epoch % m->parts) % m->parts);
}
