/*
 * gossip_test.c -- who is whose neighbour: both sides agree, and each mean has
 * as many models as every other, so that the mean of all models stays. Whole
 * histories are in tests/sim/algorithms_test.c.
 */
#include "role/gossip.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#define MEMBERS_MAX 33u

static muster_peers make(uint32_t count, uint32_t partners)
{
    muster_peers peers = {.seed = 7,
                          .partners = partners,
                          .members =
                              muster_vec_make(sizeof(muster_peers_member))};
    for (uint32_t i = 0; i < count; i++) {
        muster_peers_member member = {i, false};
        assert_true(muster_vec_append(&peers.members, &member, 1));
    }
    return peers;
}

/* How often each has each as its neighbour; returns how many there are. */
static uint32_t count_pairs(const muster_peers *peers, uint64_t step,
                            uint32_t times[MEMBERS_MAX][MEMBERS_MAX])
{
    uint32_t all = 0;
    for (uint32_t at = 0; at < peers->members.count; at++) {
        uint32_t order[MEMBERS_MAX];
        uint32_t neighbours[MUSTER_PARTNERS_MAX];
        uint32_t count =
            muster_gossip_neighbours(peers, step, at, order, neighbours);
        for (uint32_t i = 0; i < count; i++) {
            assert_true(neighbours[i] != at);
            times[at][neighbours[i]]++;
        }
        all += count;
    }
    return all;
}

/* Of step `step`. */
static void check_pairs(const muster_peers *peers, uint64_t step)
{
    uint32_t times[MEMBERS_MAX][MEMBERS_MAX] = {{0}};
    uint32_t count = (uint32_t)peers->members.count;
    uint32_t all = count_pairs(peers, step, times);
    for (uint32_t i = 0; i < count; i++) {
        for (uint32_t j = 0; j < count; j++) {
            assert_int_equal(times[i][j], times[j][i]);
        }
    }
    uint32_t paired = count - count % 2;
    uint32_t ring = count < 3 ? count * (count - 1) : 2 * count;
    assert_int_equal(all,
                     peers->partners == 0 ? ring : peers->partners * paired);
}

static void two_neighbours_have_each_other_equally_often(void **state)
{
    (void)state;
    for (uint32_t count = 1; count <= MEMBERS_MAX; count++) {
        for (uint32_t partners = 0; partners <= 4; partners++) {
            muster_peers peers = make(count, partners);
            for (uint64_t step = 0; step < 10; step++) {
                check_pairs(&peers, step);
            }
            muster_vec_fini(&peers.members);
        }
    }
}

/* Everybody meets everybody. */
static void partners_change_from_step_to_step(void **state)
{
    (void)state;
    muster_peers peers = make(8, 1);
    uint32_t times[MEMBERS_MAX][MEMBERS_MAX] = {{0}};
    for (uint64_t step = 0; step < 700; step++) {
        (void)count_pairs(&peers, step, times);
    }
    for (uint32_t i = 0; i < 8; i++) {
        for (uint32_t j = 0; j < 8; j++) {
            assert_true(i == j ? times[i][j] == 0
                               : times[i][j] > 60 && times[i][j] < 140);
        }
    }
    muster_vec_fini(&peers.members);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(two_neighbours_have_each_other_equally_often),
        cmocka_unit_test(partners_change_from_step_to_step),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
