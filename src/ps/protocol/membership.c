/*
 * membership.c -- heartbeats, silent nodes, nodes that join.
 *
 * Every message shows that its sender lives; heartbeats make sure that there
 * are some. Only the lead removes a node. The other nodes send SUSPECT to the
 * lead when a peer is silent or its connection ends. When the lead itself is
 * silent or gone, the mesh ends. Heartbeats also tell for how long a worker of
 * their sender has been stalled; a node that lives but does not work is removed
 * like a silent one, and a lead that does not work ends the mesh. A node that
 * was stopped for some time cannot tell whether its peers were silent, so it
 * starts to measure anew; if it was expelled meanwhile, the lead tells it.
 */
#include "base/clock.h"
#include "ps/protocol/inside.h"

#define HEARTBEATS_PER_WINDOW 4
#define CHECKS_PER_WINDOW     10
#define NEVER                 (-1)

uint64_t muster_membership_all(const muster_protocol *node)
{
    return UINT64_MAX >> (MUSTER_PS_NODES_MAX - node->opts.nodes);
}

void muster_membership_init(muster_protocol *node)
{
    node->membership.members = node->opts.joins ? 1ull << node->opts.node
                                                : muster_membership_all(node);
    node->change.lead.members = node->membership.members;
    node->change.lead.settled_members = node->membership.members;
    node->membership.checked_ns = NEVER;
    node->membership.heartbeat_ns = 0;
}

void muster_protocol_add_news(muster_protocol *node,
                              const muster_membership_news *news)
{
    if (!muster_vec_append(&node->step.out->news, news, 1)) {
        node->failed = true;
    }
}

void muster_membership_suspect(muster_protocol *node, uint16_t peer,
                               muster_loss_cause cause)
{
    if (peer == 0) {
        muster_protocol_add_news(
            node, &(muster_membership_news){.kind = MUSTER_NEWS_LEADLESS,
                                            .cause = cause});
    } else if (node->opts.node == 0) {
        // A node whose join has not ended is removed as well. It is a home
        // already, which the others do not know if it is lost next; and this
        // change may reach it before the one by which it joins.
        uint64_t stay =
            node->change.lead.members & node->change.lead.settled_members;
        muster_membership_change_begin(node, stay & ~(1ull << peer),
                                       (uint64_t)cause);
    } else {
        muster_rowmsg suspected = {.kind = MUSTER_ROWMSG_SUSPECT,
                                   .origin = peer,
                                   .value = (uint64_t)cause};
        muster_draft_control(node, 0, &suspected);
    }
}

void muster_protocol_on_suspect(muster_protocol *node,
                                const muster_rowmsg *message)
{
    if (node->opts.node != 0 || message->origin == 0) {
        node->counters.violations++;
    } else if (node->change.lead.members >> message->origin & 1) {
        bool told = message->value == MUSTER_LOSS_SILENT ||
                    message->value == MUSTER_LOSS_NOT_FINITE;
        muster_membership_suspect(node, message->origin,
                                  told ? (muster_loss_cause)message->value
                                       : MUSTER_LOSS_CLOSED);
    }
}

static bool is_stalled(const muster_protocol *node, uint64_t stalled_ms)
{
    return node->opts.stall_ns > 0 &&
           stalled_ms >= (uint64_t)(node->opts.stall_ns / MUSTER_NS_PER_MS);
}

void muster_membership_on_heartbeat(muster_protocol *node,
                                    const muster_rowmsg *message)
{
    muster_membership_on_updates(node, message);
    if (node->opts.node == 0 && is_stalled(node, message->request) &&
        (node->change.lead.members >> message->origin & 1) != 0) {
        muster_membership_suspect(node, message->origin, MUSTER_LOSS_STALLED);
    }
}

void muster_membership_add_updates(muster_protocol *node,
                                   muster_rowmsg *message)
{
    message->mask = ++node->membership.reports_sent;
    if (node->opts.updates != NULL) {
        message->value = node->opts.updates(node->opts.host);
    }
}

void muster_membership_on_updates(muster_protocol *node,
                                  const muster_rowmsg *message)
{
    muster_node_link *link = &node->links[message->origin];
    if (message->mask > link->update_report) {
        link->update_report = message->mask;
        link->updates = message->value;
    }
}

static void send_heartbeats(muster_protocol *node)
{
    muster_rowmsg message = {.kind = MUSTER_ROWMSG_HEARTBEAT,
                             .origin = node->opts.node};
    muster_membership_add_updates(node, &message);
    if (node->opts.stalled_ms != NULL) {
        message.request = node->opts.stalled_ms(node->opts.host);
    }
    if (node->opts.node == 0 && is_stalled(node, message.request)) {
        muster_membership_suspect(node, 0, MUSTER_LOSS_STALLED);
    }
    for (uint16_t i = 0; i < node->opts.nodes; i++) {
        if (i != node->opts.node && muster_protocol_is_member(node, i)) {
            muster_draft_control(node, i, &message);
        }
    }
}

static void check_silence(muster_protocol *node)
{
    int64_t now = node->step.now_ns;
    bool was_paused =
        node->membership.checked_ns == NEVER ||
        now - node->membership.checked_ns > node->opts.heartbeat_ns / 2;
    for (uint16_t i = 0; i < node->opts.nodes; i++) {
        muster_node_link *link = &node->links[i];
        if (i == node->opts.node || !muster_protocol_is_member(node, i)) {
            continue;
        }
        if (was_paused) {
            link->last_seen_ns = now;
        } else if (now - link->last_seen_ns > node->opts.heartbeat_ns) {
            muster_membership_suspect(node, i, MUSTER_LOSS_SILENT);
        }
    }
    node->membership.checked_ns = now;
}

void muster_membership_tick(muster_protocol *node)
{
    int64_t window = node->opts.heartbeat_ns;
    if (window == 0) {
        return;
    }
    if (node->step.now_ns >= node->membership.heartbeat_ns) {
        send_heartbeats(node);
        node->membership.heartbeat_ns =
            node->step.now_ns + window / HEARTBEATS_PER_WINDOW;
    }
    if (node->membership.checked_ns == NEVER ||
        node->step.now_ns - node->membership.checked_ns >=
            window / CHECKS_PER_WINDOW) {
        check_silence(node);
    }
}

int64_t muster_membership_due_ns(const muster_protocol *node)
{
    int64_t window = node->opts.heartbeat_ns;
    if (window == 0) {
        return INT64_MAX;
    }
    int64_t looks =
        node->membership.checked_ns == NEVER
            ? 0
            : node->membership.checked_ns + window / CHECKS_PER_WINDOW;
    return looks < node->membership.heartbeat_ns
               ? looks
               : node->membership.heartbeat_ns;
}

muster_status muster_protocol_down(muster_protocol *node, int64_t now_ns,
                                   uint16_t peer, muster_protocol_out *out)
{
    muster_protocol_begin(node, now_ns, out);
    if (peer != node->opts.node && muster_protocol_is_member(node, peer) &&
        (node->opts.node != 0 ||
         (node->change.lead.members >> peer & 1) != 0)) {
        muster_membership_suspect(node, peer, MUSTER_LOSS_CLOSED);
    }
    return muster_protocol_end(node);
}

muster_status muster_protocol_admit(muster_protocol *node, int64_t now_ns,
                                    uint16_t peer, uint32_t note,
                                    muster_protocol_out *out)
{
    if (node->opts.node != 0 || peer >= node->opts.nodes) {
        return MUSTER_ERR_INVALID;
    }
    if (muster_protocol_paused(node)) {
        return MUSTER_ERR_AGAIN;
    }
    if (muster_protocol_is_member(node, peer)) {
        return MUSTER_OK;
    }
    muster_protocol_begin(node, now_ns, out);
    node->links[peer] = (muster_node_link){.last_seen_ns = now_ns};
    muster_membership_change_begin(
        node, node->change.lead.members | 1ull << peer,
        (uint64_t)(uint32_t)node->barrier.number << 32 | note);
    return muster_protocol_end(node);
}

uint32_t muster_protocol_note(const muster_protocol *node)
{
    return node->membership.join_note;
}

uint64_t muster_protocol_members(const muster_protocol *node)
{
    return node->membership.members;
}

bool muster_protocol_changing(const muster_protocol *node)
{
    return muster_protocol_paused(node);
}
