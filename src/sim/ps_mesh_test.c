/*
 * ps_mesh_test.c -- the parameter server's protocol in virtual time, with nodes
 * that die, stand still and are replaced.
 *
 * Two to five nodes with real tables. Messages take a drawn time, so they
 * overtake each other; some come twice. A node may be killed (what it had sent
 * may or may not arrive; its peers hear of it at different times), or stopped
 * for longer than the heartbeat's window and then continued. Sometimes a second
 * one goes while the first is being buried, and sometimes a fresh one takes an
 * empty place, or is lost on its way in. When all has come to rest:
 *
 *   - every row has exactly one owner among the living, which its home knows
 *   - no update counts twice, and those missing are at most as many as reported
 *   - without copies, rows that did not come from the checkpoint miss at most
 *     what was reported as unanswered or not acknowledged to the dead
 *   - rows that are SET have a value that ps_set_test.h allows
 *   - every copy equals its owner's row; every request of the living ended once
 *   - a node that was given up and comes back ends itself
 *
 * A failing seed prints how to run it alone.
 */
#include "sim/ps_set_test.h"

enum { SEEDS = 2000, ACTIONS = 250 };

/* Rows that are pushed to: what is missing of them. */
static void check_rows(world *w)
{
    uint64_t missing = 0;
    uint64_t kept_missing = 0;
    bool copies = w->manage == MUSTER_PS_AUTO ||
                  w->manage == MUSTER_PS_REPLICATE ||
                  w->manage == MUSTER_PS_STATIC;
    for (uint32_t key = 0; key < KEYS; key++) {
        float row[WIDTH] = {0};
        see_row(w, key, row);
        if (is_set(key)) {
            check_set_row(w, key, row);
            continue;
        }
        MUST(w, row[1] == 2 * row[0] && row[0] >= w->checkpoint[key]);
        MUST(w, row[0] <= (float)w->made[key]);
        uint64_t gone = w->made[key] - (uint64_t)row[0];
        missing += gone;
        kept_missing += w->restored[key] ? 0 : gone - w->base_missing[key];
    }
    MUST(w, missing <= w->allowed + w->slack);
    MUST(w, copies || kept_missing <= w->unanswered + w->orphans);
}

static void check_all(world *w)
{
    for (const asked *a = w->all; a != NULL; a = a->next) {
        const process *p = &w->at[a->at];
        MUST(w, a->ended == 1 || !p->up || p->life != a->life);
    }
    bury_sets(w);
    check_rows(w);
    for (uint16_t i = 0; i < w->nodes; i++) {
        MUST(w, !w->at[i].up ||
                    muster_protocol_count(w->at[i].node).violations == 0);
    }
}

static void take_checkpoint(world *w)
{
    // What was reported for earlier losses must not hide later ones.
    w->allowed = 0;
    w->slack = 0;
    for (uint32_t key = 0; key < KEYS; key++) {
        float row[WIDTH] = {0};
        see_row(w, key, row);
        w->checkpoint[key] = row[0];
        w->based[key] = ++w->moment;
        w->restored[key] = false;
        if (is_set(key)) {
            continue;
        }
        w->base_missing[key] = w->made[key] - (uint64_t)row[0];
        w->allowed += w->base_missing[key];
    }
    for (uint16_t i = 0; i < w->nodes; i++) {
        w->at[i].updates = 0;
        w->at[i].told = 0;
    }
    w->unanswered = 0;
    w->orphans = 0;
}

/* While node `joiner` is taken in, the others work and one of them is lost, and
 * sometimes the joiner after it. */
static void disturb(world *w, uint16_t joiner)
{
    for (int i = 0; i < 12; i++) {
        process *p = somebody(w);
        if (p->number != joiner) {
            localize_some(w, p);
            push_some(w, p);
            set_some(w, p);
        }
    }
    pass(w, w->now_ns + (int64_t)below(w, 30 * MS));
    hurt(w);
    pass(w, w->now_ns + (int64_t)below(w, 300 * MS));
    if (w->at[joiner].up && below(w, 2) == 0) {
        kill_one(w, &w->at[joiner]);
    }
}

/* A fresh process takes an empty place while the others are at rest. */
static void replace_some(world *w, bool disturbed)
{
    for (uint16_t i = 1; i < w->nodes; i++) {
        process *lead = &w->at[0];
        if (w->at[i].up || below(w, 2) == 0) {
            continue;
        }
        start(w, i, true);
        MUST(w, muster_protocol_admit(lead->node, w->now_ns, i, 77,
                                      &lead->out) == MUSTER_OK);
        collect(w, lead);
        w->joins++;
        w->at[i].barriers = 0;
        if (disturbed) {
            disturb(w, i);
        }
        come_to_rest(w);
        MUST(w, w->at[i].up || disturbed);
        MUST(w, !w->at[i].up || muster_protocol_note(w->at[i].node) == 77);
    }
}

static void live(world *w, uint64_t hurts)
{
    for (int step = 0; step < ACTIONS; step++) {
        process *p = somebody(w);
        if (p->stopped_ns <= w->now_ns) {
            uint64_t what = below(w, 8);
            if (what == 0) {
                intend_some(w, p);
            } else if (what < 3) {
                localize_some(w, p);
            } else if (what < 5) {
                set_some(w, p);
            } else {
                push_some(w, p);
            }
        }
        pass(w, w->now_ns + (int64_t)below(w, 3 * MS));
        if (hurts > 0 && below(w, ACTIONS) < hurts) {
            hurt(w);
        }
    }
}

static void no_loss_is_more_than_reported_in_any_history(void **state)
{
    (void)state;
    const char *only = getenv("MUSTER_SEED");
    const char *many = getenv("MUSTER_SEEDS");
    uint64_t seeds = many == NULL ? SEEDS : strtoull(many, NULL, 10);
    uint64_t first = only == NULL ? 0 : strtoull(only, NULL, 10);
    uint64_t last = only == NULL ? seeds : first + 1;
    world *w = calloc(1, sizeof(*w));
    assert_non_null(w);
    uint64_t seen[9] = {0};
    for (uint64_t seed = first; seed < last; seed++) {
        build(w, seed);
        live(w, 0);
        meet(w, false);
        check_all(w);
        take_checkpoint(w);
        live(w, 1 + seed % 3);
        come_to_rest(w);
        meet(w, seed % 4 == 0);
        check_all(w);
        replace_some(w, seed % 3 == 0);
        meet(w, false);
        check_all(w);
        take_checkpoint(w);
        live(w, seed % 2);
        come_to_rest(w);
        meet(w, false);
        check_all(w);
        take_checkpoint(w);
        lose_one_after_sets(w, seen + 6);
        check_all(w);
        seen[0] += w->losses;
        seen[1] += w->expelled;
        seen[2] += w->joins;
        seen[3] += w->copied;
        seen[4] += w->rescued;
        seen[5] += w->postponed;
        destroy(w);
    }
    // The histories did contain what they are meant to be safe against.
    for (int i = 0; i < 9 && only == NULL; i++) {
        assert_true(seen[i] > seeds / 20);
    }
    free(w);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(no_loss_is_more_than_reported_in_any_history),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
