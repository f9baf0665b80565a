/*
 * ps_mesh_test.c -- the parameter server's protocol in virtual time, with nodes
 * that die, are stopped and are replaced.
 *
 * Two to five nodes, or 64, with real tables in a simulated world (ps_world.h).
 * A node may be killed, or stopped for longer than a heartbeat may be missing
 * and then continued. Sometimes a second node is lost during the change of
 * membership after the first, and sometimes a fresh node takes the place of a
 * lost one, or is lost while it joins. At rest:
 *
 *   - every row has exactly one owner among the living, which its home knows
 *   - no update counts twice, and those missing are at most as many as reported
 *   - without replicas, rows that were not restored from the checkpoint miss at
 *     most what was reported as unanswered or not acknowledged to the dead
 *   - rows that are SET have a value that ps_set_test.h allows
 *   - every replica equals its owner's row; every request of the living ended
 *     once
 *   - a node that was expelled while it was stopped ends itself
 *
 * A failing seed prints the command that replays it.
 */
#include "sim/ps_set_test.h"

enum { SEEDS = 2000, MANY_SEEDS = 8, ACTIONS = 250, NOTE = 77 };

/* Rows that are pushed to: how many pushes are missing? */
static void check_rows(history *h)
{
    uint64_t missing = 0;
    uint64_t kept_missing = 0;
    bool replicas = h->manage == MUSTER_PS_AUTO ||
                    h->manage == MUSTER_PS_REPLICATE ||
                    h->manage == MUSTER_PS_STATIC;
    for (uint32_t key = 0; key < KEYS; key++) {
        float row[WIDTH] = {0};
        see_row(h, key, row);
        if (is_set(key)) {
            check_set_row(h, key, row);
            continue;
        }
        MUST(h, row[1] == 2 * row[0] && row[0] >= h->checkpoint[key]);
        MUST(h, row[0] <= (float)h->made[key]);
        uint64_t gone = h->made[key] - (uint64_t)row[0];
        missing += gone;
        kept_missing += h->restored[key] ? 0 : gone - h->base_missing[key];
    }
    MUST(h, missing <= h->allowed + h->unreported);
    MUST(h, replicas || kept_missing <= h->unanswered + h->orphans);
}

static void check_all(history *h)
{
    for (const issued *a = h->all; a != NULL; a = a->next) {
        const muster_ps_process *p = process(h, a->node);
        MUST(h, a->ends == 1 || !p->up || p->incarnation != a->incarnation);
    }
    end_sets_of_the_dead(h);
    check_rows(h);
    for (uint16_t i = 0; i < h->nodes; i++) {
        MUST(h, !is_up(h, i) ||
                    muster_protocol_count(process(h, i)->protocol).violations ==
                        0);
    }
}

static void take_checkpoint(history *h)
{
    // What was reported for earlier losses must not hide later ones.
    h->allowed = 0;
    h->unreported = 0;
    for (uint32_t key = 0; key < KEYS; key++) {
        float row[WIDTH] = {0};
        see_row(h, key, row);
        h->checkpoint[key] = row[0];
        h->based[key] = ++h->moment;
        h->restored[key] = false;
        if (is_set(key)) {
            continue;
        }
        h->base_missing[key] = h->made[key] - (uint64_t)row[0];
        h->allowed += h->base_missing[key];
    }
    for (uint16_t i = 0; i < h->nodes; i++) {
        h->at[i].updates = 0;
        h->at[i].reported = 0;
    }
    h->unanswered = 0;
    h->orphans = 0;
}

/* While node `joiner` joins, the others work and one of them is lost, and
 * sometimes the joiner after it. */
static void disturb(history *h, uint16_t joiner)
{
    for (int i = 0; i < 12; i++) {
        uint16_t node = any_node(h);
        if (node != joiner) {
            localize_some(h, node);
            push_some(h, node);
            set_some(h, node);
        }
    }
    pass(h, (int64_t)below(h, 30 * MS));
    hurt(h);
    pass(h, (int64_t)below(h, 300 * MS));
    if (is_up(h, joiner) && below(h, 2) == 0) {
        muster_ps_world_kill(h->world, joiner);
    }
}

/* Fresh processes take the places of some lost nodes while the others rest. */
static void replace_some(history *h, bool disturbed)
{
    for (uint16_t i = 1; i < h->nodes; i++) {
        if (is_up(h, i) || below(h, 2) == 0) {
            continue;
        }
        start_node(h, i, true);
        muster_ps_world_admit(h->world, i, NOTE);
        h->joins++;
        h->at[i].barriers = 0;
        if (disturbed) {
            disturb(h, i);
        }
        come_to_rest(h);
        MUST(h, is_up(h, i) || disturbed);
        MUST(h, !is_up(h, i) ||
                    muster_protocol_note(process(h, i)->protocol) == NOTE);
    }
}

/* Workers work, and about `hurts` faults happen. */
static void live(history *h, uint64_t hurts)
{
    for (int step = 0; step < ACTIONS; step++) {
        uint16_t node = any_node(h);
        if (muster_ps_world_runs(h->world, node)) {
            uint64_t what = below(h, 8);
            if (what == 0) {
                intend_some(h, node);
            } else if (what < 3) {
                localize_some(h, node);
            } else if (what < 5) {
                set_some(h, node);
            } else {
                push_some(h, node);
            }
        }
        pass(h, (int64_t)below(h, 3 * MS));
        if (hurts > 0 && below(h, ACTIONS) < hurts) {
            hurt(h);
        }
    }
}

enum { SEEN = 9 };

/* One history, checked at each rest. Adds to `seen` what it contained. */
static void run_history(history *h, uint64_t *seen)
{
    live(h, 0);
    meet(h, false);
    check_all(h);
    take_checkpoint(h);
    live(h, 1 + h->seed % 3);
    come_to_rest(h);
    meet(h, h->seed % 4 == 0);
    check_all(h);
    replace_some(h, h->seed % 3 == 0);
    meet(h, false);
    check_all(h);
    take_checkpoint(h);
    live(h, h->seed % 2);
    come_to_rest(h);
    meet(h, false);
    check_all(h);
    take_checkpoint(h);
    lose_one_after_sets(h, seen + 6);
    check_all(h);
    seen[0] += h->losses;
    seen[1] += h->expelled;
    seen[2] += h->joins;
    seen[3] += h->copied;
    seen[4] += h->rescued;
    seen[5] += h->postponed;
}

static void no_loss_is_more_than_reported_in_any_history(void **state)
{
    (void)state;
    const char *only = getenv("MUSTER_SEED");
    const char *many = getenv("MUSTER_SEEDS");
    uint64_t seeds = many == NULL ? SEEDS : strtoull(many, NULL, 10);
    uint64_t first = only == NULL ? 0 : strtoull(only, NULL, 10);
    uint64_t last = only == NULL ? seeds : first + 1;
    history *h = calloc(1, sizeof(*h));
    assert_non_null(h);
    uint64_t seen[SEEN] = {0};
    for (uint64_t seed = first; seed < last; seed++) {
        begin_history(h, seed, 0);
        run_history(h, seen);
        end_history(h);
    }
    // The histories did contain what the test is about.
    for (int i = 0; i < SEEN && only == NULL; i++) {
        assert_true(seen[i] > seeds / 20);
    }
    free(h);
}

/* As many nodes as there may be. */
static void sixty_four_nodes_lose_no_more_than_reported(void **state)
{
    (void)state;
    history *h = calloc(1, sizeof(*h));
    assert_non_null(h);
    uint64_t seen[SEEN] = {0};
    for (uint64_t seed = 0; seed < MANY_SEEDS; seed++) {
        begin_history(h, seed, MUSTER_PS_NODES_MAX);
        run_history(h, seen);
        end_history(h);
    }
    assert_true(seen[0] >= MANY_SEEDS); // losses
    free(h);
}

int main(void)
{
    (void)signal(SIGABRT, on_abort);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sixty_four_nodes_lose_no_more_than_reported),
        cmocka_unit_test(no_loss_is_more_than_reported_in_any_history),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
