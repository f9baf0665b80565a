/*
 * period.c -- when each replica is synchronised next.
 *
 * A replica has a period of its own. It is short enough that a quarter of the
 * replica's budget is written in it: then workers hardly ever meet a replica
 * whose budget is spent, which costs them a round trip. It doubles when no
 * replica was written here, up to sync_ns. While there are few replicas,
 * changed ones are synchronised more often than that: one costs both ends less
 * than a microsecond.
 *
 * What the synchronisation costs is estimated from its rows. When it takes more
 * than 15 % of a processor, all periods are stretched.
 */
#include "base/assert.h"
#include "ps/protocol/inside.h"

#define PERIOD_MIN_NS         1000000ll
#define PERIOD_PER_REPLICA_NS 10000ll
#define BUDGET_SHARE          4 // of the budget, in one period
#define EARLY_SHARE           8 // of the period: a replica may go so early
#define ROW_NS                400
#define FLOAT_NS              1
#define LOAD_MAX              0.15 // of a processor
#define STRETCH_MAX           64.0

static int64_t smaller(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

static int64_t larger(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

/* The period of replicas that change, whatever their budget, while there are
 * few. */
static int64_t period_of_few(const muster_protocol *node)
{
    int64_t period = (int64_t)node->replicas.all.count * PERIOD_PER_REPLICA_NS;
    return smaller(larger(period, PERIOD_MIN_NS), node->opts.sync_ns);
}

static int64_t *due_of(const muster_protocol *node, uint32_t index)
{
    MUSTER_ASSERT(index < node->replicas.due.count);
    return (int64_t *)node->replicas.due.data + index;
}

/* Synchronise replica `index` in `wait_ns`, and look for it then. */
static void plan(muster_protocol *node, uint32_t index, int64_t wait_ns)
{
    int64_t due = node->step.now_ns + wait_ns;
    *due_of(node, index) = due;
    node->replicas.due_ns = smaller(node->replicas.due_ns, due);
}

bool muster_period_add(muster_protocol *node, muster_replica *replica)
{
    int64_t none = INT64_MAX;
    replica->period_ns = period_of_few(node);
    replica->sent_ns = node->step.now_ns;
    return muster_vec_append(&node->replicas.due, &none, 1);
}

void muster_period_remove(muster_protocol *node, uint32_t index)
{
    int64_t *due = node->replicas.due.data;
    uint32_t last = (uint32_t)--node->replicas.due.count;
    due[index] = due[last];
}

void muster_period_soon(muster_protocol *node, uint32_t index)
{
    plan(node, index, smaller(PERIOD_MIN_NS, node->opts.sync_ns));
}

/* The time in which a share of the budget is written. */
static int64_t period_by_writes(const muster_protocol *node,
                                const muster_replica *replica)
{
    double elapsed =
        (double)larger(node->step.now_ns - replica->sent_ns, PERIOD_MIN_NS);
    double writes = replica->synced_writes > 0 ? replica->synced_writes : 1;
    double budget = replica->budget / (double)BUDGET_SHARE;
    double period = elapsed * budget / writes * node->replicas.stretch;
    double max = (double)node->opts.sync_ns;
    return period < max ? (int64_t)period : node->opts.sync_ns;
}

void muster_period_sent(muster_protocol *node, uint32_t index, bool dirty,
                        bool due)
{
    muster_replica *replica = (muster_replica *)node->replicas.all.data + index;
    int64_t sync_ns = node->opts.sync_ns;
    if (dirty) {
        node->replicas.changed_ns = node->step.now_ns;
        int64_t period =
            smaller(period_by_writes(node, replica), period_of_few(node));
        replica->period_ns = smaller(larger(period, PERIOD_MIN_NS), sync_ns);
    } else if (due && node->replicas.changed_ns > replica->sent_ns) {
        // Where others change, this one may at any moment.
        replica->period_ns = period_of_few(node);
    } else if (due) {
        replica->period_ns = smaller(2 * replica->period_ns, sync_ns);
    }
    replica->sent_ns = node->step.now_ns;
    plan(node, index, replica->period_ns);
    const muster_ps_table *rows =
        node->opts.tables[muster_rowref_table(replica->ref)];
    node->replicas.cost_ns += ROW_NS + FLOAT_NS * (int64_t)rows->floats;
}

uint32_t muster_period_next(const muster_protocol *node, uint32_t from)
{
    const int64_t *due = node->replicas.due.data;
    const muster_replica *all = node->replicas.all.data;
    uint32_t count = (uint32_t)node->replicas.due.count;
    int64_t now = node->step.now_ns;
    int64_t until = now + node->opts.sync_ns / EARLY_SHARE;
    uint32_t i = from;
    while (i < count &&
           (due[i] > until || due[i] > now + all[i].period_ns / EARLY_SHARE)) {
        i++;
    }
    return i;
}

/* Stretch or shorten the periods by what the last ones have cost. */
static void weigh_load(muster_replicas *replicas, int64_t now_ns)
{
    int64_t passed = now_ns - replicas->looked_ns;
    double load = passed > 0 ? (double)replicas->cost_ns / (double)passed : 0;
    double stretch = replicas->stretch * (load > LOAD_MAX ? 1.1 : 0.95);
    stretch = stretch < 1 ? 1 : stretch;
    replicas->stretch = stretch < STRETCH_MAX ? stretch : STRETCH_MAX;
    replicas->cost_ns = 0;
    replicas->looked_ns = now_ns;
}

void muster_period_looked(muster_protocol *node)
{
    muster_replicas *replicas = &node->replicas;
    const int64_t *due = replicas->due.data;
    int64_t next = INT64_MAX;
    for (size_t i = 0; i < replicas->due.count; i++) {
        next = smaller(next, due[i]);
    }
    weigh_load(replicas, node->step.now_ns);
    int64_t soonest =
        node->step.now_ns + smaller(PERIOD_MIN_NS, node->opts.sync_ns);
    replicas->due_ns = larger(next, soonest);
}
