/*
 * mf_tour.c -- a share of the cells by columns.
 *
 * All parts tour the columns in one direction and begin a block apart. A part
 * enters a piece of the columns when the part ahead has left it. Without that,
 * threads that catch up with each other would send the cache lines of a hot
 * column to and fro for each of its cells, and nodes would take columns from
 * each other that are not done: a node that lags would have to fetch them back,
 * and lag more.
 *
 * Nodes localize columns some time before they need them, but none of a piece
 * that the part ahead is in. How far it is they read from its row in the table
 * of progress, which stays at its node, without waiting for the answer until
 * they have nothing else to do. Then they wait for it however long it takes:
 * the answer comes, or the node is removed from the mesh.
 *
 * A part that does not move for muster_mf.wait_ns, and for four times as long
 * as the longest piece of the own part has taken, is no longer waited for in
 * this epoch, nor one whose node was removed; then a column may be missing when
 * it is needed, which only costs time. Where parts are not worked on together,
 * as after a loss, nobody waits: the part ahead may be one that the same thread
 * does afterwards.
 */
#define _GNU_SOURCE
#include <sched.h>

#include "base/assert.h"
#include "task/mf.h"
#include "task/mf_tour.h"

#define HOLD_CELLS 64u // a column is let go after so many cells
#define RUNS_AHEAD 2u  // columns that are fetched from memory before
// Columns are localized at most so many cells before, and at most three
// eighths of what a part does in one block of columns.
#define LOOK_MAX 262144u
#define LOCALIZE_MAX \
    2048u // at once: threads of two nodes wake up for each call
// Columns of at most so many cells are made sure of together before they are
// used.
#define SURE_CELLS 8192u
#define SURE_MAX   64u
#define COUNT_EACH 4096u
// A part ahead may take so many times as long for a piece as this one does.
#define PATIENCE_PIECES 4

/* What is known of the part ahead. */
typedef struct ahead {
    uint32_t part;
    bool here;       // at this node
    bool given_up;   // it is not waited for
    uint32_t key;    // elsewhere: its row in the table of progress,
    float values[2]; // what was read of it: epoch + 1 and pieces,
    uint64_t handle; // and the call that reads it again
    uint32_t done;   // pieces that it has left behind
} ahead;

typedef struct tour {
    muster_mf_pass *pass;
    const muster_task_share *share;
    ahead ahead;
    const muster_mf_run *first; // of the part
    uint64_t runs;
    uint64_t start;
    uint32_t pieces;
    uint32_t first_piece;
    uint64_t counted;   // cells that are not counted yet
    uint64_t look;      // cells
    uint64_t seen;      // cells worked on
    uint64_t free;      // runs that the part ahead has left
    uint64_t localized; // runs localized, and their cells
    uint64_t localized_cells;
    uint64_t sure;      // runs that were here when last looked at
    int64_t longest_ns; // of the pieces worked on
} tour;

static const muster_mf_run *run_at(const tour *t, uint64_t index)
{
    uint64_t at = t->start + index;
    return t->first + (at < t->runs ? at : at - t->runs);
}

/* Runs of the tour before piece `number` of it. */
static uint64_t runs_before(const tour *t, uint64_t number)
{
    const muster_mf *m = t->pass->m;
    if (number >= t->pieces) {
        return t->runs;
    }
    uint64_t piece = t->first_piece + number;
    bool round = piece >= t->pieces; // the tour went on from the first column
    uint32_t col = m->cuts[round ? piece - t->pieces : piece];
    uint64_t run = muster_mf_run_at(m, t->share->part, col);
    return run + (round ? t->runs : 0) - t->start;
}

/* ---- the part ahead ------------------------------------------------------ */

static uint32_t threads_of(const tour *t)
{
    uint32_t threads = t->pass->m->parts / muster_ps_nodes(t->pass->worker);
    MUSTER_ASSERT(threads > 0);
    return threads;
}

/* Parts have a row each whose home is their node: worker i of node n has row
 * i * nodes + n. */
static uint32_t progress_key(const tour *t, uint32_t part)
{
    uint32_t threads = threads_of(t);
    return part % threads * muster_ps_nodes(t->pass->worker) + part / threads;
}

static bool has_table(const tour *t)
{
    return t->pass->many && t->pass->m->progress_table > 0;
}

/* Say that `done` pieces are behind. */
static muster_status tell_progress(const tour *t, uint32_t done)
{
    const muster_mf *m = t->pass->m;
    uint32_t part = t->share->part;
    uint64_t epoch = t->share->epoch + 1ull;
    atomic_store(&m->progress[part].done, epoch << 32 | done);
    if (!has_table(t)) {
        return MUSTER_OK;
    }
    uint32_t key = progress_key(t, part);
    float values[MUSTER_MF_PROGRESS_FLOATS] = {(float)epoch, (float)done};
    return muster_ps_set(t->pass->worker, m->progress_table, &key, 1, values);
}

/* The part ahead has left `done` pieces of this epoch's tour; in another epoch
 * it has not begun. */
static void note_progress(tour *t, uint64_t epoch, uint32_t done)
{
    if (epoch == t->share->epoch + 1ull && done > t->ahead.done) {
        t->ahead.done = done;
    }
}

static void read_here(tour *t)
{
    uint64_t done = atomic_load(&t->pass->m->progress[t->ahead.part].done);
    note_progress(t, done >> 32, (uint32_t)done);
}

/* End the call that reads it, if there is one. */
static muster_status end_reading(tour *t)
{
    uint64_t handle = t->ahead.handle;
    t->ahead.handle = MUSTER_PS_DONE;
    return muster_ps_wait(t->pass->worker, handle);
}

/* Take over what was read, if it has come or with `waits`, and read it again.
 * Nodes that cannot be asked are no longer waited for. */
static void read_there(tour *t, bool waits)
{
    ahead *a = &t->ahead;
    bool come = false;
    muster_status status = muster_ps_test(t->pass->worker, a->handle, &come);
    if (status == MUSTER_OK && !come && !waits) {
        return;
    }
    if (status == MUSTER_OK) {
        status = end_reading(t);
    }
    if (status == MUSTER_OK) {
        note_progress(t, (uint64_t)a->values[0], (uint32_t)a->values[1]);
        status =
            muster_ps_pull_start(t->pass->worker, t->pass->m->progress_table,
                                 &a->key, 1, a->values, &a->handle);
    }
    a->given_up |= status != MUSTER_OK;
}

/* How far is the part ahead? */
static void read_progress(tour *t, bool waits)
{
    uint32_t before = t->ahead.done;
    if (t->ahead.here) {
        read_here(t);
    } else {
        read_there(t, waits);
    }
    if (t->ahead.given_up) {
        t->free = t->runs;
    } else if (t->ahead.done > before || t->free == 0) {
        t->free = runs_before(t, (uint64_t)MUSTER_MF_CUTS + t->ahead.done);
    }
}

static bool is_free(const tour *t, uint32_t number)
{
    return t->ahead.given_up || number < MUSTER_MF_CUTS + t->ahead.done;
}

/* How long a part that does not move is waited for. */
static int64_t patience_ns(const tour *t)
{
    int64_t pieces_ns = PATIENCE_PIECES * t->longest_ns;
    int64_t least_ns = t->pass->m->wait_ns;
    return pieces_ns > least_ns ? pieces_ns : least_ns;
}

/* Wait until the part ahead has left the piece of this number of the tour. */
static void await_turn(tour *t, uint32_t number)
{
    const muster_mf *m = t->pass->m;
    uint32_t before = t->ahead.done;
    int64_t since = m->now_ns();
    while (!is_free(t, number) && !muster_task_stopped(t->share)) {
        read_progress(t, true);
        if (t->ahead.here) {
            (void)sched_yield();
        }
        int64_t now = m->now_ns();
        since = t->ahead.done != before ? now : since;
        before = t->ahead.done;
        t->ahead.given_up |= now - since > patience_ns(t);
    }
    t->free = t->ahead.given_up ? t->runs : t->free;
}

/* ---- columns of other nodes ---------------------------------------------- */

/* Localize the columns of the tour up to `look` cells on, when a third of that
 * is left: the fewer the calls, the less often threads of two nodes wake
 * up. */
static muster_status localize_columns(tour *t)
{
    uint32_t keys[LOCALIZE_MAX];
    muster_status status = MUSTER_OK;
    if (t->localized == t->runs || t->localized_cells > t->seen + t->look / 3) {
        return MUSTER_OK;
    }
    if (t->localized == t->free) {
        read_progress(t, false);
    }
    while (status == MUSTER_OK && t->localized < t->free &&
           t->localized_cells < t->seen + t->look) {
        uint32_t count = 0;
        while (count < LOCALIZE_MAX && t->localized < t->free &&
               t->localized_cells < t->seen + t->look) {
            const muster_mf_run *run = run_at(t, t->localized++);
            keys[count++] = run->col;
            t->localized_cells += run[1].cell - run->cell;
        }
        status = muster_ps_localize(t->pass->worker, MUSTER_MF_TABLE_COLS, keys,
                                    count);
    }
    return status == MUSTER_ERR_AGAIN ? MUSTER_OK : status;
}

/* Wait for the next columns if they are not here: all that have not come yet
 * are asked for together, which costs less than to go to each. */
static muster_status make_sure(tour *t, uint64_t next)
{
    uint32_t cols[SURE_MAX];
    uint32_t count = 0;
    uint64_t cells = 0;
    if (next < t->sure) {
        return MUSTER_OK;
    }
    // Not further than columns are localized: others may not be done.
    while (count < SURE_MAX && cells < SURE_CELLS &&
           (count == 0 || next + count < t->localized)) {
        const muster_mf_run *run = run_at(t, next + count);
        cols[count++] = run->col;
        cells += run[1].cell - run->cell;
    }
    t->sure = next + count;
    muster_status status =
        muster_ps_fetch(t->pass->worker, MUSTER_MF_TABLE_COLS, cols, count);
    return status == MUSTER_ERR_AGAIN ? MUSTER_OK : status;
}

/* ---- the tour ------------------------------------------------------------ */

/* The cells of one column, let go from time to time. */
static muster_status work_run(tour *t, const muster_mf_run *run)
{
    const muster_cell *cells = t->pass->m->train.cells;
    for (uint64_t at = run->cell; at < run[1].cell;) {
        uint64_t left = run[1].cell - at;
        size_t count = left < HOLD_CELLS ? left : HOLD_CELLS;
        muster_status status = muster_mf_work_cells(t->pass, cells + at, count);
        if (status != MUSTER_OK) {
            return status;
        }
        at += count;
    }
    t->seen += run[1].cell - run->cell;
    t->counted += run[1].cell - run->cell;
    if (t->counted >= COUNT_EACH) {
        uint64_t counted = t->counted;
        t->counted = 0;
        return muster_mf_note(t->share, counted);
    }
    return MUSTER_OK;
}

static muster_status work_piece(tour *t, uint64_t from, uint64_t end)
{
    muster_status status = MUSTER_OK;
    for (uint64_t i = from; i < end && status == MUSTER_OK; i++) {
        if (t->pass->many) {
            status = localize_columns(t);
            status = status == MUSTER_OK ? make_sure(t, i) : status;
        }
        if (i + RUNS_AHEAD < t->runs) { // another thread may have had it last
            muster_ps_prefetch(t->pass->worker, MUSTER_MF_TABLE_COLS,
                               run_at(t, i + RUNS_AHEAD)->col);
        }
        if (status == MUSTER_OK) {
            status = work_run(t, run_at(t, i));
        }
    }
    return status;
}

/* The same, and note how long it took. */
static muster_status time_piece(tour *t, uint64_t from, uint64_t end)
{
    int64_t start = t->pass->m->now_ns();
    muster_status status = work_piece(t, from, end);
    int64_t took_ns = t->pass->m->now_ns() - start;
    t->longest_ns = took_ns > t->longest_ns ? took_ns : t->longest_ns;
    return status;
}

static muster_status work_pieces(tour *t)
{
    uint64_t from = 0;
    for (uint32_t i = 0; i < t->pieces; i++) {
        uint64_t end = runs_before(t, i + 1ull);
        await_turn(t, i);
        muster_status status = time_piece(t, from, end);
        if (status == MUSTER_OK) {
            status = tell_progress(t, i + 1);
        }
        if (status != MUSTER_OK) {
            return status;
        }
        from = end;
    }
    return MUSTER_OK;
}

static void find_ahead(tour *t)
{
    const muster_mf *m = t->pass->m;
    uint32_t threads = threads_of(t);
    uint32_t part = (t->share->part + 1) % m->parts;
    // Worked on together, each part is at its own node.
    bool here = part / threads == t->share->part / threads;
    t->ahead = (ahead){.part = part,
                       .here = here,
                       .given_up = m->parts == 1 || !t->share->together ||
                                   (!here && !has_table(t)),
                       .key = progress_key(t, part),
                       .handle = MUSTER_PS_DONE};
}

static tour make_tour(muster_mf_pass *p, const muster_task_share *share)
{
    const muster_mf *m = p->m;
    const muster_mf_part *part = &m->parts_at[share->part];
    tour t = {.pass = p,
              .share = share,
              .first = m->runs + part->run,
              .runs = part[1].run - part->run,
              .pieces = MUSTER_MF_CUTS * m->parts,
              .first_piece =
                  muster_mf_first_piece(m, share->part, share->epoch),
              .look = 3 * (part[1].cell - part->cell) / (8ull * m->parts)};
    t.look = t.look < 1 ? 1 : t.look < LOOK_MAX ? t.look : LOOK_MAX;
    t.start = muster_mf_run_at(m, share->part, m->cuts[t.first_piece]);
    find_ahead(&t);
    t.free = runs_before(&t, t.ahead.given_up ? t.pieces : MUSTER_MF_CUTS);
    return t;
}

muster_status muster_mf_work_columns(muster_mf_pass *p,
                                     const muster_task_share *share)
{
    tour t = make_tour(p, share);
    p->end = p->m->train.cells + p->m->parts_at[share->part + 1].cell;
    muster_status status = tell_progress(&t, 0);
    if (status == MUSTER_OK) {
        status = work_pieces(&t);
    }
    muster_status read = end_reading(&t); // its values are in this frame
    if (status == MUSTER_OK) {
        status = muster_mf_note(share, t.counted);
    }
    return status == MUSTER_OK && read == MUSTER_ERR_PEER_LOST ? read : status;
}
