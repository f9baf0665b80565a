/*
 * mesh_test.c -- membership alone, in a full mesh: whatever dies, returns or is
 * cut off, when it is quiet again every node is connected to every other.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "base/assert.h"
#include "base/clock.h"
#include "base/mem.h"
#include "base/rng.h"
#include "role/member.h"
#include "sim/sim.h"

#define NODES      8u
#define SECONDS(n) ((int64_t)(n)*MUSTER_NS_PER_S)

typedef struct node {
    muster_member member;
    bool here[NODES]; // as the news said
} node;

static void node_step(void *state, const muster_event *event,
                      muster_actions *actions)
{
    node *n = state;
    muster_member_step(&n->member, event, actions);
    const muster_news *news = n->member.news.data;
    for (size_t i = 0; i < n->member.news.count; i++) {
        if (news[i].kind == MUSTER_NEWS_JOINED) {
            MUSTER_ASSERT(!n->here[news[i].id]); // they alternate
            n->here[news[i].id] = true;
        } else if (news[i].kind == MUSTER_NEWS_LOST) {
            MUSTER_ASSERT(n->here[news[i].id]);
            n->here[news[i].id] = false;
        }
    }
}

static void node_free(void *state)
{
    node *n = state;
    muster_member_fini(&n->member);
    muster_mem_free(n);
}

static const muster_role_ops node_ops = {
    .name = "node", .step = node_step, .free = node_free};

static void start_node(muster_sim *sim, void *context, uint64_t host)
{
    (void)context;
    if (muster_sim_is_up(sim, (uint32_t)host)) {
        return;
    }
    muster_member_opts opts = {.leads = host == 0,
                               .mesh = true,
                               .kind = MUSTER_MEMBER_NODE,
                               .size = host == 0 ? NODES : 0,
                               .run = 42,
                               .heartbeat_ns = SECONDS(2),
                               .id = (uint32_t)host,
                               .patience_ns = SECONDS(1000)};
    snprintf(opts.leader, sizeof(opts.leader), "sim:0");
    snprintf(opts.address, sizeof(opts.address), "sim:%u", (uint32_t)host);
    node *n = muster_mem_array(1, sizeof(*n));
    MUSTER_ASSERT(n != NULL);
    MUSTER_ASSERT(muster_member_init(&n->member, &opts) == MUSTER_OK);
    muster_sim_start(sim, (uint32_t)host, (muster_role){&node_ops, n});
}

static int64_t no_begin(void *context, uint32_t host, muster_job *job)
{
    (void)context;
    (void)host;
    muster_job_fini(job);
    return 0;
}

static void no_end(void *context, uint32_t host, bool cancelled,
                   muster_job_result *result)
{
    (void)context;
    (void)host;
    (void)cancelled;
    result->status = MUSTER_OK;
}

static void no_reset(void *context, uint32_t host)
{
    (void)context;
    (void)host;
}

static muster_sim *start_mesh(uint64_t seed)
{
    muster_sim_opts opts = {
        .seed = seed,
        .compute = {NULL, no_begin, no_end, no_reset, NULL, NULL},
        .link = {100000, (int64_t)(seed % 3) * 5 * MUSTER_NS_PER_MS, 0},
        .duplicate = seed % 2 == 0 ? 0.05 : 0};
    muster_sim *sim = NULL;
    assert_int_equal(muster_sim_create(&opts, NODES, &sim), MUSTER_OK);
    for (uint32_t host = 0; host < NODES; host++) {
        start_node(sim, NULL, host);
    }
    return sim;
}

static const node *node_at(const muster_sim *sim, uint32_t host)
{
    return muster_sim_role(sim, host).state;
}

static void missed(uint64_t seed, uint32_t a, uint32_t b)
{
    fail_msg("seed %llu: host %u does not know host %u",
             (unsigned long long)seed, a, b);
}

static void assert_full(const muster_sim *sim, uint64_t seed)
{
    for (uint32_t a = 0; a < NODES; a++) {
        for (uint32_t b = 0; b < NODES; b++) {
            bool knows = node_at(sim, a)->here[node_at(sim, b)->member.id];
            if (a != b && !knows) {
                missed(seed, a, b);
            }
        }
    }
}

static void everybody_finds_everybody(void **state)
{
    (void)state;
    muster_sim *sim = start_mesh(1);
    muster_sim_run(sim, SECONDS(2));
    assert_full(sim, 1);
    muster_sim_free(sim);
}

static void a_dead_node_is_missed_by_all_and_a_returning_one_found(void **state)
{
    (void)state;
    muster_sim *sim = start_mesh(1);
    muster_sim_run(sim, SECONDS(2));
    muster_sim_kill(sim, 3);
    muster_sim_run(sim, SECONDS(3));
    for (uint32_t host = 0; host < NODES; host++) {
        if (host != 3) {
            assert_false(node_at(sim, host)->here[3]);
        }
    }
    start_node(sim, NULL, 3);
    muster_sim_run(sim, SECONDS(6));
    assert_full(sim, 1);
    muster_sim_free(sim);
}

static void mend(muster_sim *sim, void *context, uint64_t host)
{
    (void)context;
    muster_sim_cont(sim, (uint32_t)host);
    muster_sim_cut(sim, (uint32_t)host, false);
}

static void strike(muster_sim *sim, void *context, uint64_t value)
{
    muster_rng *rng = context;
    (void)value;
    uint32_t host = 1 + (uint32_t)muster_rng_below(rng, NODES - 1);
    int64_t later = muster_sim_now(sim) +
                    (int64_t)muster_rng_below(rng, 6000) * MUSTER_NS_PER_MS;
    switch (muster_rng_below(rng, 4)) {
    case 0:
        muster_sim_kill(sim, host);
        muster_sim_at(sim, later, start_node, NULL, host);
        break;
    case 1:
        muster_sim_stop(sim, host);
        break;
    case 2:
        muster_sim_cut(sim, host, true);
        break;
    default:
        muster_sim_break(sim, host, (uint32_t)muster_rng_below(rng, NODES));
        break;
    }
    muster_sim_at(sim, later, mend, NULL, host);
}

static void the_mesh_heals_after_any_trouble(void **state)
{
    (void)state;
    for (uint64_t seed = 0; seed < 200; seed++) {
        muster_rng rng = muster_rng_make(seed, 4);
        muster_sim *sim = start_mesh(seed);
        for (uint64_t i = muster_rng_below(&rng, 12); i > 0; i--) {
            int64_t at =
                (int64_t)muster_rng_below(&rng, 10000) * MUSTER_NS_PER_MS;
            muster_sim_at(sim, at, strike, &rng, 0);
        }
        muster_sim_run(sim, SECONDS(40));
        assert_full(sim, seed);
        muster_sim_free(sim);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(everybody_finds_everybody),
        cmocka_unit_test(
            a_dead_node_is_missed_by_all_and_a_returning_one_found),
        cmocka_unit_test(the_mesh_heals_after_any_trouble),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
