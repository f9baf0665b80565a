/*
 * protocol_test.c -- the protocol under thousands of histories.
 *
 * Two to four nodes with real tables. Messages are delivered in any order, some
 * twice. Workers push, pull, localize and wait at barriers as the seed decides.
 * At rest: every row has exactly one owner, which its home knows; its value is
 * the number of pushes made, each of which was acknowledged once; every replica
 * equals its owner's row. Barriers that do not wait for that are passed in the
 * middle of the work. A failing seed is printed; MUSTER_SEED=n runs it alone.
 */
#include "ps/protocol/protocol_test.h"

enum { KEYS = 11, WIDTH = 2, STEPS = 500 };
enum { REQUEST_KEYS = 3, SEEDS = 3000 };

typedef struct asked {
    muster_row_request request;
    uint32_t keys[REQUEST_KEYS];
    uint32_t positions[REQUEST_KEYS];
    float values[REQUEST_KEYS * WIDTH];
    int ended;
    struct asked *next;
} asked;

typedef struct world {
    mesh mesh;
    uint64_t pushes[KEYS];
    asked *all;
    uint64_t barriers[NODES_MAX];
    uint64_t stored; // rows looked at
    uint64_t early;  // barriers passed with messages under way
} world;

static void build(world *w, uint64_t seed)
{
    memset(w, 0, sizeof(*w));
    mesh *m = &w->mesh;
    m->rng = muster_rng_make(seed, 7);
    m->nodes = (uint16_t)(2 + below(m, NODES_MAX - 1));
    mesh_start(m, KEYS, WIDTH,
               (muster_protocol_opts){.manage = (muster_ps_manage)below(m, 4),
                                      .message_entries = (uint32_t)below(m, 4),
                                      .contest_ns = 50000000});
}

static void destroy(world *w)
{
    mesh_end(&w->mesh);
    while (w->all != NULL) {
        asked *next = w->all->next;
        free(w->all);
        w->all = next;
    }
}

/* A worker pushes ones to some keys, in place if the row is here. */
static void push_some(world *w, uint16_t at)
{
    mesh *m = &w->mesh;
    asked *a = calloc(1, sizeof(*a));
    assert_non_null(a);
    a->next = w->all;
    w->all = a;
    a->request.op = below(m, 4) == 0 ? MUSTER_ROWOP_PULL : MUSTER_ROWOP_PUSH;
    for (uint32_t i = 0; i < REQUEST_KEYS; i++) {
        a->keys[i] = (uint32_t)below(m, KEYS);
        a->values[2 * i] = 1;
        a->values[2 * i + 1] = 2;
        bool pull = a->request.op == MUSTER_ROWOP_PULL;
        w->pushes[a->keys[i]] += !pull;
        float copy[WIDTH] = {1, 2};
        if (!muster_ps_table_try(m->tables[at],
                                 pull ? MUSTER_ROWOP_PULL : MUSTER_ROWOP_PUSH,
                                 a->keys[i], copy)) {
            a->positions[a->request.count++] = i;
        }
    }
    if (a->request.count == 0) {
        a->ended = 1;
        return;
    }
    a->request.keys = a->keys;
    a->request.values = a->values;
    a->request.positions = a->positions;
    a->request.context = &a->ended;
    assert_int_equal(muster_protocol_request(m->node[at], m->now_ns,
                                             &a->request, &m->out[at]),
                     MUSTER_OK);
    collect(m, at);
}

static void localize_some(mesh *m, uint16_t at)
{
    uint32_t keys[REQUEST_KEYS];
    for (uint32_t i = 0; i < REQUEST_KEYS; i++) {
        keys[i] = (uint32_t)below(m, KEYS);
    }
    muster_localize_request request = {
        .keys = keys, .count = REQUEST_KEYS, .copy = below(m, 4) == 0};
    localize(m, at, &request);
}

/* All nodes come to a barrier, which none passes before the last has come. */
static void enter(world *w, muster_ps_until until)
{
    mesh *m = &w->mesh;
    for (uint16_t i = 0; i < m->nodes; i++) {
        for (uint16_t j = 0; j < m->nodes; j++) {
            assert_int_equal(m->out[j].released, w->barriers[j]);
        }
        assert_int_equal(
            muster_protocol_barrier(m->node[i], m->now_ns, until, &m->out[i]),
            MUSTER_OK);
        collect(m, i);
        for (int j = 0; j < 3; j++) {
            deliver(m, below(m, 8) == 0);
        }
    }
}

static void meet(world *w)
{
    mesh *m = &w->mesh;
    enter(w, MUSTER_PS_SEEN);
    come_to_rest(m);
    for (uint16_t i = 0; i < m->nodes; i++) {
        assert_int_equal(m->out[i].released, ++w->barriers[i]);
    }
}

static bool all_passed(const world *w)
{
    bool all = true;
    for (uint16_t i = 0; i < w->mesh.nodes; i++) {
        all = all && w->mesh.out[i].released > w->barriers[i];
    }
    return all;
}

/* Every row that is not on its way lies at its owner with all pushes. */
static void check_stored(world *w)
{
    mesh *m = &w->mesh;
    for (const asked *a = w->all; a != NULL; a = a->next) {
        assert_int_equal(a->ended, 1);
    }
    for (uint32_t key = 0; key < KEYS; key++) {
        for (uint16_t i = 0; i < m->nodes; i++) {
            uint64_t word = atomic_load(&m->tables[i]->words[key]);
            float seen[WIDTH] = {0};
            if (muster_word_state_of(word) == MUSTER_ROW_OWNED) {
                assert_true(muster_ps_table_try(m->tables[i], MUSTER_ROWOP_PULL,
                                                key, seen));
                assert_int_equal((int)seen[0], w->pushes[key]);
                w->stored++;
            }
        }
    }
}

/* A barrier in the middle of the work: the nodes go on as soon as it lets them,
 * whatever is still under way. */
static void meet_shortly(world *w, muster_ps_until until)
{
    mesh *m = &w->mesh;
    enter(w, until);
    for (int rounds = 0; !all_passed(w); rounds++) {
        assert_true(rounds < 20000);
        if (m->flying > 0) {
            deliver(m, false);
        } else {
            tick_all(m, 10000000);
        }
    }
    for (uint16_t i = 0; i < m->nodes; i++) {
        assert_int_equal(m->out[i].released, ++w->barriers[i]);
    }
    if (until == MUSTER_PS_STORED) {
        check_stored(w);
    }
    w->early += !at_rest(m);
}

static void check_row(world *w, uint32_t key)
{
    mesh *m = &w->mesh;
    int owners = 0;
    float expected[WIDTH] = {(float)w->pushes[key],
                             (float)(2 * w->pushes[key])};
    for (uint16_t i = 0; i < m->nodes; i++) {
        uint64_t word = atomic_load(&m->tables[i]->words[key]);
        assert_true((word & MUSTER_WORD_LATCHED) == 0);
        if (muster_word_state_of(word) == MUSTER_ROW_OWNED) {
            owners++;
            assert_int_equal(
                muster_protocol_owner(m->node[key % m->nodes], 0, key), i);
        }
        if (muster_word_here(word)) {
            float seen[WIDTH];
            assert_true(muster_ps_table_try(m->tables[i], MUSTER_ROWOP_PULL,
                                            key, seen));
            assert_memory_equal(seen, expected, sizeof(seen));
        } else {
            assert_int_equal(muster_word_state_of(word), MUSTER_ROW_ABSENT);
        }
    }
    assert_int_equal(owners, 1);
}

static void check_all(world *w)
{
    mesh *m = &w->mesh;
    for (uint32_t key = 0; key < KEYS; key++) {
        check_row(w, key);
    }
    for (const asked *a = w->all; a != NULL; a = a->next) {
        assert_int_equal(a->ended, 1);
    }
    for (uint16_t i = 0; i < m->nodes; i++) {
        assert_int_equal(muster_protocol_count(m->node[i]).violations, 0);
    }
}

/* One history; the seed also decides how likely each action is. */
static void live(world *w)
{
    mesh *m = &w->mesh;
    uint64_t eager = 1 + below(m, 8); // how fast messages are delivered
    for (int step = 0; step < STEPS; step++) {
        uint16_t at = (uint16_t)below(m, m->nodes);
        m->now_ns += (int64_t)below(m, 5000000);
        switch (below(m, 5 + eager)) {
        case 0:
            push_some(w, at);
            break;
        case 1:
            localize_some(m, at);
            break;
        case 2:
            tick_all(m, 0);
            break;
        case 3:
            deliver(m, true);
            break;
        default:
            deliver(m, false);
            break;
        }
    }
}

static void every_push_counts_once_in_every_history(void **state)
{
    (void)state;
    uint64_t first;
    uint64_t last = seeds_to_run(SEEDS, &first);
    world *w = calloc(1, sizeof(*w));
    assert_non_null(w);
    uint64_t moved = 0;
    uint64_t copied = 0;
    uint64_t twice = 0;
    uint64_t stored = 0;
    uint64_t early = 0;
    for (uint64_t seed = first; seed < last; seed++) {
        replay_begin("test_ps_protocol_protocol", seed);
        build(w, seed);
        live(w);
        come_to_rest(&w->mesh);
        meet(w);
        check_all(w);
        live(w);
        meet_shortly(w, seed % 2 == 0 ? MUSTER_PS_STORED : MUSTER_PS_MET);
        live(w);
        meet(w);
        check_all(w);
        stored += w->stored;
        early += w->early;
        for (uint16_t i = 0; i < w->mesh.nodes; i++) {
            muster_protocol_counters c = muster_protocol_count(w->mesh.node[i]);
            moved += c.relocations;
            copied += c.replicas;
            twice += c.duplicates;
        }
        destroy(w);
        replay_end();
    }
    // The histories did contain what the test is about.
    assert_true(last - first < SEEDS ||
                (moved > 10 * SEEDS && copied > SEEDS && twice > 10 * SEEDS &&
                 stored > SEEDS && early > SEEDS / 4));
    free(w);
}

static void hostile_messages_are_dropped(void **state)
{
    (void)state;
    world *w = calloc(1, sizeof(*w));
    assert_non_null(w);
    build(w, 1);
    muster_blob *blob =
        muster_blob_create(muster_rowmsg_payload_bytes(1, WIDTH));
    assert_non_null(blob);
    memset(blob->data, 0xff, blob->bytes);
    muster_rowmsg bad = {.kind = MUSTER_ROWMSG_TRANSFER,
                         .from = 1,
                         .origin = 1,
                         .count = 1,
                         .payload = blob};
    // A key beyond the table; a row that was not requested; a short payload.
    muster_protocol_out *out = &w->mesh.out[0];
    assert_int_equal(muster_protocol_message(w->mesh.node[0], 0, &bad, out),
                     MUSTER_OK);
    memset(blob->data, 0, blob->bytes);
    assert_int_equal(muster_protocol_message(w->mesh.node[0], 0, &bad, out),
                     MUSTER_OK);
    bad.count = 2;
    bad.link = 1;
    assert_int_equal(muster_protocol_message(w->mesh.node[0], 0, &bad, out),
                     MUSTER_OK);
    bad.count = 1;
    bad.from = NODES_MAX + 1;
    assert_int_equal(muster_protocol_message(w->mesh.node[0], 0, &bad, out),
                     MUSTER_OK);
    assert_int_equal(muster_protocol_count(w->mesh.node[0]).violations, 4);
    assert_int_equal(out->sends.count, 0);
    // Only the lead expels nodes.
    muster_rowmsg expel = {.kind = MUSTER_ROWMSG_EXPEL, .from = 1};
    assert_int_equal(muster_protocol_message(w->mesh.node[0], 0, &expel, out),
                     MUSTER_OK);
    assert_int_equal(muster_protocol_count(w->mesh.node[0]).violations, 5);
    assert_int_equal(out->news.count, 0);
    expel.from = 0;
    out = &w->mesh.out[1];
    assert_int_equal(muster_protocol_message(w->mesh.node[1], 0, &expel, out),
                     MUSTER_OK);
    assert_int_equal(out->news.count, 1);
    muster_blob_unref(blob);
    destroy(w);
    free(w);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(every_push_counts_once_in_every_history,
                                  tell_replay),
        cmocka_unit_test(hostile_messages_are_dropped),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
