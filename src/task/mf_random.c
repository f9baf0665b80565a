/*
 * mf_random.c -- a share of the cells in a random order.
 *
 * The cells of a part lie in a random order already, but for cells of one
 * column within a block, which lie together (mf_order.c): a hot column is
 * opened once a block, and not for each of its cells. An epoch visits the
 * blocks in an order of its own, and each of them from a cell of its own on,
 * round to the cell before that. Cells are not moved for it: they are read
 * where they lie, and the rows and columns that they name are fetched from
 * memory before they are used. With several nodes the columns are asked for far
 * ahead, as replicas: every part uses all of them. The rows are the part's own.
 */
#include "task/mf_random.h"
#include "base/perm.h"
#include "base/rng.h"
#include "task/ahead.h"
#include "task/mf.h"

#define BLOCK      MUSTER_MF_BLOCK
#define AHEAD      12u // cells whose row and column are fetched before
#define LOOK_MIN   4096u
#define LOOK_MAX   65536u
#define COUNT_EACH 4u // blocks

typedef struct walk {
    muster_mf_pass *p;
    muster_mf_visits visits;
    muster_ahead ahead;
    uint64_t asked; // blocks
} walk;

muster_mf_visits muster_mf_visits_make(const muster_mf *m, uint32_t part,
                                       uint32_t epoch)
{
    uint64_t start = m->parts_at[part].cell;
    uint64_t count = m->parts_at[part + 1].cell - start;
    muster_mf_visits v = {.cells = m->train.cells + start,
                          .count = count,
                          .blocks = (count + BLOCK - 1) / BLOCK,
                          .seed = m->seed,
                          .epoch = epoch};
    if (v.blocks > 0) {
        v.order = muster_perm_make(m->seed, epoch, v.blocks);
    }
    return v;
}

muster_mf_block muster_mf_visits_at(const muster_mf_visits *v, uint64_t number)
{
    if (number >= v->blocks) {
        return (muster_mf_block){v->cells, v->cells, v->cells};
    }
    uint64_t at = muster_perm_at(&v->order, number) * BLOCK;
    uint64_t size = v->count - at < BLOCK ? v->count - at : BLOCK;
    uint64_t draw = muster_rng_at(v->seed, v->epoch, at);
    const muster_cell *from = v->cells + at;
    return (muster_mf_block){from, from + draw % size, from + size};
}

/* Ask for the columns of the blocks up to the look. */
static muster_status ask(walk *w, uint64_t number)
{
    uint32_t cols[BLOCK];
    muster_status status = MUSTER_OK;
    while (status == MUSTER_OK && w->asked < w->visits.blocks &&
           (w->asked - number) * BLOCK < w->ahead.look) {
        muster_mf_block block = muster_mf_visits_at(&w->visits, w->asked++);
        uint32_t count = 0;
        for (const muster_cell *at = block.from; at < block.end; at++) {
            if (at == block.from || at->col != at[-1].col) {
                cols[count++] = at->col;
            }
        }
        status =
            muster_ahead_ask(w->p->worker, MUSTER_MF_TABLE_COLS, cols, count);
        (void)muster_ahead_look(&w->ahead, BLOCK);
    }
    return status;
}

static void fetch_cells(const muster_mf_block *block)
{
    for (const char *at = (const char *)block->from;
         at < (const char *)block->end; at += 64) {
        __builtin_prefetch(at);
    }
}

/* The rows and columns that the first cells of a stretch name. */
static void fetch_first(const walk *w, const muster_cell *from,
                        const muster_cell *end)
{
    const muster_cell *last = end - from > AHEAD ? from + AHEAD : end;
    for (const muster_cell *cell = from; cell < last; cell++) {
        muster_ps_prefetch(w->p->worker, MUSTER_MF_TABLE_ROWS, cell->row);
        muster_ps_prefetch(w->p->worker, MUSTER_MF_TABLE_COLS, cell->col);
    }
}

static muster_status work_stretch(walk *w, const muster_cell *from,
                                  const muster_cell *end)
{
    w->p->end = end;
    return muster_mf_work_cells(w->p, from, (size_t)(end - from));
}

/* Work on a block, given the next one. */
static muster_status work_block(walk *w, const muster_mf_block *block,
                                const muster_mf_block *next)
{
    fetch_first(w, block->from, block->middle);
    muster_status status = work_stretch(w, block->middle, block->end);
    fetch_first(w, next->middle, next->end);
    return status == MUSTER_OK ? work_stretch(w, block->from, block->middle)
                               : status;
}

static muster_status walk_all(walk *w, const muster_task_share *share)
{
    muster_mf_block block = muster_mf_visits_at(&w->visits, 0);
    muster_mf_block next = muster_mf_visits_at(&w->visits, 1);
    uint64_t counted = 0;
    for (uint64_t i = 0; i < w->visits.blocks; i++) {
        muster_mf_block later = muster_mf_visits_at(&w->visits, i + 2);
        fetch_cells(&later);
        muster_status status = w->p->many ? ask(w, i) : MUSTER_OK;
        if (status == MUSTER_OK) {
            status = work_block(w, &block, &next);
        }
        if (status != MUSTER_OK) {
            return status;
        }
        counted += (uint64_t)(block.end - block.from);
        block = next;
        next = later;
        if (i % COUNT_EACH == COUNT_EACH - 1 || i + 1 == w->visits.blocks) {
            status = muster_mf_note(share, counted);
            counted = 0;
            if (status != MUSTER_OK) {
                return status;
            }
        }
    }
    return MUSTER_OK;
}

muster_status muster_mf_work_random(muster_mf_pass *p,
                                    const muster_task_share *share)
{
    walk w = {.p = p,
              .visits = muster_mf_visits_make(p->m, share->part, share->epoch),
              .ahead = muster_ahead_make(p->worker, LOOK_MIN, LOOK_MAX)};
    return walk_all(&w, share);
}
