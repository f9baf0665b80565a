/*
 * change.c -- a change of membership: from one set of members to another.
 *
 * The lead numbers every change (epoch) and orders the members through phases
 * with PHASE messages:
 *
 *   PAUSE    members ignore the lost nodes, assign homes anew, and request no
 *            rows
 *   REPORT   members withdraw rows that can never arrive; they report owned
 *            rows to new homes, and replicas to all homes (recovery.c)
 *   SETTLE   homes give every row without an owner a new one
 *
 * A phase is over when no message about rows is under way between members. The
 * lead finds that out by counting: each member answers PHASE with COUNT, the
 * number of messages that it sent to members and received from them. The lead
 * repeats this in rounds until two rounds in a row have the same sums, and as
 * many were received as sent. In a phase a node sends only in answer to a
 * message, so no message was under way between the end of the first of these
 * rounds and the beginning of the second, and none can follow.
 *
 * RESUME ends the change. When a node is lost during a change, the lead begins
 * the next one, from PAUSE; members may do a phase twice.
 */
#include "base/assert.h"
#include "ps/protocol/inside.h"

/* `request` of PHASE and COUNT: the last epoch that was resumed (32 bits),
 * phase (8), round (24). */
#define ROUND_BITS 24u

static uint64_t round_id(const muster_membership_change *change)
{
    return (uint64_t)change->lead.resumed_epoch << 32 |
           (uint64_t)change->lead.phase << ROUND_BITS |
           (change->lead.round & ((1u << ROUND_BITS) - 1));
}

static void order_phase(muster_protocol *node, uint64_t value)
{
    muster_membership_change *change = &node->change;
    muster_rowmsg order = {.kind = MUSTER_ROWMSG_PHASE,
                           .epoch = change->lead.epoch,
                           .request = round_id(change),
                           .mask = change->lead.members,
                           .value = value};
    change->lead.answered = 0;
    change->lead.counts.sent = 0;
    change->lead.counts.received = 0;
    for (uint16_t i = 0; i < node->opts.nodes; i++) {
        if (change->lead.members >> i & 1) {
            muster_draft_control(node, i, &order);
        }
    }
}

void muster_membership_change_begin(muster_protocol *node, uint64_t members,
                                    uint64_t value)
{
    MUSTER_ASSERT(node->opts.node == 0 && (members & 1) != 0);
    muster_membership_change *change = &node->change;
    uint64_t lost = change->lead.members & ~members;
    muster_rowmsg expel = {.kind = MUSTER_ROWMSG_EXPEL};
    for (uint16_t i = 0; i < node->opts.nodes; i++) {
        if (lost >> i & 1) {
            change->lead.lost_updates += node->links[i].updates;
            muster_draft_control(node, i, &expel);
        }
    }
    change->lead.members = members;
    change->lead.epoch++;
    change->lead.phase = MUSTER_PHASE_PAUSE;
    change->lead.round = 1;
    change->lead.has_previous = false;
    change->lead.value = value;
    order_phase(node, value);
}

/* Begin a change: tell the host which nodes joined and which were lost. */
static void enter_epoch(muster_protocol *node, const muster_rowmsg *order)
{
    uint64_t joined = order->mask & ~node->membership.members;
    uint64_t lost = node->membership.members & ~order->mask;
    if (muster_protocol_paused(node) &&
        node->change.epoch == (uint32_t)(order->request >> 32)) {
        // This order overtook RESUME.
        muster_recovery_commit_homes(node);
    }
    node->change.epoch = order->epoch;
    node->change.phase = MUSTER_PHASE_PAUSE;
    node->membership.members = order->mask;
    if (node->opts.joins) {
        node->opts.joins = false;
        node->membership.join_note = (uint32_t)order->value;
        node->barrier.number = order->value >> 32;
        joined = 0;
        for (uint16_t i = 0; i < node->opts.nodes; i++) {
            node->links[i].last_seen_ns = node->step.now_ns;
        }
    }
    for (uint16_t i = 0; i < node->opts.nodes; i++) {
        muster_membership_news news = {.node = i};
        if (joined >> i & 1) {
            news.kind = MUSTER_NEWS_JOINED;
            if (node->opts.node != 0) {
                node->links[i] =
                    (muster_node_link){.last_seen_ns = node->step.now_ns};
            }
            muster_protocol_add_news(node, &news);
        } else if (lost >> i & 1) {
            news.kind = MUSTER_NEWS_LOST;
            news.cause = (muster_loss_cause)order->value;
            node->barrier.arrived[i] = 0;
            muster_protocol_add_news(node, &news);
        }
    }
    muster_recovery_enter(node);
}

static void send_counts(muster_protocol *node, const muster_rowmsg *order)
{
    muster_rowmsg counts = {.kind = MUSTER_ROWMSG_COUNT,
                            .origin = node->opts.node,
                            .epoch = order->epoch,
                            .request = order->request};
    for (uint16_t i = 0; i < node->opts.nodes; i++) {
        if (i != node->opts.node && muster_protocol_is_member(node, i)) {
            counts.mask += node->links[i].counted_out;
            counts.value += node->links[i].counted_in;
        }
    }
    muster_draft_control(node, 0, &counts);
}

/* While it is not ready, the lead waits for this node's COUNT; heartbeats go
 * on. */
static bool host_is_ready(muster_protocol *node)
{
    return node->opts.prepared == NULL || !muster_recovery_needs_host(node) ||
           node->opts.prepared(node->opts.host);
}

void muster_membership_change_tick(muster_protocol *node)
{
    muster_rowmsg order = node->change.postponed;
    if (order.kind == MUSTER_ROWMSG_PHASE) {
        node->change.postponed = (muster_rowmsg){.count = 0};
        muster_protocol_on_phase(node, &order);
    }
}

void muster_protocol_on_phase(muster_protocol *node,
                              const muster_rowmsg *message)
{
    muster_membership_change *change = &node->change;
    uint32_t phase = (uint32_t)message->request >> ROUND_BITS;
    if (message->from != 0 || phase < MUSTER_PHASE_PAUSE ||
        phase > MUSTER_PHASE_SETTLE || (message->mask & 1) == 0 ||
        (message->mask & ~muster_membership_all(node)) != 0) {
        node->counters.violations++;
        return;
    }
    if (message->epoch < change->epoch ||
        (message->epoch == change->epoch && phase < change->phase)) {
        node->counters.late++;
        return;
    }
    if ((message->mask >> node->opts.node & 1) == 0) {
        muster_protocol_add_news(
            node, &(muster_membership_news){.kind = MUSTER_NEWS_EXPELLED});
        return;
    }
    if (message->epoch > change->epoch) {
        enter_epoch(node, message);
    }
    if (change->phase == 0 || phase > change->phase + 1) {
        node->counters.violations++;
        return;
    }
    if (phase == MUSTER_PHASE_SETTLE && phase > change->phase &&
        !host_is_ready(node)) {
        change->postponed = *message;
        return;
    }
    if (phase > change->phase) {
        change->phase = phase;
        if (phase == MUSTER_PHASE_REPORT) {
            muster_recovery_report(node);
        } else {
            muster_recovery_settle(node);
        }
        // Send before COUNT, so that these messages are counted.
        muster_draft_flush(node);
    }
    send_counts(node, message);
}

static void resume_all(muster_protocol *node)
{
    MUSTER_ASSERT(node->change.lead.phase == MUSTER_PHASE_SETTLE);
    muster_rowmsg order = {.kind = MUSTER_ROWMSG_RESUME,
                           .epoch = node->change.lead.epoch};
    node->change.lead.phase = 0;
    node->change.lead.resumed_epoch = node->change.lead.epoch;
    node->change.lead.settled_members = node->change.lead.members;
    for (uint16_t i = 0; i < node->opts.nodes; i++) {
        if (muster_protocol_is_member(node, i)) {
            muster_draft_control(node, i, &order);
        }
    }
}

void muster_protocol_on_count(muster_protocol *node,
                              const muster_rowmsg *message)
{
    muster_membership_change *change = &node->change;
    if (node->opts.node != 0 || message->epoch != change->lead.epoch ||
        message->request != round_id(change) ||
        (change->lead.answered >> message->origin & 1) != 0) {
        node->counters.late++;
        return;
    }
    change->lead.answered |= 1ull << message->origin;
    change->lead.counts.sent += message->mask;
    change->lead.counts.received += message->value;
    if (change->lead.answered != change->lead.members) {
        return;
    }
    bool quiescent =
        change->lead.has_previous &&
        change->lead.counts.sent == change->lead.counts.received &&
        change->lead.previous.sent == change->lead.counts.sent &&
        change->lead.previous.received == change->lead.counts.received;
    change->lead.has_previous = !quiescent;
    change->lead.previous.sent = change->lead.counts.sent;
    change->lead.previous.received = change->lead.counts.received;
    change->lead.round++;
    if (quiescent && change->lead.phase == MUSTER_PHASE_SETTLE) {
        resume_all(node);
        return;
    }
    change->lead.phase += quiescent;
    order_phase(node, change->lead.value);
}

void muster_protocol_on_stats(muster_protocol *node,
                              const muster_rowmsg *message)
{
    muster_membership_news *cost = &node->change.lead.cost;
    cost->copied += message->mask >> 32;
    cost->restored += message->mask & UINT32_MAX;
    cost->unanswered += message->request >> 32;
    cost->fresh += message->request & UINT32_MAX;
    node->links[message->origin].updates = message->value;
}

void muster_protocol_on_resume(muster_protocol *node,
                               const muster_rowmsg *message)
{
    muster_membership_change *change = &node->change;
    if (message->from != 0 || message->epoch != change->epoch ||
        change->phase != MUSTER_PHASE_SETTLE) {
        node->counters.late++;
        return;
    }
    muster_membership_news news = change->lead.cost;
    news.kind = MUSTER_NEWS_RESUMED;
    news.members = node->membership.members;
    news.updates = change->lead.lost_updates;
    for (uint16_t i = 0; i < node->opts.nodes; i++) {
        news.updates +=
            muster_protocol_is_member(node, i) ? node->links[i].updates : 0;
    }
    change->lead.cost = (muster_membership_news){.node = 0};
    change->lead.lost_updates = 0;
    change->phase = 0;
    muster_recovery_resume(node);
    muster_protocol_add_news(node, &news);
}
