/*
 * membership.c -- who is there: heartbeats, and who is given up.
 *
 * Every node tells every other that it lives; any message does. Only the lead
 * gives a node up: the others tell it whom they miss. A lead that falls silent
 * ends the mesh. A node that stood still itself cannot tell who was silent, so
 * it begins to listen anew; if it was given up meanwhile, it will hear so.
 */
#include "ps/protocol/inside.h"

#define BEATS_PER_WINDOW 4
#define LOOKS_PER_WINDOW 10
#define NEVER            (-1)

uint64_t muster_pslife_everybody(const muster_psnode *node)
{
    return UINT64_MAX >> (MUSTER_PS_NODES_MAX - node->opts.nodes);
}

void muster_pslife_init(muster_psnode *node)
{
    node->alive = node->opts.joins ? 1ull << node->opts.node
                                   : muster_pslife_everybody(node);
    node->change.members = node->alive;
    node->change.settled = node->alive;
    node->looked_ns = NEVER;
    node->beat_ns = 0;
}

void muster_psnode_tell(muster_psnode *node, const muster_psnews *news)
{
    if (!muster_vec_append(&node->out->news, news, 1)) {
        node->failed = true;
    }
}

static void miss(muster_psnode *node, uint16_t peer, muster_pscause cause)
{
    if (peer == 0) {
        muster_psnode_tell(
            node,
            &(muster_psnews){.kind = MUSTER_PSNEWS_LEADLESS, .cause = cause});
    } else if (node->opts.node == 0) {
        // A joiner not yet settled goes as well. It has homes that others do
        // not know to be moved should it be lost next, and it may hear of this
        // change before the one that tells it where the others are.
        uint64_t stay = node->change.members & node->change.settled;
        muster_pschange_begin(node, stay & ~(1ull << peer), (uint64_t)cause);
    } else {
        muster_rowmsg missing = {.kind = MUSTER_ROWMSG_SUSPECT,
                                 .origin = peer,
                                 .value = (uint64_t)cause};
        muster_psdraft_plain(node, 0, &missing);
    }
}

void muster_psnode_on_suspect(muster_psnode *node, const muster_rowmsg *message)
{
    if (node->opts.node != 0 || message->origin == 0) {
        node->counters.violations++;
    } else if (node->change.members >> message->origin & 1) {
        miss(node, message->origin,
             message->value == MUSTER_PSCAUSE_SILENT ? MUSTER_PSCAUSE_SILENT
                                                     : MUSTER_PSCAUSE_CLOSED);
    }
}

void muster_pslife_add_updates(muster_psnode *node, muster_rowmsg *word)
{
    word->mask = ++node->told;
    if (node->opts.updates != NULL) {
        word->value = node->opts.updates(node->opts.host);
    }
}

void muster_pslife_heard_updates(muster_psnode *node, const muster_rowmsg *word)
{
    muster_pslink *link = &node->links[word->origin];
    if (word->mask > link->told) {
        link->told = word->mask;
        link->updates = word->value;
    }
}

static void beat(muster_psnode *node)
{
    muster_rowmsg word = {.kind = MUSTER_ROWMSG_BEAT,
                          .origin = node->opts.node};
    muster_pslife_add_updates(node, &word);
    for (uint16_t i = 0; i < node->opts.nodes; i++) {
        if (i != node->opts.node && muster_psnode_lives(node, i)) {
            muster_psdraft_plain(node, i, &word);
        }
    }
}

static void look(muster_psnode *node)
{
    int64_t now = node->now_ns;
    bool slept = node->looked_ns == NEVER ||
                 now - node->looked_ns > node->opts.heartbeat_ns / 2;
    for (uint16_t i = 0; i < node->opts.nodes; i++) {
        muster_pslink *link = &node->links[i];
        if (i == node->opts.node || !muster_psnode_lives(node, i)) {
            continue;
        }
        if (slept) {
            link->heard_ns = now;
        } else if (now - link->heard_ns > node->opts.heartbeat_ns) {
            miss(node, i, MUSTER_PSCAUSE_SILENT);
        }
    }
    node->looked_ns = now;
}

void muster_pslife_tick(muster_psnode *node)
{
    int64_t window = node->opts.heartbeat_ns;
    if (window == 0) {
        return;
    }
    if (node->now_ns >= node->beat_ns) {
        beat(node);
        node->beat_ns = node->now_ns + window / BEATS_PER_WINDOW;
    }
    if (node->looked_ns == NEVER ||
        node->now_ns - node->looked_ns >= window / LOOKS_PER_WINDOW) {
        look(node);
    }
}

int64_t muster_pslife_due_ns(const muster_psnode *node)
{
    int64_t window = node->opts.heartbeat_ns;
    if (window == 0) {
        return INT64_MAX;
    }
    int64_t looks = node->looked_ns == NEVER
                        ? 0
                        : node->looked_ns + window / LOOKS_PER_WINDOW;
    return looks < node->beat_ns ? looks : node->beat_ns;
}

muster_status muster_psnode_down(muster_psnode *node, int64_t now_ns,
                                 uint16_t peer, muster_psnode_out *out)
{
    muster_psnode_begin(node, now_ns, out);
    if (peer != node->opts.node && muster_psnode_lives(node, peer) &&
        (node->opts.node != 0 || (node->change.members >> peer & 1) != 0)) {
        miss(node, peer, MUSTER_PSCAUSE_CLOSED);
    }
    return muster_psnode_end(node);
}

muster_status muster_psnode_admit(muster_psnode *node, int64_t now_ns,
                                  uint16_t peer, uint32_t note,
                                  muster_psnode_out *out)
{
    if (node->opts.node != 0 || peer >= node->opts.nodes) {
        return MUSTER_ERR_INVALID;
    }
    if (muster_psnode_paused(node)) {
        return MUSTER_ERR_AGAIN;
    }
    if (muster_psnode_lives(node, peer)) {
        return MUSTER_OK;
    }
    muster_psnode_begin(node, now_ns, out);
    node->links[peer] = (muster_pslink){.heard_ns = now_ns};
    muster_pschange_begin(node, node->change.members | 1ull << peer,
                          (uint64_t)(uint32_t)node->barriers << 32 | note);
    return muster_psnode_end(node);
}

uint32_t muster_psnode_note(const muster_psnode *node)
{
    return node->note;
}

uint64_t muster_psnode_members(const muster_psnode *node)
{
    return node->alive;
}

bool muster_psnode_changing(const muster_psnode *node)
{
    return muster_psnode_paused(node);
}
