/*
 * sim/ps_set_test.h -- what a row may hold that is only SET, when nodes are
 * lost.
 *
 * A SET takes effect at some moment between its beginning and its end. A SET
 * that had no answer when a node was lost is applied again before it ends. A
 * lost row is restored from the checkpoint, which is like a SET of that value
 * at that moment. So at rest a row without replicas has the value of
 *
 *   - a SET that had not ended before another completed SET began, or before
 *     the row was restored. Of a SET whose node died it is not known whether it
 *     was applied, but from the next rest on it counts as ended.
 *   - the checkpoint, when no SET has ended since the row equalled it.
 *
 * On replicas a SET counts as a delta, and the deltas of several SETs add up.
 * So there only rows with one SET at a time have such values
 * (lose_one_after_sets); other rows are at least not put together from parts.
 */
#ifndef MUSTER_SIM_PS_SET_TEST_H
#define MUSTER_SIM_PS_SET_TEST_H

#include "sim/ps_history_test.h"

/* ---- any number at once, without replicas -------------------------------- */

static bool is_replicated(const history *h, uint32_t key)
{
    return h->manage == MUSTER_PS_AUTO || h->manage == MUSTER_PS_REPLICATE ||
           (h->manage == MUSTER_PS_STATIC &&
            muster_keyset_has(&h->replicated, 0, key));
}

static bool sets(const issued *a, uint32_t key)
{
    return a->request.op == MUSTER_ROWOP_SET && a->keys[0] == key;
}

/* Was the SET applied for certain, at a row that the members have? */
static bool is_completed_set(const issued *a, uint32_t key)
{
    return sets(a, key) && a->ends == 1 && !a->orphan;
}

/* At rest no SET of a dead node is under way any more: all have ended. */
static void end_sets_of_the_dead(history *h)
{
    uint64_t now = ++h->moment;
    for (issued *a = h->all; a != NULL; a = a->next) {
        a->ended_at = a->ended_at == 0 ? now : a->ended_at;
    }
}

static bool may_be_as_set(const history *h, const issued *a)
{
    uint32_t key = a->keys[0];
    bool may = a->ended_at > h->based[key];
    for (const issued *b = h->all; b != NULL && may; b = b->next) {
        may = !is_completed_set(b, key) || b->begun < a->ended_at;
    }
    return may;
}

static bool may_be_as_checkpoint(const history *h, uint32_t key)
{
    bool may = true;
    for (const issued *b = h->all; b != NULL && may; b = b->next) {
        may = !is_completed_set(b, key) || b->ended_at < h->based[key];
    }
    return may;
}

static void check_set_row(history *h, uint32_t key, const float *row)
{
    MUST(h, row[1] == 2 * row[0]);
    bool may = is_replicated(h, key) ||
               (row[0] == h->checkpoint[key] && may_be_as_checkpoint(h, key));
    for (const issued *a = h->all; a != NULL && !may; a = a->next) {
        may = sets(a, key) && a->values[0] == row[0] && may_be_as_set(h, a);
    }
    MUST(h, may);
}

/* ---- one at a time, with replicas ---------------------------------------- */

#define UNUSED_NS (3200 * MS) // replicas that were not changed are dropped then

/* A row that all nodes knew to be `before` was then SET to another value. */
typedef struct set_twice {
    const issued *before;
    const issued *after;
    bool in_place;
    // When the node was lost:
    bool owner_lives; // and has the row
    bool held;        // by a living node, at least as a replica
    bool setter_owned;
    bool home_lives;
} set_twice;

static void note_holders(const history *h, uint32_t key, uint16_t victim,
                         set_twice *s)
{
    s->home_lives =
        muster_protocol_home(process(h, 0)->protocol, key) != victim;
    for (uint16_t i = 0; i < h->nodes; i++) {
        if (!is_up(h, i) || i == victim) {
            continue;
        }
        uint64_t word = atomic_load(&process(h, i)->table->words[key]);
        bool owns = muster_word_state_of(word) == MUSTER_ROW_OWNED;
        s->held = s->held || muster_word_here(word);
        s->owner_lives = s->owner_lives || owns;
        s->setter_owned = s->setter_owned || (owns && i == s->after->node);
    }
}

/* Must the row have the last SET? Yes if the SET was sent again after the loss,
 * or was applied by a node that still has the row, or was on its way there from
 * a replica by members alone: a SYNC that goes by a lost home is lost. */
static bool is_sure(const history *h, const set_twice *s)
{
    const muster_ps_process *setter = process(h, s->after->node);
    bool setter_lives =
        setter->up && setter->incarnation == s->after->incarnation;
    bool on_replica = s->in_place && !s->setter_owned;
    bool arrives = !on_replica || (setter_lives && s->home_lives);
    return (setter_lives && s->after->ended_at > h->resumed) ||
           (s->owner_lives && s->after->ends == 1 && arrives);
}

/* Returns the value that the row has: 0 the checkpoint's, 1 the one before, 2
 * the one after; no other is allowed. */
static int check_set_twice(history *h, uint32_t key, const set_twice *s)
{
    float row[WIDTH] = {0};
    see_row(h, key, row);
    bool is_before = row[0] == s->before->values[0];
    bool is_after = row[0] == s->after->values[0];
    MUST(h, row[1] == 2 * row[0]);
    if (is_sure(h, s)) {
        MUST(h, is_after);
    } else if (s->held) {
        MUST(h, is_before || is_after);
    } else {
        MUST(h, row[0] == h->checkpoint[key]);
    }
    return is_after ? 2 : is_before ? 1 : 0;
}

/* Every such row is SET; afterwards all nodes know its value. */
static void set_all(history *h, set_twice *rows)
{
    for (uint32_t key = 0; key < KEYS; key++) {
        rows[key].before = is_set(key) ? set_row(h, any_node(h), key) : NULL;
    }
    come_to_rest(h);
    meet(h, false);
    for (uint32_t key = 0; key < KEYS; key++) {
        float row[WIDTH] = {0};
        see_row(h, key, row);
        MUST(h, !is_set(key) || row[0] == rows[key].before->values[0]);
    }
}

static void set_all_again(history *h, set_twice *rows)
{
    for (uint32_t key = 0; key < KEYS; key++) {
        if (is_set(key)) {
            rows[key].after = set_row(h, any_node(h), key);
            rows[key].in_place = rows[key].after->request.count == 0;
        }
    }
}

/* Rows at rest, equal at all nodes; some have fresh replicas. */
static void share_out(history *h)
{
    pass(h, UNUSED_NS);
    for (int i = 0; i < 4; i++) {
        localize_some(h, any_node(h));
    }
    come_to_rest(h);
    meet(h, false);
}

/* A node is lost shortly after SETs. Adds to `seen` how many rows have which
 * value; see check_set_twice(). */
static void lose_one_after_sets(history *h, uint64_t *seen)
{
    set_twice rows[KEYS] = {0};
    uint16_t victim = (uint16_t)(1 + below(h, h->nodes - 1u));
    if (!is_up(h, victim)) {
        return;
    }
    share_out(h);
    set_all(h, rows);
    set_all_again(h, rows);
    pass(h, (int64_t)below(h, 30 * MS));
    for (uint32_t key = 0; key < KEYS; key++) {
        if (is_set(key)) {
            note_holders(h, key, victim, &rows[key]);
        }
    }
    muster_ps_world_kill(h->world, victim);
    come_to_rest(h);
    meet(h, false);
    for (uint32_t key = 0; key < KEYS; key++) {
        if (is_set(key)) {
            seen[check_set_twice(h, key, &rows[key])]++;
        }
    }
}

#endif // MUSTER_SIM_PS_SET_TEST_H
