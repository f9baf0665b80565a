/*
 * sim/ps_set_test.h -- what a row may hold that is only SET, when nodes are
 * lost.
 *
 * A SET takes effect at some moment between its beginning and its end; one that
 * had no answer when a node was lost is done again before it ends. A row that
 * was lost comes back as it was in the checkpoint, which is like a SET of that
 * value at that moment. So at rest a row without copies has the value of
 *
 *   - a SET that was not over before another began which was done, or before
 *     the row came back; of one whose node died it is not known whether it was
 *     done, but from the next rest on it is over
 *   - the checkpoint, when no SET has ended since the row was as in it
 *
 * On copies a SET counts as what it changed, and what several change at once
 * adds up: there only rows that one SET at a time goes to have such values
 * (lose_one_after_sets); the others are at least not put together from parts.
 */
#ifndef MUSTER_SIM_PS_SET_TEST_H
#define MUSTER_SIM_PS_SET_TEST_H

#include "sim/ps_live_test.h"

/* ---- any number at once, without copies ---------------------------------- */

static bool is_copied(const world *w, uint32_t key)
{
    return w->manage == MUSTER_PS_AUTO || w->manage == MUSTER_PS_REPLICATE ||
           (w->manage == MUSTER_PS_STATIC &&
            muster_keyset_has(&w->replicated, 0, key));
}

static bool sets(const asked *a, uint32_t key)
{
    return a->request.op == MUSTER_ROWOP_SET && a->keys[0] == key;
}

/* Was it done, and is it known that the row has it or had it later? */
static bool counts_as_set(const asked *a, uint32_t key)
{
    return sets(a, key) && a->ended == 1 && !a->orphan;
}

/* All has come to rest: nothing of the dead is under way any more. */
static void bury_sets(world *w)
{
    uint64_t now = ++w->moment;
    for (asked *a = w->all; a != NULL; a = a->next) {
        a->over = a->over == 0 ? now : a->over;
    }
}

static bool may_be_as_set(const world *w, const asked *a)
{
    uint32_t key = a->keys[0];
    bool may = a->over > w->based[key];
    for (const asked *b = w->all; b != NULL && may; b = b->next) {
        may = !counts_as_set(b, key) || b->begun < a->over;
    }
    return may;
}

static bool may_be_as_checkpoint(const world *w, uint32_t key)
{
    bool may = true;
    for (const asked *b = w->all; b != NULL && may; b = b->next) {
        may = !counts_as_set(b, key) || b->over < w->based[key];
    }
    return may;
}

static void check_set_row(world *w, uint32_t key, const float *row)
{
    MUST(w, row[1] == 2 * row[0]);
    bool may = is_copied(w, key) ||
               (row[0] == w->checkpoint[key] && may_be_as_checkpoint(w, key));
    for (const asked *a = w->all; a != NULL && !may; a = a->next) {
        may = sets(a, key) && a->values[0] == row[0] && may_be_as_set(w, a);
    }
    MUST(w, may);
}

/* ---- one at a time, with copies ------------------------------------------ */

#define IDLE (3200 * MS) // copies that nobody changes are gone then

/* A row that all knew to be `before` was then SET to another value. */
typedef struct settled {
    const asked *before;
    const asked *after;
    bool in_place;
    // When the node was lost:
    bool owner_lives;  // with the row,
    bool held;         // or somebody who has a copy
    bool setter_owned; // the row
    bool home_lives;
} settled;

static void note_holders(const world *w, uint32_t key, const process *victim,
                         settled *s)
{
    s->home_lives = muster_protocol_home(w->at[0].node, key) != victim->number;
    for (uint16_t i = 0; i < w->nodes; i++) {
        const process *p = &w->at[i];
        if (!p->up || p == victim) {
            continue;
        }
        uint64_t word = atomic_load(&p->table->words[key]);
        bool owns = muster_word_state_of(word) == MUSTER_ROW_OWNED;
        s->held = s->held || muster_word_here(word);
        s->owner_lives = s->owner_lives || owns;
        s->setter_owned = s->setter_owned || (owns && i == s->after->at);
    }
}

/* Must the last SET be there? Yes if it was asked for again after the loss, was
 * done by who still has the row, or was on its way there from a copy by members
 * alone: a SYNC that goes by a lost home is lost with it. */
static bool is_sure(const world *w, const settled *s)
{
    const process *setter = &w->at[s->after->at];
    bool setter_lives = setter->up && setter->life == s->after->life;
    bool on_copy = s->in_place && !s->setter_owned;
    bool arrives = !on_copy || (setter_lives && s->home_lives);
    return (setter_lives && s->after->over > w->resumed) ||
           (s->owner_lives && s->after->ended == 1 && arrives);
}

/* Which of the three states the row is in: 0 as in the checkpoint, 1 before,
 * 2 after; no other is allowed. */
static int check_settled(world *w, uint32_t key, const settled *s)
{
    float row[WIDTH] = {0};
    see_row(w, key, row);
    bool is_before = row[0] == s->before->values[0];
    bool is_after = row[0] == s->after->values[0];
    MUST(w, row[1] == 2 * row[0]);
    if (is_sure(w, s)) {
        MUST(w, is_after);
    } else if (s->held) {
        MUST(w, is_before || is_after);
    } else {
        MUST(w, row[0] == w->checkpoint[key]);
    }
    return is_after ? 2 : is_before ? 1 : 0;
}

/* Somebody SETs every such row; afterwards all know it. */
static void set_all(world *w, settled *rows)
{
    for (uint32_t key = 0; key < KEYS; key++) {
        rows[key].before = is_set(key) ? set_row(w, somebody(w), key) : NULL;
    }
    come_to_rest(w);
    meet(w, false);
    for (uint32_t key = 0; key < KEYS; key++) {
        float row[WIDTH] = {0};
        see_row(w, key, row);
        MUST(w, !is_set(key) || row[0] == rows[key].before->values[0]);
    }
}

static void set_all_again(world *w, settled *rows)
{
    for (uint32_t key = 0; key < KEYS; key++) {
        if (is_set(key)) {
            rows[key].after = set_row(w, somebody(w), key);
            rows[key].in_place = rows[key].after->request.count == 0;
        }
    }
}

/* Rows at rest and alike everywhere, of some there are fresh copies. */
static void share_out(world *w)
{
    pass(w, w->now_ns + IDLE);
    for (int i = 0; i < 4; i++) {
        localize_some(w, somebody(w));
    }
    come_to_rest(w);
    meet(w, false);
}

/* A node is lost shortly after its own or others' SETs. Adds to how many rows
 * are how, see check_settled(). */
static void lose_one_after_sets(world *w, uint64_t *seen)
{
    settled rows[KEYS] = {0};
    process *victim = &w->at[1 + below(w, w->nodes - 1u)];
    if (!victim->up) {
        return;
    }
    share_out(w);
    set_all(w, rows);
    set_all_again(w, rows);
    pass(w, w->now_ns + (int64_t)below(w, 30 * MS));
    for (uint32_t key = 0; key < KEYS; key++) {
        if (is_set(key)) {
            note_holders(w, key, victim, &rows[key]);
        }
    }
    kill_one(w, victim);
    come_to_rest(w);
    meet(w, false);
    for (uint32_t key = 0; key < KEYS; key++) {
        if (is_set(key)) {
            seen[check_settled(w, key, &rows[key])]++;
        }
    }
}

#endif // MUSTER_SIM_PS_SET_TEST_H
