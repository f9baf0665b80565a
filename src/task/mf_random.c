/*
 * mf_random.c -- a share of the cells in a random order.
 *
 * The cells of a part lie in a random order already (mf_order.c). An epoch
 * visits them block by block: the order of the blocks is the epoch's, and so is
 * the order within each, but for cells of one column, which come together: a
 * hot column is opened once a block, and not for each of its cells. Blocks are
 * neighbours in memory, and the rows and columns that they name are fetched
 * from it before they are used. With several
 * nodes the columns are asked for far ahead, as replicas: every part uses all
 * of them. The rows are the part's own.
 */
#include "base/perm.h"
#include "base/rng.h"
#include "task/ahead.h"
#include "task/mf.h"

#define BLOCK      256u // a power of two
#define AHEAD      12u  // cells whose row and column are fetched before
#define LOOK_MIN   4096u
#define LOOK_MAX   65536u
#define ASK_BLOCKS 4u  // asked for at once
#define COUNT_EACH 16u // blocks

typedef struct walk {
    muster_mf_pass *p;
    const muster_cell *cells; // of the part
    uint64_t count;
    uint64_t blocks;
    uint64_t epoch;
    muster_perm order; // of the blocks
    muster_ahead ahead;
    uint64_t asked;              // blocks
    muster_cell next[2 * BLOCK]; // of this block and the next
} walk;

static uint64_t block_at(const walk *w, uint64_t number)
{
    return muster_perm_at(&w->order, number);
}

/* The cells of a block: the last one may be shorter. */
static uint32_t block_size(const walk *w, uint64_t block)
{
    uint64_t left = w->count - block * BLOCK;
    return (uint32_t)(left < BLOCK ? left : BLOCK);
}

/* Ask for the columns of the blocks up to the look. */
static muster_status ask(walk *w, uint64_t number)
{
    uint32_t cols[ASK_BLOCKS * BLOCK];
    muster_status status = MUSTER_OK;
    while (status == MUSTER_OK && w->asked < w->blocks &&
           (w->asked - number) * BLOCK < w->ahead.look) {
        uint32_t count = 0;
        for (uint32_t i = 0; i < ASK_BLOCKS && w->asked < w->blocks; i++) {
            uint64_t block = block_at(w, w->asked++);
            uint32_t size = block_size(w, block);
            for (uint32_t k = 0; k < size; k++) {
                cols[count++] = w->cells[block * BLOCK + k].col;
            }
        }
        status =
            muster_ahead_ask(w->p->worker, MUSTER_MF_TABLE_COLS, cols, count);
        (void)muster_ahead_look(&w->ahead, count);
    }
    return status;
}

/* Cells of a block by column, in BLOCK classes. */
typedef struct classes {
    uint16_t first[BLOCK]; // of a class; BLOCK: none
    uint16_t next[BLOCK];  // of the same class
} classes;

static void classify(classes *by, const muster_cell *cells, uint32_t size)
{
    for (uint32_t i = 0; i < BLOCK; i++) {
        by->first[i] = BLOCK;
    }
    for (uint32_t i = 0; i < size; i++) {
        uint32_t class = cells[i].col % BLOCK;
        by->next[i] = by->first[class];
        by->first[class] = (uint16_t)i;
    }
}

/* Copy a block in the epoch's order and return its size. */
static uint32_t take_block(const walk *w, uint64_t number, muster_cell *to)
{
    if (number >= w->blocks) {
        return 0;
    }
    uint64_t block = block_at(w, number);
    const muster_cell *from = w->cells + block * BLOCK;
    uint32_t size = block_size(w, block);
    uint32_t flip =
        (uint32_t)muster_rng_at(w->p->m->seed, w->epoch, block) % BLOCK;
    uint32_t taken = 0;
    classes by;
    classify(&by, from, size);
    for (uint32_t i = 0; i < BLOCK; i++) {
        for (uint32_t k = by.first[i ^ flip]; k < BLOCK; k = by.next[k]) {
            to[taken++] = from[k];
        }
    }
    return size;
}

/* The cells in memory of the block after the next. */
static void fetch_cells(const walk *w, uint64_t number)
{
    if (number < w->blocks) {
        const char *from =
            (const char *)(w->cells + block_at(w, number) * BLOCK);
        for (size_t i = 0; i < BLOCK * sizeof(muster_cell); i += 64) {
            __builtin_prefetch(from + i);
        }
    }
}

static void fetch_rows(const walk *w, const muster_cell *cell)
{
    muster_ps_prefetch(w->p->worker, MUSTER_MF_TABLE_ROWS, cell->row);
    muster_ps_prefetch(w->p->worker, MUSTER_MF_TABLE_COLS, cell->col);
}

/* How many cells from cell i on have its column. */
static uint32_t run_at(const walk *w, uint32_t i, uint32_t size)
{
    uint32_t end = i + 1;
    while (end < size && w->next[end].col == w->next[i].col) {
        end++;
    }
    return end - i;
}

/* Work on the first `size` of `known` cells in w->next. */
static muster_status work_block(walk *w, uint32_t size, uint32_t known)
{
    for (uint32_t i = 0; i < size;) {
        uint32_t run = run_at(w, i, size);
        for (uint32_t k = i + AHEAD; k < i + AHEAD + run && k < known; k++) {
            fetch_rows(w, &w->next[k]);
        }
        muster_status status = muster_mf_work_column(w->p, &w->next[i], run);
        if (status != MUSTER_OK) {
            return status;
        }
        i += run;
    }
    return MUSTER_OK;
}

static muster_status walk_all(walk *w, const muster_task_share *share)
{
    uint32_t size = take_block(w, 0, w->next);
    uint64_t counted = 0;
    for (uint64_t i = 0; i < w->blocks; i++) {
        muster_status status = w->p->many ? ask(w, i) : MUSTER_OK;
        fetch_cells(w, i + 2);
        uint32_t after = take_block(w, i + 1, w->next + size);
        if (status == MUSTER_OK) {
            status = work_block(w, size, size + after);
        }
        if (status != MUSTER_OK) {
            return status;
        }
        for (uint32_t k = 0; k < after; k++) {
            w->next[k] = w->next[size + k];
        }
        counted += size;
        size = after;
        if (i % COUNT_EACH == COUNT_EACH - 1 || i + 1 == w->blocks) {
            muster_task_count(share, counted);
            counted = 0;
            if (muster_task_stopped(share)) {
                return MUSTER_ERR_CANCELLED;
            }
        }
    }
    return MUSTER_OK;
}

muster_status muster_mf_work_random(muster_mf_pass *p,
                                    const muster_task_share *share)
{
    const muster_mf *m = p->m;
    uint64_t start = m->parts_at[share->part].cell;
    uint64_t count = m->parts_at[share->part + 1].cell - start;
    walk w = {.p = p,
              .cells = m->train.cells + start,
              .count = count,
              .blocks = (count + BLOCK - 1) / BLOCK,
              .epoch = share->epoch,
              .ahead = muster_ahead_make(p->worker, LOOK_MIN, LOOK_MAX)};
    if (count == 0) {
        return MUSTER_OK;
    }
    w.order = muster_perm_make(m->seed, share->epoch, w.blocks);
    return walk_all(&w, share);
}
