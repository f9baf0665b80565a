/*
 * protocol.c -- the steps of a node: begin, dispatch to the file that handles a
 * message, end.
 *
 * Invariants
 *  1. Exactly one node has a row OWNED, or the row is in one TRANSFER.
 *  2. The home's owner of a row is the node that has it, or that will have it
 *     when all HAND_OVERs sent have been carried out.
 *  3. A node has a row ARRIVING exactly while it has a record of it. It has
 *     sent one LOCALIZE, and will receive one TRANSFER or one REPLICA.
 *  4. A node receives one HAND_OVER for each time it was made owner.
 *  5. A step leaves no draft and no message to itself behind.
 */
#include "ps/protocol/protocol.h"

#include "base/assert.h"
#include "base/finite.h"
#include "ps/protocol/inside.h"

static void handle(muster_protocol *node, const muster_rowmsg *message)
{
    switch (message->kind) {
    case MUSTER_ROWMSG_OP:
    case MUSTER_ROWMSG_SYNC:
    case MUSTER_ROWMSG_REPLICATE:
        muster_protocol_on_rows(node, message);
        return;
    case MUSTER_ROWMSG_REPLY:
        muster_protocol_on_reply(node, message);
        return;
    case MUSTER_ROWMSG_LOCALIZE:
        muster_protocol_on_localize(node, message);
        return;
    case MUSTER_ROWMSG_HAND_OVER:
        muster_protocol_on_hand_over(node, message);
        return;
    case MUSTER_ROWMSG_TRANSFER:
        muster_protocol_on_transfer(node, message);
        return;
    case MUSTER_ROWMSG_REPLICA:
        muster_protocol_on_replica(node, message);
        return;
    case MUSTER_ROWMSG_SYNCED:
        muster_protocol_on_synced(node, message);
        return;
    case MUSTER_ROWMSG_BARRIER:
        muster_protocol_on_barrier(node, message);
        return;
    case MUSTER_ROWMSG_RELEASE:
        muster_protocol_on_release(node, message);
        return;
    case MUSTER_ROWMSG_SUSPECT:
        muster_protocol_on_suspect(node, message);
        return;
    case MUSTER_ROWMSG_PHASE:
        muster_protocol_on_phase(node, message);
        return;
    case MUSTER_ROWMSG_COUNT:
        muster_protocol_on_count(node, message);
        return;
    case MUSTER_ROWMSG_RESUME:
        muster_protocol_on_resume(node, message);
        return;
    case MUSTER_ROWMSG_STATS:
        muster_protocol_on_stats(node, message);
        return;
    case MUSTER_ROWMSG_OWNED:
    case MUSTER_ROWMSG_ABSENT:
    case MUSTER_ROWMSG_REPLICATED:
        muster_protocol_on_report(node, message);
        return;
    case MUSTER_ROWMSG_ADOPT:
        muster_protocol_on_adopt(node, message);
        return;
    case MUSTER_ROWMSG_RETURN:
        muster_protocol_on_return(node, message);
        return;
    case MUSTER_ROWMSG_INTENT:
        muster_protocol_on_intent(node, message);
        return;
    case MUSTER_ROWMSG_HEARTBEAT:
        muster_membership_on_heartbeat(node, message);
        return;
    case MUSTER_ROWMSG_HELLO:
    case MUSTER_ROWMSG_LEAVE:
    case MUSTER_ROWMSG_QUIT:
    case MUSTER_ROWMSG_EXPEL:
        return;
    }
}

void muster_protocol_begin(muster_protocol *node, int64_t now_ns,
                           muster_protocol_out *out)
{
    MUSTER_ASSERT(node->step.out == NULL && out != NULL);
    MUSTER_ASSERT(node->failed ||
                  (node->drafts.count == 0 && node->drafts.to_self.count == 0));
    node->step.now_ns = now_ns;
    node->step.out = out;
}

/* Send the drafts, and handle messages of the node to itself, until there are
 * no more. */
muster_status muster_protocol_end(muster_protocol *node)
{
    do {
        muster_draft_flush(node);
        for (size_t i = 0; i < node->drafts.to_self.count; i++) {
            muster_rowmsg message =
                ((muster_rowmsg *)node->drafts.to_self.data)[i];
            if (!node->failed) {
                handle(node, &message);
            }
            muster_blob_unref(message.payload);
        }
        muster_vec_clear(&node->drafts.to_self);
        muster_protocol_barrier_step(node);
    } while (node->drafts.count > 0 && !node->failed);
    node->step.out = NULL;
    return node->failed ? MUSTER_ERR_NO_MEMORY : MUSTER_OK;
}

/* Is the sender a member? A node that joins also accepts the PHASE that makes
 * it a member. */
static bool comes_from_member(muster_protocol *node,
                              const muster_rowmsg *message)
{
    if (muster_protocol_is_member(node, message->from) ||
        (message->kind == MUSTER_ROWMSG_PHASE && node->opts.joins)) {
        return true;
    }
    node->counters.late++;
    return false;
}

/* Could a correct node have sent this origin? In most kinds it is the sender.
 * Operations and SYNCs are forwarded, so theirs may be any node. Answers that
 * this node does not wait for are found by its records. */
static bool origin_is_plausible(const muster_protocol *node,
                                const muster_rowmsg *message)
{
    switch (message->kind) {
    case MUSTER_ROWMSG_LOCALIZE:
    case MUSTER_ROWMSG_INTENT:
    case MUSTER_ROWMSG_BARRIER:
    case MUSTER_ROWMSG_HEARTBEAT:
    case MUSTER_ROWMSG_COUNT:
    case MUSTER_ROWMSG_STATS:
    case MUSTER_ROWMSG_OWNED:
    case MUSTER_ROWMSG_ABSENT:
    case MUSTER_ROWMSG_REPLICATED:
        return message->origin == message->from;
    case MUSTER_ROWMSG_HAND_OVER:
        return message->origin != node->opts.node;
    case MUSTER_ROWMSG_OP:
    case MUSTER_ROWMSG_REPLY:
    case MUSTER_ROWMSG_TRANSFER:
    case MUSTER_ROWMSG_REPLICATE:
    case MUSTER_ROWMSG_REPLICA:
    case MUSTER_ROWMSG_SYNC:
    case MUSTER_ROWMSG_SYNCED:
    case MUSTER_ROWMSG_RELEASE:
    case MUSTER_ROWMSG_HELLO:
    case MUSTER_ROWMSG_LEAVE:
    case MUSTER_ROWMSG_QUIT:
    case MUSTER_ROWMSG_SUSPECT:
    case MUSTER_ROWMSG_PHASE:
    case MUSTER_ROWMSG_RESUME:
    case MUSTER_ROWMSG_EXPEL:
    case MUSTER_ROWMSG_ADOPT:
    case MUSTER_ROWMSG_RETURN:
        break;
    }
    return true;
}

static bool values_are_finite(const muster_protocol *node,
                              const muster_rowmsg *message)
{
    if (message->count == 0) {
        return true;
    }
    size_t floats = muster_rowmsg_floats(message->kind, message->op,
                                         &node->shapes[message->table]);
    return muster_floats_are_finite(muster_rowmsg_values(message),
                                    message->count * floats);
}

/* Handle a message that is new and fits the tables. Values that are not finite
 * would spread to all who read the row. Their sender is removed, with what it
 * waits for: an update alone could not be left out. */
static void accept(muster_protocol *node, const muster_rowmsg *message)
{
    if (!origin_is_plausible(node, message)) {
        node->counters.violations++;
    } else if (!values_are_finite(node, message)) {
        node->counters.violations++;
        muster_membership_suspect(node, message->from, MUSTER_LOSS_NOT_FINITE);
    } else {
        handle(node, message);
    }
}

muster_status muster_protocol_message(muster_protocol *node, int64_t now_ns,
                                      const muster_rowmsg *message,
                                      muster_protocol_out *out)
{
    muster_protocol_begin(node, now_ns, out);
    muster_rowmsg mine = *message;
    if (mine.from >= node->opts.nodes || mine.origin >= node->opts.nodes ||
        mine.from == node->opts.node) {
        node->counters.violations++;
        return muster_protocol_end(node);
    }
    node->links[mine.from].last_seen_ns = now_ns;
    if (mine.kind == MUSTER_ROWMSG_EXPEL && mine.from != 0) {
        node->counters.violations++; // only the lead expels nodes
    } else if (mine.kind == MUSTER_ROWMSG_EXPEL) {
        muster_protocol_add_news(
            node, &(muster_membership_news){.kind = MUSTER_NEWS_EXPELLED,
                                            .node = mine.from});
    } else if (!comes_from_member(node, &mine)) {
        return muster_protocol_end(node);
    } else if (!muster_rowmsg_take_index(&mine, &node->step.index) ||
               !muster_rowmsg_check(&mine, node->shapes,
                                    node->opts.table_count)) {
        node->counters.violations++;
    } else if (mine.kind == MUSTER_ROWMSG_HEARTBEAT ||
               muster_node_link_accept(node, &mine)) {
        accept(node, &mine);
    }
    return muster_protocol_end(node);
}

muster_status muster_protocol_localize(muster_protocol *node, int64_t now_ns,
                                       const muster_localize_request *request,
                                       muster_protocol_out *out)
{
    muster_protocol_begin(node, now_ns, out);
    const muster_ps_table *rows = node->opts.tables[request->table];
    for (uint32_t i = 0; i < request->count && !node->failed; i++) {
        uint64_t word = atomic_load_explicit(&rows->words[request->keys[i]],
                                             memory_order_relaxed);
        muster_word_state state = muster_word_state_of(word);
        if (state == MUSTER_ROW_REPLICA) {
            muster_replica_touch(node, request->table, request->keys[i]);
        } else if (state == MUSTER_ROW_ABSENT &&
                   node->opts.manage != MUSTER_PS_CLASSIC &&
                   !muster_protocol_paused(node)) {
            muster_arriving_request(node, request->table, request->keys[i],
                                    request->copy ? MUSTER_ROWOP_PULL_ROW
                                                  : MUSTER_ROWOP_NONE);
        }
    }
    return muster_protocol_end(node);
}

muster_status muster_protocol_tick(muster_protocol *node, int64_t now_ns,
                                   muster_protocol_out *out)
{
    muster_protocol_begin(node, now_ns, out);
    muster_membership_tick(node);
    muster_membership_change_tick(node);
    if (!muster_protocol_paused(node)) {
        muster_sweep_due(node);
    }
    return muster_protocol_end(node);
}

int64_t muster_protocol_due_ns(const muster_protocol *node)
{
    int64_t life = muster_membership_due_ns(node);
    int64_t work =
        muster_protocol_paused(node) ? INT64_MAX : muster_sweep_due_ns(node);
    return life < work ? life : work;
}

muster_protocol_counters muster_protocol_count(const muster_protocol *node)
{
    muster_protocol_counters counters = node->counters;
    counters.copies = (uint32_t)node->replicas.all.count;
    return counters;
}

uint16_t muster_protocol_owner(const muster_protocol *node, uint32_t table,
                               uint32_t key)
{
    uint32_t nodes = node->opts.nodes;
    return node->homes.tables[key % nodes].table[table][key / nodes].owner;
}

uint16_t muster_protocol_home(const muster_protocol *node, uint32_t key)
{
    return muster_home_of(node, key);
}
