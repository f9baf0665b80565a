/*
 * budget.c -- how often a replica may be written until the owner's row comes,
 * and in damped tables how much of its delta counts.
 *
 * Deltas that n nodes compute from one old row add up. Where each of them goes
 * a share f of the way to where the row should be, the sum goes n f of it: the
 * error is multiplied by 1 - n f, and beyond n f = 2 it grows without a bound.
 *
 * How far a node goes shows in its next delta. A merge moves the row by what
 * others changed, o. If that was too much, the writes after it undo a share f
 * of it: the delta d has the component -f o. So -<d, o> / |o|^2 estimates f,
 * and divided by the number w of those writes the share q of one write. Writes
 * that were made before the merge know nothing of o and are left out.
 *
 * The rest of d is noise to this estimate: its deviation is about
 * |d| / (|o| w sqrt(width)). Estimates are weighed by their precision, old ones
 * fade, and q is taken to be what it is at least, by CONFIDENCE deviations. So
 * rows that are far from their goal, or whose changes are noise, show no q.
 *
 * The budget is such that n q budget <= SAFE. Within that it doubles up to the
 * usual one, which the pace of the sweep sets. Beyond that it grows while most
 * of it is used before the owner's row comes, so that workers do not wait, and
 * shrinks when little is.
 *
 * First steps are the largest, those of adagrad above all, whose size falls
 * with the number of writes that a node knows of. So the budget is also limited
 * by the writes made here so far, the more so the more nodes there are.
 *
 * In a damped table nobody waits: a replica is synchronised after some writes,
 * and may be written on meanwhile. There f is measured, not q, since a node may
 * go all the way between two synchronisations. One node after the other would
 * multiply the error by (1 - f)^n. So a share s of each delta counts such that
 * n s f = 1 - (1 - f)^n: the whole where f is small, the mean where f is 1.
 * Rows of adagrad need no such measure: their deltas are sums of gradients,
 * which the owner divides by the squares of all nodes (ps/store/delta.h).
 */
#include <math.h>

#include "ps/protocol/inside.h"

#define SAFE       1.0f
#define KEEP       0.9f // of what was seen before
#define CONFIDENCE 1.5f
#define BUDGET_MIN 2u
#define BUDGET_MAX (3u << 18)
#define FIRST      16.0f // of all nodes together
#define USUAL_MIN  12u
#define SO_FAR     2.0f // the same, of the writes made here so far
#define SO_FAR_MAX 0.75f

// Damped tables: a replica is never spent. A worker asks for a synchronisation
// when a power of two is left (muster_word_asks), after ASK_MIN to ASK_MAX
// writes: as many as half of those made here so far.
#define SHARE_MIN 0.01f // below that deltas count whole
#define ASK_MIN   4u
#define ASK_MAX   32u
#define LEFT      (1u << 26)

/* The largest budget that is not above `max`: 2, 4, or 3 * 2^k. A worker sees
 * in the word alone when it has to ask for a synchronisation: at the first
 * write of a power of two, when a third is used of others (muster_word_asks).
 */
static uint32_t rounded(float max)
{
    if (max < 6) {
        return max < 4 ? BUDGET_MIN : 4;
    }
    uint32_t budget = 6;
    while (budget < BUDGET_MAX && 2 * (float)budget <= max) {
        budget *= 2;
    }
    return budget;
}

static const muster_ps_table *table_of(const muster_protocol *node,
                                       const muster_replica *replica)
{
    return node->opts.tables[muster_rowref_table(replica->ref)];
}

/* The budget of a new replica whose delta counts whole. */
static uint32_t first_of(const muster_protocol *node)
{
    // A power of two: workers ask at the first write.
    float first = FIRST / (float)node->opts.nodes;
    return first < 4 ? 2 : first < 8 ? 4 : 8;
}

/* The budget of a damped replica, which was written so often so far. */
static uint32_t damped_budget(uint32_t writes)
{
    uint32_t ask = writes / 2;
    ask = ask < ASK_MIN ? ASK_MIN : ask < ASK_MAX ? ask : ASK_MAX;
    return LEFT + ask;
}

uint32_t muster_budget_first(const muster_protocol *node, uint32_t table)
{
    return node->opts.tables[table]->damped ? damped_budget(0) : first_of(node);
}

void muster_budget_note_merge(muster_replica *replica,
                              muster_delta_merged merged)
{
    replica->others_norm2 = merged.others_norm2;
    replica->unsent_along = merged.along;
}

void muster_budget_note_delta(const muster_protocol *node,
                              muster_replica *replica, muster_delta_taken taken)
{
    const muster_ps_table *table = table_of(node, replica);
    // Of a damped replica the share of all writes together is measured.
    float writes = table->damped && replica->counted_writes > 0
                       ? 1
                       : (float)replica->counted_writes;
    if (writes > 0 && replica->others_norm2 > 0 && taken.norm2 > 0) {
        float weight = writes * (float)table->width / taken.norm2;
        float back = replica->unsent_along - taken.along;
        float undone = KEEP * replica->undone + weight * back;
        replica->undone = undone > 0 ? undone : 0;
        replica->precision =
            KEEP * replica->precision + weight * writes * replica->others_norm2;
    }
    replica->others_norm2 = 0;
}

/* The share of the way that one write goes, or in a damped table all of them,
 * less so many deviations. */
static float share_of(const muster_replica *replica, float deviations)
{
    return replica->precision > 0 ? replica->undone / replica->precision -
                                        deviations / sqrtf(replica->precision)
                                  : 0;
}

float muster_budget_damping(const muster_protocol *node,
                            const muster_replica *replica)
{
    float nodes = (float)node->opts.nodes;
    float share = share_of(replica, 0);
    share = share < 1 ? share : 1;
    return share < SHARE_MIN ? 1
                             : (1 - powf(1 - share, nodes)) / (nodes * share);
}

void muster_budget_set(const muster_protocol *node, muster_replica *replica,
                       uint32_t used)
{
    if (table_of(node, replica)->damped) {
        replica->budget = damped_budget(replica->all_writes);
        return;
    }
    float share = share_of(replica, CONFIDENCE);
    uint32_t pace = node->replicas.sweep.pace;
    float max = (float)replica->budget;
    uint32_t usual = USUAL_MIN * pace;
    if (replica->budget < usual || used >= replica->budget / 3 * 2) {
        max *= 2;
    } else if (replica->budget > usual && used < replica->budget / 8) {
        max /= 2;
    }
    float nodes = (float)node->opts.nodes;
    float part = SO_FAR / nodes < SO_FAR_MAX ? SO_FAR / nodes : SO_FAR_MAX;
    float so_far = part * (float)replica->all_writes;
    max = so_far < max ? so_far : max;
    uint32_t first = first_of(node);
    uint32_t budget = so_far < (float)first ? first : rounded(max);
    if (share > 0) {
        uint32_t safe = rounded(SAFE / (nodes * share));
        budget = safe < budget ? safe : budget;
    }
    replica->budget = budget;
}
