/*
 * bias_model_test.c -- every interleaving of those who use rows without latches
 * and those who take the permission away (holder.h, store.c, ps/node/open.c).
 *
 * The programs follow the code access by access, with the word's own transition
 * functions and the state's own numbers. That the fence is needed, and the wait
 * for it, and that places are released, is shown by leaving them out.
 */
#include "ps/store/bias_model_test.h"

/* ---- a divided table ----------------------------------------------------- */

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
static void step_own(const rules *r, world *w, uint32_t who)
{
    thread *t = &w->threads[who];
    uint32_t mine = half_of((uint64_t)(who + 1) << MUSTER_WORD_MOVES_SHIFT);
    switch (t->at) {
    case CLAIM:
        t->seen[0] = get(w, who, WORD);
        if (muster_word_moves(word_of(t->seen[0])) == 0) {
            t->at = CLAIM_SWAP;
            return;
        }
        t->at =
            muster_word_moves(word_of(t->seen[0])) == who + 1 ? GO_LIST : MEET;
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
        list(r, w, who, 0, HERE);
        t->at++;
        return;
    case GO:
        add_to_state(w, who, MUSTER_BIAS_ACCESS + 1);
        t->at++;
        return;
    case LOOK:
        t->at = get(w, who, DIVISION) == MUSTER_ROW_BIAS_ON ? BARE : BACK;
        return;
    default:
        add_to_state(w, who, 0 - MUSTER_BIAS_ACCESS - 1);
        t->at = MEET;
        return;
    }
}

/* End the row_bias, or wait for who does. */
static void step_end(const rules *r, world *w, uint32_t who)
{
    thread *t = &w->threads[who];
    uint32_t row_bias = get(w, who, DIVISION);
    switch (t->at) {
    case MEET:
        t->at = row_bias == MUSTER_ROW_BIAS_ON ? END : WAIT;
        return;
    case END:
        if (is_ready(r, t, DIVISION, true)) {
            t->at =
                swap(w, DIVISION, MUSTER_ROW_BIAS_ON, MUSTER_ROW_BIAS_REVOKING)
                    ? END_FENCE
                    : WAIT;
        }
        return;
    case END_FENCE:
        fence(r, w, who);
        t->at++;
        return;
    case ENDED:
        if (is_ready(r, t, DIVISION, true)) {
            w->cells[DIVISION] = MUSTER_ROW_BIAS_REVOKED;
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
static uint8_t next_other(const rules *r, uint32_t who, uint32_t other)
{
    other += other == who;
    return other < r->threads ? (uint8_t)other : UINT8_MAX;
}

/* The row is latched: is anybody still there, unlatched? When nobody is, the
 * table is shared; it has this one row. */
static void step_ask(const rules *r, world *w, uint32_t who)
{
    thread *t = &w->threads[who];
    if (t->at == ASK) {
        t->other = next_other(r, who, 0);
        t->at = get(w, who, DIVISION) == MUSTER_ROW_BIAS_REVOKED ? SEEK : HELD;
        t->other = t->at == SEEK ? t->other : 0;
    } else if (t->at < SHARE) {
        seek(w, who, SEEK, SEEK, SHARE);
        uint8_t next = next_other(r, who, t->other + 1u);
        if (t->at == SHARE && next != UINT8_MAX) {
            t->other = next;
            t->at = SEEK;
        }
    } else if (is_ready(r, t, DIVISION, true)) {
        (void)swap(w, DIVISION, MUSTER_ROW_BIAS_REVOKED, MUSTER_ROW_BIAS_NONE);
        t->other = 0;
        t->at = HELD;
    }
}

/* One of several workers, which all use the same row. */
static void step_worker(const rules *r, world *w, uint32_t who)
{
    thread *t = &w->threads[who];
    if (t->at == BEGIN) {
        uint32_t row_bias = get(w, who, DIVISION);
        t->other =
            row_bias == MUSTER_ROW_BIAS_NONE; // then nobody is asked about
        t->at = row_bias == MUSTER_ROW_BIAS_ON     ? CLAIM
                : row_bias == MUSTER_ROW_BIAS_NONE ? LATCH
                                                   : MEET;
    } else if (t->at <= BACK) {
        step_own(r, w, who);
    } else if (t->at <= WAIT) {
        step_end(r, w, who);
    } else if (t->at < LATCH) {
        step_ask(r, w, who);
    } else if (t->at <= LATCH_SWAP) {
        bool shared = t->other == 1;
        step_latch(r, w, who, shared ? HELD : ASK);
        t->other = t->at == HELD || t->at == ASK ? 0 : t->other;
    } else {
        step_row(r, w, who, BEGIN);
    }
}

enum { PAUSE = DONE + 1, PAUSE_FENCE, PAUSE_SEEK, GIVE_UP = PAUSE_SEEK + 3 };

/* A worker that has the row_bias pause to look at the row; where it does
 * not, it is like the others. */
static void step_gather(const rules *r, world *w, uint32_t who)
{
    thread *t = &w->threads[who];
    if (t->at < PAUSE) {
        step_worker(r, w, who);
    } else if (t->at == PAUSE) {
        if (is_ready(r, t, DIVISION, true)) {
            t->at =
                swap(w, DIVISION, MUSTER_ROW_BIAS_ON, MUSTER_ROW_BIAS_REVOKING)
                    ? PAUSE_FENCE
                    : BEGIN;
        }
    } else if (t->at == PAUSE_FENCE) {
        fence(r, w, who);
        t->other = next_other(r, who, 0);
        t->at++;
    } else if (t->at >= PAUSE_SEEK && t->at < GIVE_UP) {
        seek(w, who, PAUSE_SEEK, GIVE_UP, PAUSED);
        uint8_t next = next_other(r, who, t->other + 1u);
        if (t->at == PAUSED && next != UINT8_MAX) {
            t->other = next;
            t->at = PAUSE_SEEK;
        }
    } else if (t->at == PAUSED || t->at == PAUSED_STORE) {
        change_row(w, who, PAUSED);
    } else if (is_ready(r, t, DIVISION, true)) {
        w->cells[DIVISION] = MUSTER_ROW_BIAS_ON;
        t->other = 0;
        if (t->at == RESUME) {
            end_round(r, t, PAUSE);
        } else {
            t->at = BEGIN;
        }
    }
}

/* ---- a table that is barred and given back ------------------------------- */

enum { ALONE, MESH }; // the threads

enum {
    OTHER_LIST, // a row of another table is open all the time
    OTHER_GO,
    ROW_LIST, // the visit is listed, as that of begin
    ROW_GO,
    ROW_LOOK,
    ROW_BACK,
    OTHER_LEAVE,
    PULL_GO, // and the last one, with nothing else open, is not
};

/* The only worker of a node. */
static void step_alone(const rules *r, world *w, uint32_t who)
{
    thread *t = &w->threads[who];
    if (t->at >= LATCH && t->at <= LATCH_SWAP) {
        step_latch(r, w, who, HELD);
    } else if (t->at >= HELD) {
        // Its rounds: one with the other row open, one that is not listed.
        step_row(r, w, who, OTHER_LEAVE);
    } else if (t->at == OTHER_LIST || t->at == ROW_LIST) {
        list(r, w, who, t->at == ROW_LIST,
             t->at == ROW_LIST ? HERE : ELSEWHERE);
        t->at++;
    } else if (t->at == OTHER_GO || t->at == ROW_GO || t->at == PULL_GO) {
        add_to_state(w, who, MUSTER_BIAS_ACCESS + 1);
        t->at = t->at == PULL_GO ? ROW_LOOK : (int8_t)(t->at + 1);
    } else if (t->at == ROW_LOOK) {
        t->at = get(w, who, BAR) == 0 ? BARE : ROW_BACK;
    } else if (t->at == ROW_BACK) {
        add_to_state(w, who, 0 - MUSTER_BIAS_ACCESS - 1);
        t->at = LATCH;
    } else {
        add_to_state(w, who, (uint64_t)-1);
        t->at = PULL_GO;
    }
}

enum { SET_BAR, BAR_FENCE, FIRST, HAS_LEFT, LEFT_SEEK, REST = LEFT_SEEK + 3 };

/* Who drives the mesh: bars, works on the row, gives the table back. */
static void step_mesh(const rules *r, world *w, uint32_t who)
{
    thread *t = &w->threads[who];
    uint32_t state = get(w, who, STATE + ALONE);
    uint32_t visits = state >> MUSTER_BIAS_ACCESS_SHIFT;
    if (t->at >= LATCH && t->at <= LATCH_SWAP) {
        step_latch(r, w, who, HELD);
    } else if (t->at >= HELD) {
        step_row(r, w, who, REST);
        t->at = t->at == DONE ? REST : t->at;
    } else if (t->at == SET_BAR && is_ready(r, t, BAR, true)) {
        w->cells[BAR] = MUSTER_REVOKED_MESH;
        t->at++;
    } else if (t->at == BAR_FENCE) {
        fence(r, w, who);
        t->at++;
    } else if (t->at == FIRST) {
        t->other = (uint8_t)visits;
        t->at++;
    } else if (t->at == HAS_LEFT) {
        t->at = (state & MUSTER_BIAS_UNLATCHED) == 0 ? LATCH
                : visits == t->other && !r->hasty    ? HAS_LEFT
                                                     : LEFT_SEEK;
        t->other = t->at == HAS_LEFT ? t->other : 0;
    } else if (t->at >= LEFT_SEEK && t->at < REST) {
        // Found, it looks at the count of visits as well, which is another.
        seek(w, who, LEFT_SEEK, LEFT_SEEK, LATCH);
    } else if (t->at == REST && is_ready(r, t, BAR, true)) {
        w->cells[BAR] = 0;
        t->at = t->round < r->rounds ? SET_BAR : DONE;
    }
}

/* ---- a list that changes ------------------------------------------------- */

/* A worker has a row open, in the second place of its list, and goes on: it
 * closes the first one, so that this one moves there, opens a third, and leaves
 * the row; that moves the third. See end_among(). */
static void step_mover(const rules *r, world *w, uint32_t who)
{
    thread *t = &w->threads[who];
    uint32_t state = get(w, who, STATE + who);
    switch (t->at++ - MOVE) {
    case 0:
        list(r, w, who, 0, HERE);
        return;
    case 1:
        put(w, who, STATE + who, state - (uint32_t)MUSTER_BIAS_LATCHED,
            !r->relaxed);
        return;
    case 2:
        list(r, w, who, 1, ELSEWHERE);
        return;
    case 3:
        add_to_state(w, who, MUSTER_BIAS_ACCESS + 1);
        return;
    case 4:
        t->seen[0] = get(w, who, ROW);
        return;
    case 5:
        put(w, who, ROW, t->seen[0] + 1, false);
        t->seen[0] = 0;
        return;
    case 6:
        list(r, w, who, 0, ELSEWHERE);
        return;
    default:
        add_to_state(w, who, (uint64_t)-1);
        t->at = DONE;
        return;
    }
}

/* ---- a worker that comes ------------------------------------------------- */

enum { ALONE_BEGIN = 80, ALONE_GO, ALONE_LOOK, ALONE_BACK };
enum { ELSE_BEGIN = 84, ELSE_GO, ELSE_LOOK, ELSE_BACK };
enum { COME = 90, COME_LIMIT, COME_FENCE, COME_WAIT };

/* The only worker: by the limit of the keys, and where that refuses, by the
 * bar; both are 0 as long as it is alone. */
static void step_only(world *w, uint32_t who)
{
    thread *t = &w->threads[who];
    uint32_t permit = t->at < ELSE_BEGIN ? LIMIT : BAR;
    int8_t refused = t->at < ELSE_BEGIN ? ELSE_BEGIN : BEGIN;
    switch (t->at) {
    case ALONE_BEGIN:
    case ELSE_BEGIN:
        t->at = get(w, who, permit) == 0 ? (int8_t)(t->at + 1) : refused;
        return;
    case ALONE_GO:
    case ELSE_GO:
        add_to_state(w, who, MUSTER_BIAS_ACCESS + 1);
        t->at++;
        return;
    case ALONE_LOOK:
    case ELSE_LOOK:
        t->at = get(w, who, permit) == 0 ? BARE : (int8_t)(t->at + 1);
        return;
    default:
        add_to_state(w, who, 0 - MUSTER_BIAS_ACCESS - 1);
        t->at = refused;
        return;
    }
}

/* The first worker is alone until the second has barred the table; from then on
 * rows belong to who uses them first. */
static void step_crew(const rules *r, world *w, uint32_t who)
{
    thread *t = &w->threads[who];
    switch (t->at) {
    case COME:
        w->cells[BAR] = MUSTER_REVOKED_WORKERS; // it has stored nothing yet
        t->at++;
        return;
    case COME_LIMIT:
        w->cells[LIMIT] = 1;
        t->at++;
        return;
    case COME_FENCE:
        fence(r, w, who);
        t->at++;
        return;
    case COME_WAIT:
        t->at = get(w, who, STATE) & MUSTER_BIAS_UNLATCHED ? COME_WAIT : BEGIN;
        return;
    default:
        if (t->at >= ALONE_BEGIN && t->at <= ELSE_BACK) {
            step_only(w, who);
            return;
        }
        step_worker(r, w, who);
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
    w.cells[DIVISION] = row_bias;
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

/* In both orders of stores: nothing goes wrong, and without the fence it
 * does. */
static void check_bargain(const rules *given, const world *first)
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

static void workers_of_a_divided_table_never_meet(void **state)
{
    (void)state;
    world first = make_world(MUSTER_ROW_BIAS_ON);
    rules r = make_rules(2, 2);
    r.step[0] = r.step[1] = r.step[2] = step_worker;
    check_bargain(&r, &first);
    r = make_rules(3, 1);
    r.step[0] = r.step[1] = r.step[2] = step_worker;
    check_bargain(&r, &first);
    r.hasty = true;
    assert_true(explore(&r, &first).meetings > 0);
}

static void a_division_that_pauses_goes_on(void **state)
{
    (void)state;
    world first = make_world(MUSTER_ROW_BIAS_ON);
    first.threads[0].at = PAUSE;
    rules r = make_rules(2, 2);
    r.step[0] = step_gather;
    r.step[1] = r.step[2] = step_worker;
    check_bargain(&r, &first);
    r = make_rules(3, 1);
    r.step[0] = step_gather;
    r.step[1] = r.step[2] = step_worker;
    check_bargain(&r, &first);
}

static void the_only_worker_and_the_mesh_never_meet(void **state)
{
    (void)state;
    world first = make_world(MUSTER_ROW_BIAS_NONE);
    rules r = make_rules(2, 2);
    r.step[ALONE] = step_alone;
    r.step[MESH] = step_mesh;
    check_bargain(&r, &first);
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
    r.step[0] = r.step[1] = step_crew;
    check_bargain(&r, &first);
}

/* Only where stores may overtake each other, places must be released. */
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
        cmocka_unit_test(workers_of_a_divided_table_never_meet),
        cmocka_unit_test(a_division_that_pauses_goes_on),
        cmocka_unit_test(the_only_worker_and_the_mesh_never_meet),
        cmocka_unit_test(the_only_worker_and_a_newcomer_never_meet),
        cmocka_unit_test(a_row_that_moves_in_the_list_is_found),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
