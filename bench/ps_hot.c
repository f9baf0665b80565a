/*
 * ps_hot.c -- rows that two nodes pull and push without asking for them: half
 * of all accesses go to 20 keys of 10,000. What share of these needs another
 * node, from a second after the set was chosen on, and after it was changed.
 */
#include <math.h>

#include "base/clock.h"
#include "base/rng.h"
#include "bench_ps.h"
#include "ps/node/inside.h"

enum { KEYS = 10000, HOT = 20 };

/* Access rows for `seconds`, hot ones from `first` on; the share of the hot
 * accesses that went to another node. */
static double access_rows(bench_node *n, muster_rng *rng, uint32_t first,
                          double seconds)
{
    float row[BENCH_ROW_WIDTH] = {0};
    int64_t end = muster_clock_ns() + (int64_t)(seconds * 1e9);
    uint64_t hot_count = 0;
    uint64_t remote = 0;
    while (muster_clock_ns() < end) {
        bool hot = muster_rng_below(rng, 2) == 0;
        uint32_t key = hot ? first + (uint32_t)muster_rng_below(rng, HOT)
                           : (uint32_t)muster_rng_below(rng, KEYS);
        uint64_t before = n->worker->counts.remote_accesses;
        bench_check(muster_ps_pull(n->worker, 0, &key, 1, row));
        bench_check(muster_ps_push(n->worker, 0, &key, 1, row));
        hot_count += hot ? 2 : 0;
        remote += hot ? n->worker->counts.remote_accesses - before : 0;
    }
    return hot_count > 0 ? (double)remote / (double)hot_count : NAN;
}

static void *mesh_hot(void *argument)
{
    bench_node *n = argument;
    muster_rng rng = muster_rng_make(1, n->node);
    n->manage = MUSTER_PS_AUTO;
    bench_mesh_open(n, NULL);
    bench_check(muster_ps_barrier(n->worker));
    for (uint32_t set = 0; set < 2; set++) {
        uint32_t first = 100 + 5000 * set;
        (void)access_rows(n, &rng, first, 1);
        n->figures[set] = access_rows(n, &rng, first, 1);
    }
    bench_check(muster_ps_barrier(n->worker));
    muster_ps_worker_free(n->worker);
    muster_ps_free(n->ps);
    return NULL;
}

void bench_hot(const bench_ps *b)
{
    bench_node n = bench_mesh_run(b, NULL, NULL, mesh_hot);
    bench_report(b, "hot_plain_remote", n.figures[0], "share", "bound", 0.05);
    bench_report(b, "hot_plain_changed_remote", n.figures[1], "share", "bound",
                 0.05);
}
