/*
 * sweep.c -- when replicas are synchronised.
 *
 * All of them in turn, some every millisecond, so that no step takes long and
 * messages are handled between: once in a period, which is short while there
 * are few, and doubles after every turn that found no change here. Those that
 * were not changed here come in every fourth turn only, or more often where a
 * turn takes long: none waits for more than sync_ns.
 *
 * Where the driver's thread wakes late, workers have its processor; where ticks
 * come very late, it is busy. Then the pace is slower, periods and budgets are
 * longer.
 *
 * And those that workers ask for, because much of their budget is used. Asks
 * gather for a millisecond, so that they share messages, unless one is
 * urgent because hardly anything is left.
 */
#include "ps/protocol/inside.h"
#include "ps/protocol/prefetch.h"

#define TICK_NS   1000000ll
#define GATHER_NS 1000000ll
#define SLICE_MAX 2048u

#define PERIOD_MIN_NS         1000000ll
#define PERIOD_PER_REPLICA_NS 200ll // at pace 1
#define PERIOD_PER_KIB_NS     1200ll
#define IDLE_TURNS_MAX        20u
#define CLEAN_TURNS           4 // periods between those of a clean replica

#define PACE_MAX     8u
#define LATE_NS      250000  // wakes: slower
#define IN_TIME_NS   150000  // faster
#define BUSY_NS      2000000 // ticks: slower
#define FREE_NS      1000000 // faster
#define LATENESS_OLD 15      // of 16: what earlier ones count

static int64_t smaller(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

static int64_t larger(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

/* The time of one turn at this pace, after so many idle ones. */
static int64_t period_at(const muster_protocol *node, uint32_t pace,
                         uint32_t idle)
{
    int64_t work = (int64_t)node->replicas.all.count * PERIOD_PER_REPLICA_NS +
                   (int64_t)(node->replicas.bytes / 1024) * PERIOD_PER_KIB_NS;
    int64_t period = larger(work * pace, PERIOD_MIN_NS);
    return period < node->opts.sync_ns >> idle ? period << idle
                                               : node->opts.sync_ns;
}

/* The time of this turn. */
static int64_t period_ns(const muster_protocol *node)
{
    const muster_sweep *sweep = &node->replicas.sweep;
    return period_at(node, sweep->pace, sweep->idle_turns);
}

/* When the next slice is due, if this one was now. */
static int64_t next_ns(const muster_protocol *node)
{
    uint32_t count = (uint32_t)node->replicas.all.count;
    return count == 0 ? INT64_MAX
                      : node->step.now_ns +
                            larger(smaller(TICK_NS, node->opts.sync_ns),
                                   period_ns(node) / count);
}

void muster_sweep_soon(muster_protocol *node)
{
    muster_sweep *sweep = &node->replicas.sweep;
    sweep->idle_turns = 0;
    sweep->due_ns = smaller(sweep->due_ns, next_ns(node));
}

int64_t muster_sweep_due_ns(const muster_protocol *node)
{
    const muster_sweep *sweep = &node->replicas.sweep;
    return sweep->asked.count > 0 ? smaller(sweep->due_ns, sweep->ask_due_ns)
                                  : sweep->due_ns;
}

void muster_protocol_ask_sync(muster_protocol *node, int64_t now_ns,
                              muster_rowref ref, bool urgent)
{
    muster_sweep *sweep = &node->replicas.sweep;
    uint32_t index = muster_map_find(&node->replicas.index, ref);
    muster_replica *all = node->replicas.all.data;
    if (index == MUSTER_MAP_NONE || all[index].syncing) {
        return;
    }
    if (urgent) {
        sweep->ask_due_ns = now_ns;
    } else if (sweep->asked.count == 0) {
        sweep->ask_due_ns = larger(now_ns, sweep->asked_ns + GATHER_NS);
    }
    // Without memory for the list the replica waits for its turn.
    all[index].asked =
        all[index].asked || muster_vec_append(&sweep->asked, &ref, 1);
}

/* Synchronise the replicas that were asked for. */
static void sync_asked(muster_protocol *node)
{
    muster_sweep *sweep = &node->replicas.sweep;
    const muster_rowref *asked = sweep->asked.data;
    for (size_t i = 0; i < sweep->asked.count && !node->failed; i++) {
        uint32_t index = muster_map_find(&node->replicas.index, asked[i]);
        if (index != MUSTER_MAP_NONE) {
            ((muster_replica *)node->replicas.all.data)[index].asked = false;
            muster_replica_sync_one(node, index, true);
        }
    }
    muster_vec_clear(&sweep->asked);
    sweep->asked_ns = node->step.now_ns;
}

/* How many replicas have their turn now. */
static uint32_t slice_of(const muster_protocol *node)
{
    double passed =
        (double)(node->step.now_ns - node->replicas.sweep.looked_ns);
    double count = (double)node->replicas.all.count;
    double slice = 1 + count * passed / (double)period_ns(node);
    slice = slice < count ? slice : count;
    return slice < SLICE_MAX ? (uint32_t)slice : SLICE_MAX;
}

static void add_late(int64_t *mean_ns, int64_t late_ns)
{
    *mean_ns = (*mean_ns * LATENESS_OLD + late_ns) / (LATENESS_OLD + 1);
}

void muster_protocol_note_wake(muster_protocol *node, int64_t late_ns)
{
    add_late(&node->replicas.sweep.wake_late_ns, late_ns);
}

/* The pace of the next turn: is there time for more? */
static uint32_t next_pace(const muster_sweep *sweep)
{
    bool late = sweep->wake_late_ns > LATE_NS || sweep->tick_late_ns > BUSY_NS;
    bool in_time =
        sweep->wake_late_ns < IN_TIME_NS && sweep->tick_late_ns < FREE_NS;
    if (late && sweep->pace < PACE_MAX) {
        return sweep->pace * 2;
    }
    return in_time && sweep->pace > 1 ? sweep->pace / 2 : sweep->pace;
}

/* The idle turns before the next one, if no change is found any more. */
static uint32_t next_idle(const muster_sweep *sweep)
{
    if (sweep->changed) {
        return 0;
    }
    return sweep->idle_turns + (sweep->idle_turns < IDLE_TURNS_MAX);
}

/* A turn has ended. */
static void end_turn(muster_sweep *sweep, int64_t now_ns)
{
    sweep->idle_turns = next_idle(sweep);
    sweep->pace = next_pace(sweep);
    sweep->changed = false;
    sweep->turn_ns = now_ns;
    sweep->next = 0;
}

/* Prefetch words, rows and bases of the replicas that follow replica i. */
static void prefetch_replicas(const muster_protocol *node, uint32_t i)
{
    const muster_replica *replicas = node->replicas.all.data;
    size_t left = node->replicas.all.count - i;
    if (left > MUSTER_PROTOCOL_WORDS_AHEAD) {
        muster_protocol_prefetch_word(
            node, replicas[i + MUSTER_PROTOCOL_WORDS_AHEAD].ref);
    }
    if (left > MUSTER_PROTOCOL_ROWS_AHEAD) {
        const muster_replica *next = &replicas[i + MUSTER_PROTOCOL_ROWS_AHEAD];
        const muster_ps_table *rows =
            node->opts.tables[muster_rowref_table(next->ref)];
        muster_protocol_prefetch_row(node, next->ref);
        muster_ps_table_prefetch_row(rows, next->base_slot);
    }
}

/* The longest time until the next turn comes to the same replica. */
static int64_t longest_ns(const muster_protocol *node)
{
    const muster_sweep *sweep = &node->replicas.sweep;
    return larger(period_ns(node),
                  period_at(node, next_pace(sweep), next_idle(sweep)));
}

/* Did the owner's row come not long ago, in an earlier turn or because workers
 * asked for it? A replica that was not changed here lacks only what others
 * changed. None is left out if its next turn would come too late. */
static bool is_fresh(const muster_protocol *node, const muster_replica *replica,
                     bool changed)
{
    int64_t age = node->step.now_ns - replica->received_ns;
    int64_t period = period_ns(node);
    int64_t clean = smaller(CLEAN_TURNS * period, node->opts.sync_ns);
    return !replica->unwanted &&
           age < (changed ? period : clean) - period / 2 &&
           age + longest_ns(node) <= node->opts.sync_ns;
}

/* The turn of the next replica; one that is fresh needs none. */
static void sweep_one(muster_protocol *node)
{
    muster_sweep *sweep = &node->replicas.sweep;
    const muster_replica *replica =
        (muster_replica *)node->replicas.all.data + sweep->next;
    prefetch_replicas(node, sweep->next);
    bool changed = muster_replica_has_changed(node, sweep->next);
    sweep->changed |= changed;
    if (is_fresh(node, replica, changed)) {
        sweep->next++;
        return;
    }
    sweep->next += muster_replica_look_at(node, sweep->next, true);
}

static void sweep_slice(muster_protocol *node)
{
    muster_sweep *sweep = &node->replicas.sweep;
    add_late(&sweep->tick_late_ns, node->step.now_ns - sweep->due_ns);
    uint32_t left = slice_of(node);
    while (left > 0 && sweep->next < node->replicas.all.count &&
           !node->failed) {
        sweep_one(node);
        left--;
    }
    if (sweep->next >= node->replicas.all.count) {
        end_turn(sweep, node->step.now_ns);
    }
    sweep->looked_ns = node->step.now_ns;
    sweep->due_ns = next_ns(node);
}

void muster_sweep_due(muster_protocol *node)
{
    const muster_sweep *sweep = &node->replicas.sweep;
    if (sweep->asked.count > 0 && node->step.now_ns >= sweep->ask_due_ns) {
        sync_asked(node);
    }
    if (node->step.now_ns >= sweep->due_ns) {
        sweep_slice(node);
    }
}

void muster_sweep_all(muster_protocol *node, bool all)
{
    for (uint32_t i = 0; i < node->replicas.all.count && !node->failed;) {
        prefetch_replicas(node, i);
        i += muster_replica_look_at(node, i, all);
    }
}
