/*
 * barrier.c -- barriers: after one until SEEN, the workers of all nodes see
 * each other's updates. Also: is a node at rest?
 *
 * A node goes through these states:
 *
 *   NONE        -> FLUSHING    all workers of the node wait at the barrier
 *   FLUSHING    -> WAITING     no replica has a delta, no request is open (MET
 *                              does not wait for that): BARRIER goes to the
 *                              lead
 *   WAITING     -> DRAINING    the lead received BARRIER from all members and
 *                              sent RELEASE
 *   DRAINING    -> REFRESHING  answers that were requested before RELEASE, and
 *                              rows that arrive, have come: they may be old
 *   REFRESHING  -> NONE        all replicas have fetched their owners' rows
 *
 * STORED and MET end with RELEASE: WAITING -> NONE. Deltas are sent at each of
 * them, where no SYNC is under way; what MET leaves, the next one of another
 * kind waits for.
 *
 * Every node has flushed before it sends BARRIER (not with MET). So a row that
 * is fetched after RELEASE contains all updates from before the barrier. The
 * lead waits for members only, and RELEASE names them, so that all nodes agree
 * on them. During a change of membership the barrier makes no progress.
 */
#include "base/assert.h"
#include "ps/protocol/inside.h"

/* No SYNC and no request of this node is under way. */
static bool nothing_under_way(const muster_protocol *node)
{
    return node->replicas.syncing == 0 && node->requests.open == 0;
}

/* Does a replica have a delta that was not sent? Called when all workers wait
 * at the barrier, so that their last writes are visible, also those that they
 * made unlatched. */
static bool has_deltas(const muster_protocol *node)
{
    const muster_replica *replicas = node->replicas.all.data;
    for (size_t i = 0; i < node->replicas.all.count; i++) {
        const muster_ps_table *table =
            node->opts.tables[muster_rowref_table(replicas[i].ref)];
        uint64_t word = atomic_load_explicit(
            &table->words[muster_rowref_key(replicas[i].ref)],
            memory_order_relaxed);
        if (word & MUSTER_WORD_DIRTY) {
            return true;
        }
    }
    return false;
}

muster_status muster_protocol_barrier(muster_protocol *node, int64_t now_ns,
                                      muster_ps_until until,
                                      muster_protocol_out *out)
{
    MUSTER_ASSERT(node->barrier.state == MUSTER_BARRIER_NONE);
    node->barrier.until = until;
    node->barrier.number++;
    node->barrier.state = MUSTER_BARRIER_FLUSHING;
    muster_protocol_begin(node, now_ns, out);
    if (!muster_protocol_paused(node)) {
        muster_sweep_all(node, false);
    }
    return muster_protocol_end(node);
}

static void send_barrier(muster_protocol *node)
{
    muster_rowmsg here = {.kind = MUSTER_ROWMSG_BARRIER,
                          .origin = node->opts.node,
                          .request = node->barrier.number};
    muster_membership_add_updates(node, &here);
    node->barrier.state = MUSTER_BARRIER_WAITING;
    muster_draft_control(node, 0, &here);
}

static void pass(muster_protocol *node)
{
    node->barrier.state = MUSTER_BARRIER_NONE;
    node->step.out->released++;
    node->step.out->met = node->barrier.members;
}

void muster_protocol_barrier_step(muster_protocol *node)
{
    if (muster_protocol_paused(node)) {
        return;
    }
    if (node->barrier.state == MUSTER_BARRIER_FLUSHING &&
        (node->barrier.until == MUSTER_PS_MET || nothing_under_way(node))) {
        if (node->barrier.until != MUSTER_PS_MET && has_deltas(node)) {
            muster_sweep_all(node, false);
            return;
        }
        send_barrier(node);
    }
    // A replica that arrives may have left its owner before the others flushed.
    // It must be here to be refreshed.
    if (node->barrier.state == MUSTER_BARRIER_DRAINING &&
        nothing_under_way(node) && node->arriving.count == 0) {
        node->barrier.state = MUSTER_BARRIER_REFRESHING;
        muster_sweep_all(node, true);
    }
    if (node->barrier.state == MUSTER_BARRIER_REFRESHING &&
        nothing_under_way(node)) {
        pass(node);
    }
}

/* The lead: release the barrier when every member has reached it. */
static void release_if_all_arrived(muster_protocol *node)
{
    for (uint16_t i = 0; i < node->opts.nodes; i++) {
        if (muster_protocol_is_member(node, i) &&
            node->barrier.arrived[i] == 0) {
            return;
        }
    }
    muster_rowmsg release = {.kind = MUSTER_ROWMSG_RELEASE,
                             .origin = node->opts.node,
                             .request = node->barrier.number,
                             .mask = node->membership.members};
    for (uint16_t i = 0; i < node->opts.nodes; i++) {
        if (muster_protocol_is_member(node, i)) {
            node->barrier.arrived[i]--;
            muster_draft_control(node, i, &release);
        }
    }
}

void muster_protocol_on_barrier(muster_protocol *node,
                                const muster_rowmsg *message)
{
    if (node->opts.node != 0) {
        node->counters.violations++;
        return;
    }
    node->barrier.arrived[message->origin]++;
    muster_membership_on_updates(node, message);
    if (!muster_protocol_paused(node)) {
        release_if_all_arrived(node);
    }
}

void muster_protocol_on_release(muster_protocol *node,
                                const muster_rowmsg *message)
{
    if (node->barrier.state != MUSTER_BARRIER_WAITING || message->from != 0 ||
        message->request != node->barrier.number ||
        (message->mask >> node->opts.node & 1) == 0 ||
        (message->mask & ~muster_membership_all(node)) != 0) {
        node->counters.violations++;
        return;
    }
    node->barrier.members = message->mask;
    if (node->barrier.until == MUSTER_PS_SEEN) {
        node->barrier.state = MUSTER_BARRIER_DRAINING;
    } else {
        pass(node);
    }
}

void muster_protocol_barrier_resume(muster_protocol *node)
{
    // Answers to the refresh may have been lost: refresh again.
    if (node->barrier.state == MUSTER_BARRIER_REFRESHING) {
        node->barrier.state = MUSTER_BARRIER_DRAINING;
    }
    if (node->opts.node == 0) {
        release_if_all_arrived(node);
    }
}

bool muster_protocol_idle(const muster_protocol *node)
{
    return nothing_under_way(node) && node->arriving.count == 0 &&
           node->barrier.state == MUSTER_BARRIER_NONE &&
           !muster_protocol_paused(node) && !has_deltas(node);
}
