/*
 * budget.c -- how often a replica may be written until the owner's row comes.
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

uint32_t muster_budget_first(const muster_protocol *node)
{
    // A power of two: workers ask at the first write.
    float first = FIRST / (float)node->opts.nodes;
    return first < 4 ? 2 : first < 8 ? 4 : 8;
}

void muster_budget_note_merge(muster_replica *replica,
                              muster_delta_merged merged)
{
    replica->others_norm2 = merged.others_norm2;
    replica->unsent_along = merged.along;
}

void muster_budget_note_delta(muster_replica *replica, muster_delta_taken taken,
                              muster_delta_shape shape)
{
    float writes = (float)replica->counted_writes;
    if (writes > 0 && replica->others_norm2 > 0 && taken.norm2 > 0) {
        float weight = writes * (float)shape.width / taken.norm2;
        float back = replica->unsent_along - taken.along;
        float undone = KEEP * replica->undone + weight * back;
        replica->undone = undone > 0 ? undone : 0;
        replica->precision =
            KEEP * replica->precision + weight * writes * replica->others_norm2;
    }
    replica->others_norm2 = 0;
}

/* The share of the way that one write goes, at least. */
static float share_of(const muster_replica *replica)
{
    return replica->precision > 0 ? replica->undone / replica->precision -
                                        CONFIDENCE / sqrtf(replica->precision)
                                  : 0;
}

void muster_budget_set(const muster_protocol *node, muster_replica *replica,
                       uint32_t used)
{
    float share = share_of(replica);
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
    uint32_t first = muster_budget_first(node);
    uint32_t budget = so_far < (float)first ? first : rounded(max);
    if (share > 0) {
        uint32_t safe = rounded(SAFE / (nodes * share));
        budget = safe < budget ? safe : budget;
    }
    replica->budget = budget;
}
