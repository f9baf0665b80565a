/*
 * bias_model_test.c -- every interleaving of workers that use rows unlatched
 * and of threads that revoke the bias (bias.h, store.c, ps/node/open.c).
 *
 * The programs follow the code access by access, with the transition functions
 * of the word and the numbers of the state. Each test also leaves out a part,
 * the fence, the wait or the release of the list, and shows that threads then
 * meet at a row.
 */
#include "ps/store/bias_model_test.h"

/* ---- row bias ------------------------------------------------------------ */

enum {
    BEGIN,
    CLAIM,
    CLAIM_SWAP,
    GO_LIST,
    GO,
    LOOK,
    BACK,
    MEET,
    END,
    END_FENCE,
    ENDED,
    WAIT,
    ASK,
    SEEK, // three steps
    SHARE = SEEK + 3,
};

/* To the row as its owner: claim it, say so, look. */
static void step_own(const rules *r, world *w, uint32_t self)
{
    thread *t = &w->threads[self];
    uint32_t mine = half_of((uint64_t)(self + 1) << MUSTER_WORD_MOVES_SHIFT);
    switch (t->at) {
    case CLAIM:
        t->seen[0] = get(w, self, WORD);
        if (muster_word_moves(word_of(t->seen[0])) == 0) {
            t->at = CLAIM_SWAP;
            return;
        }
        t->at =
            muster_word_moves(word_of(t->seen[0])) == self + 1 ? GO_LIST : MEET;
        t->seen[0] = 0;
        return;
    case CLAIM_SWAP:
        if (is_ready(r, t, WORD, false)) {
            bool won = swap(w, WORD, t->seen[0], t->seen[0] | mine);
            t->at = won ? GO_LIST : CLAIM;
            t->seen[0] = 0;
        }
        return;
    case GO_LIST:
        list(r, w, self, 0, HERE);
        t->at++;
        return;
    case GO:
        add_to_state(w, self, MUSTER_BIAS_ACCESS + 1);
        t->at++;
        return;
    case LOOK:
        t->at = get(w, self, ROW_BIAS) == MUSTER_ROW_BIAS_ON ? UNLATCHED : BACK;
        return;
    default:
        add_to_state(w, self, 0 - MUSTER_BIAS_ACCESS - 1);
        t->at = MEET;
        return;
    }
}

/* Revoke the row bias, or wait for the thread that does. */
static void step_end(const rules *r, world *w, uint32_t self)
{
    thread *t = &w->threads[self];
    uint32_t row_bias = get(w, self, ROW_BIAS);
    switch (t->at) {
    case MEET:
        t->at = row_bias == MUSTER_ROW_BIAS_ON ? END : WAIT;
        return;
    case END:
        if (is_ready(r, t, ROW_BIAS, true)) {
            t->at =
                swap(w, ROW_BIAS, MUSTER_ROW_BIAS_ON, MUSTER_ROW_BIAS_REVOKING)
                    ? END_FENCE
                    : WAIT;
        }
        return;
    case END_FENCE:
        fence(r, w, self);
        t->at++;
        return;
    case ENDED:
        if (is_ready(r, t, ROW_BIAS, true)) {
            w->cells[ROW_BIAS] = MUSTER_ROW_BIAS_REVOKED;
            t->at++;
        }
        return;
    default:
        t->at = row_bias == MUSTER_ROW_BIAS_REVOKING && !r->hasty ? WAIT
                : row_bias == MUSTER_ROW_BIAS_ON                  ? END
                                                                  : LATCH;
        return;
    }
}

/* The next of the others, or UINT8_MAX. */
static uint8_t next_other(const rules *r, uint32_t self, uint32_t other)
{
    other += other == self;
    return other < r->threads ? (uint8_t)other : UINT8_MAX;
}

/* The row is latched: is anybody still there, unlatched? When nobody is, the
 * table is shared; it has this one row. */
static void step_ask(const rules *r, world *w, uint32_t self)
{
    thread *t = &w->threads[self];
    if (t->at == ASK) {
        t->other = next_other(r, self, 0);
        t->at = get(w, self, ROW_BIAS) == MUSTER_ROW_BIAS_REVOKED ? SEEK : HELD;
        t->other = t->at == SEEK ? t->other : 0;
    } else if (t->at < SHARE) {
        seek(w, self, SEEK, SEEK, SHARE);
        uint8_t next = next_other(r, self, t->other + 1u);
        if (t->at == SHARE && next != UINT8_MAX) {
            t->other = next;
            t->at = SEEK;
        }
    } else if (is_ready(r, t, ROW_BIAS, true)) {
        (void)swap(w, ROW_BIAS, MUSTER_ROW_BIAS_REVOKED, MUSTER_ROW_BIAS_NONE);
        t->other = 0;
        t->at = HELD;
    }
}

/* One of several workers, which all use the same row. */
static void step_worker(const rules *r, world *w, uint32_t self)
{
    thread *t = &w->threads[self];
    if (t->at == BEGIN) {
        uint32_t row_bias = get(w, self, ROW_BIAS);
        t->other = row_bias == MUSTER_ROW_BIAS_NONE; // then no record is read
        t->at = row_bias == MUSTER_ROW_BIAS_ON     ? CLAIM
                : row_bias == MUSTER_ROW_BIAS_NONE ? LATCH
                                                   : MEET;
    } else if (t->at <= BACK) {
        step_own(r, w, self);
    } else if (t->at <= WAIT) {
        step_end(r, w, self);
    } else if (t->at < LATCH) {
        step_ask(r, w, self);
    } else if (t->at <= LATCH_SWAP) {
        bool shared = t->other == 1;
        step_latch(r, w, self, shared ? HELD : ASK);
        t->other = t->at == HELD || t->at == ASK ? 0 : t->other;
    } else {
        step_row(r, w, self, BEGIN);
    }
}

enum { PAUSE = DONE + 1, PAUSE_FENCE, PAUSE_SEEK, GIVE_UP = PAUSE_SEEK + 3 };

/* A worker that has the row_bias pause to look at the row; where it does
 * not, it is like the others. */
static void step_gather(const rules *r, world *w, uint32_t self)
{
    thread *t = &w->threads[self];
    if (t->at < PAUSE) {
        step_worker(r, w, self);
    } else if (t->at == PAUSE) {
        if (is_ready(r, t, ROW_BIAS, true)) {
            t->at =
                swap(w, ROW_BIAS, MUSTER_ROW_BIAS_ON, MUSTER_ROW_BIAS_REVOKING)
                    ? PAUSE_FENCE
                    : BEGIN;
        }
    } else if (t->at == PAUSE_FENCE) {
        fence(r, w, self);
        t->other = next_other(r, self, 0);
        t->at++;
    } else if (t->at >= PAUSE_SEEK && t->at < GIVE_UP) {
        seek(w, self, PAUSE_SEEK, GIVE_UP, PAUSED);
        uint8_t next = next_other(r, self, t->other + 1u);
        if (t->at == PAUSED && next != UINT8_MAX) {
            t->other = next;
            t->at = PAUSE_SEEK;
        }
    } else if (t->at == PAUSED || t->at == PAUSED_STORE) {
        change_row(w, self, PAUSED);
    } else if (is_ready(r, t, ROW_BIAS, true)) {
        w->cells[ROW_BIAS] = MUSTER_ROW_BIAS_ON;
        t->other = 0;
        if (t->at == RESUME) {
            end_round(r, t, PAUSE);
        } else {
            t->at = BEGIN;
        }
    }
}

/* ---- table bias: revoked by the mesh and returned ------------------------ */

enum { ALONE, MESH }; // the threads

enum {
    OTHER_LIST, // a row of another table is open all the time
    OTHER_GO,
    ROW_LIST, // the access is listed, as that of muster_ps_begin()
    ROW_GO,
    ROW_LOOK,
    ROW_BACK,
    OTHER_LEAVE,
    PULL_GO, // the last access, with no other row open, is not listed
};

/* The only worker of a node. */
static void step_alone(const rules *r, world *w, uint32_t self)
{
    thread *t = &w->threads[self];
    if (t->at >= LATCH && t->at <= LATCH_SWAP) {
        step_latch(r, w, self, HELD);
    } else if (t->at >= HELD) {
        // Its rounds: one with the other row open, one that is not listed.
        step_row(r, w, self, OTHER_LEAVE);
    } else if (t->at == OTHER_LIST || t->at == ROW_LIST) {
        list(r, w, self, t->at == ROW_LIST,
             t->at == ROW_LIST ? HERE : ELSEWHERE);
        t->at++;
    } else if (t->at == OTHER_GO || t->at == ROW_GO || t->at == PULL_GO) {
        add_to_state(w, self, MUSTER_BIAS_ACCESS + 1);
        t->at = t->at == PULL_GO ? ROW_LOOK : (int8_t)(t->at + 1);
    } else if (t->at == ROW_LOOK) {
        t->at = get(w, self, REVOKED) == 0 ? UNLATCHED : ROW_BACK;
    } else if (t->at == ROW_BACK) {
        add_to_state(w, self, 0 - MUSTER_BIAS_ACCESS - 1);
        t->at = LATCH;
    } else {
        add_to_state(w, self, (uint64_t)-1);
        t->at = PULL_GO;
    }
}

enum { SET_BAR, BAR_FENCE, FIRST, HAS_LEFT, LEFT_SEEK, REST = LEFT_SEEK + 3 };

/* Who drives the mesh: bars, works on the row, gives the table back. */
static void step_mesh(const rules *r, world *w, uint32_t self)
{
    thread *t = &w->threads[self];
    uint32_t state = get(w, self, STATE + ALONE);
    uint32_t accesses = state >> MUSTER_BIAS_ACCESS_SHIFT;
    if (t->at >= LATCH && t->at <= LATCH_SWAP) {
        step_latch(r, w, self, HELD);
    } else if (t->at >= HELD) {
        step_row(r, w, self, REST);
        t->at = t->at == DONE ? REST : t->at;
    } else if (t->at == SET_BAR && is_ready(r, t, REVOKED, true)) {
        w->cells[REVOKED] = MUSTER_REVOKED_MESH;
        t->at++;
    } else if (t->at == BAR_FENCE) {
        fence(r, w, self);
        t->at++;
    } else if (t->at == FIRST) {
        t->other = (uint8_t)accesses;
        t->at++;
    } else if (t->at == HAS_LEFT) {
        t->at = (state & MUSTER_BIAS_UNLATCHED) == 0 ? LATCH
                : accesses == t->other && !r->hasty  ? HAS_LEFT
                                                     : LEFT_SEEK;
        t->other = t->at == HAS_LEFT ? t->other : 0;
    } else if (t->at >= LEFT_SEEK && t->at < REST) {
        // Found, it looks at the count of accesses as well, which is another.
        seek(w, self, LEFT_SEEK, LEFT_SEEK, LATCH);
    } else if (t->at == REST && is_ready(r, t, REVOKED, true)) {
        w->cells[REVOKED] = 0;
        t->at = t->round < r->rounds ? SET_BAR : DONE;
    }
}

/* ---- a list that changes ------------------------------------------------- */

/* A worker has two rows open. It closes the first row of its list, so that the
 * second row moves to the first entry. Then it opens a third row and closes the
 * second; that moves the third row. See end_among(). */
static void step_mover(const rules *r, world *w, uint32_t self)
{
    thread *t = &w->threads[self];
    uint32_t state = get(w, self, STATE + self);
    switch (t->at++ - MOVE) {
    case 0:
        list(r, w, self, 0, HERE);
        return;
    case 1:
        put(w, self, STATE + self, state - (uint32_t)MUSTER_BIAS_LATCHED,
            !r->relaxed);
        return;
    case 2:
        list(r, w, self, 1, ELSEWHERE);
        return;
    case 3:
        add_to_state(w, self, MUSTER_BIAS_ACCESS + 1);
        return;
    case 4:
        t->seen[0] = get(w, self, ROW);
        return;
    case 5:
        put(w, self, ROW, t->seen[0] + 1, false);
        t->seen[0] = 0;
        return;
    case 6:
        list(r, w, self, 0, ELSEWHERE);
        return;
    default:
        add_to_state(w, self, (uint64_t)-1);
        t->at = DONE;
        return;
    }
}

/* ---- table bias: another worker ------------------------------------------ */

enum { ALONE_BEGIN = 80, ALONE_GO, ALONE_LOOK, ALONE_BACK };
enum { ELSE_BEGIN = 84, ELSE_GO, ELSE_LOOK, ELSE_BACK };
enum { COME = 90, COME_LIMIT, COME_FENCE, COME_WAIT };

/* The only worker: it checks the limit of the keys first, then why the bias is
 * revoked; both are 0 in this model while it is the only worker. */
static void step_only(world *w, uint32_t self)
{
    thread *t = &w->threads[self];
    uint32_t permit = t->at < ELSE_BEGIN ? LIMIT : REVOKED;
    int8_t refused = t->at < ELSE_BEGIN ? ELSE_BEGIN : BEGIN;
    switch (t->at) {
    case ALONE_BEGIN:
    case ELSE_BEGIN:
        t->at = get(w, self, permit) == 0 ? (int8_t)(t->at + 1) : refused;
        return;
    case ALONE_GO:
    case ELSE_GO:
        add_to_state(w, self, MUSTER_BIAS_ACCESS + 1);
        t->at++;
        return;
    case ALONE_LOOK:
    case ELSE_LOOK:
        t->at = get(w, self, permit) == 0 ? UNLATCHED : (int8_t)(t->at + 1);
        return;
    default:
        add_to_state(w, self, 0 - MUSTER_BIAS_ACCESS - 1);
        t->at = refused;
        return;
    }
}

/* The first worker is alone until the second has revoked the bias; from then on
 * a row is biased to the worker that uses it first. */
static void step_threads(const rules *r, world *w, uint32_t self)
{
    thread *t = &w->threads[self];
    switch (t->at) {
    case COME:
        w->cells[REVOKED] = MUSTER_REVOKED_WORKERS; // it has stored nothing yet
        t->at++;
        return;
    case COME_LIMIT:
        w->cells[LIMIT] = 1;
        t->at++;
        return;
    case COME_FENCE:
        fence(r, w, self);
        t->at++;
        return;
    case COME_WAIT:
        t->at = get(w, self, STATE) & MUSTER_BIAS_UNLATCHED ? COME_WAIT : BEGIN;
        return;
    default:
        if (t->at >= ALONE_BEGIN && t->at <= ELSE_BACK) {
            step_only(w, self);
            return;
        }
        step_worker(r, w, self);
        t->at = t->at == BEGIN ? ALONE_BEGIN : t->at;
        return;
    }
}

/* ---- tests --------------------------------------------------------------- */

static rules make_rules(uint32_t threads, uint8_t rounds)
{
    return (rules){.threads = threads,
                   .rounds = rounds,
                   .at_row = is_at_row,
                   .row = ROW,
                   .changes = threads * rounds};
}

static world make_world(uint32_t row_bias)
{
    world w;
    memset(&w, 0, sizeof(w));
    w.cells[ROW_BIAS] = row_bias;
    w.cells[WORD] = half_of(muster_word_make(MUSTER_ROW_OWNED, 0, 0));
    return w;
}

static void check_right(const rules *r, const world *first)
{
    found f = explore(r, first);
    assert_true(f.states > 50 && f.finals > 0);
    assert_int_equal(f.meetings, 0);
    assert_int_equal(f.lost, 0);
    assert_int_equal(f.endless, 0);
}

/* In both orders of stores: no two threads meet; without the fence they do. */
static void check_fenced(const rules *given, const world *first)
{
    rules r = *given;
    for (int weak = 0; weak < 2; weak++) {
        r.weak = weak != 0;
        r.unfenced = false;
        check_right(&r, first);
        r.unfenced = true;
        found f = explore(&r, first);
        assert_true(f.meetings > 0);
        assert_true(f.lost > 0);
    }
}

static void workers_with_row_bias_never_meet(void **state)
{
    (void)state;
    world first = make_world(MUSTER_ROW_BIAS_ON);
    rules r = make_rules(2, 2);
    r.step[0] = r.step[1] = r.step[2] = step_worker;
    check_fenced(&r, &first);
    r = make_rules(3, 1);
    r.step[0] = r.step[1] = r.step[2] = step_worker;
    check_fenced(&r, &first);
    r.hasty = true;
    assert_true(explore(&r, &first).meetings > 0);
}

static void a_row_bias_that_pauses_continues(void **state)
{
    (void)state;
    world first = make_world(MUSTER_ROW_BIAS_ON);
    first.threads[0].at = PAUSE;
    rules r = make_rules(2, 2);
    r.step[0] = step_gather;
    r.step[1] = r.step[2] = step_worker;
    check_fenced(&r, &first);
    r = make_rules(3, 1);
    r.step[0] = step_gather;
    r.step[1] = r.step[2] = step_worker;
    check_fenced(&r, &first);
}

static void the_only_worker_and_the_mesh_never_meet(void **state)
{
    (void)state;
    world first = make_world(MUSTER_ROW_BIAS_NONE);
    rules r = make_rules(2, 2);
    r.step[ALONE] = step_alone;
    r.step[MESH] = step_mesh;
    check_fenced(&r, &first);
    r.hasty = true;
    assert_true(explore(&r, &first).meetings > 0);
}

static void the_only_worker_and_a_newcomer_never_meet(void **state)
{
    (void)state;
    world first = make_world(MUSTER_ROW_BIAS_ON);
    first.threads[0].at = ALONE_BEGIN;
    first.threads[1].at = COME;
    rules r = make_rules(2, 2);
    r.step[0] = r.step[1] = step_threads;
    check_fenced(&r, &first);
}

/* The list must be written with releases when stores may overtake each other.
 */
static void a_row_that_moves_in_the_list_is_found(void **state)
{
    (void)state;
    world first = make_world(MUSTER_ROW_BIAS_REVOKED);
    first.cells[STATE] = (uint32_t)MUSTER_BIAS_LATCHED + 1;
    first.cells[LIST + 1] = HERE;
    first.cells[WORD] =
        half_of(muster_word_latched(word_of(first.cells[WORD])));
    first.threads[0].at = MOVE;
    first.threads[1].at = ASK;
    rules r = make_rules(2, 1);
    r.step[0] = step_mover;
    r.step[1] = step_worker;
    check_right(&r, &first);
    r.weak = true;
    check_right(&r, &first);
    r.relaxed = true;
    assert_true(explore(&r, &first).meetings > 0);
    r.weak = false;
    check_right(&r, &first);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(workers_with_row_bias_never_meet),
        cmocka_unit_test(a_row_bias_that_pauses_continues),
        cmocka_unit_test(the_only_worker_and_the_mesh_never_meet),
        cmocka_unit_test(the_only_worker_and_a_newcomer_never_meet),
        cmocka_unit_test(a_row_that_moves_in_the_list_is_found),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
