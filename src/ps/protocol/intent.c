/*
 * intent.c -- which nodes intend to use a row, and what follows from it.
 *
 * A node counts the intents of its workers that have begun and not ended. When
 * the first intent for a row begins and when the last one ends, the node sends
 * INTENT to the home of the row; when it begins and the row is not here, the
 * node requests the row. The home counts intents by row and node, so that the
 * order of messages does not matter. A row that several nodes intend to use is
 * replicated; a row that only the requester intends to use moves. A replica
 * whose intents have ended is dropped as soon as its delta was sent.
 *
 * Intents decide where rows are, never their values: a count that is wrong for
 * a moment costs a message, not an update. When the membership changes, homes
 * forget all intents, and all nodes send theirs again.
 */
#include "ps/protocol/inside.h"

void muster_node_intents_fini(muster_protocol *node)
{
    muster_map_fini(&node->intents.local);
    muster_map_fini(&node->intents.by_row);
    muster_vec_fini(&node->intents.entries);
}

bool muster_node_intents_local(const muster_protocol *node, uint32_t table,
                               uint32_t key)
{
    return muster_map_find(&node->intents.local,
                           muster_rowref_make(table, key)) != MUSTER_MAP_NONE;
}

/* ---- at the home --------------------------------------------------------- */

void muster_node_intents_forget(muster_protocol *node)
{
    muster_map_fini(&node->intents.by_row);
    muster_vec_clear(&node->intents.entries);
    node->intents.free = UINT32_MAX;
}

static uint32_t take_entry(muster_node_intents *intents)
{
    uint32_t at = intents->free;
    if (at != UINT32_MAX) {
        intents->free = ((muster_home_intent *)intents->entries.data)[at].next;
        return at;
    }
    at = (uint32_t)intents->entries.count;
    return muster_vec_push(&intents->entries) == NULL ? UINT32_MAX : at;
}

/* Remove an entry from the list of its row. */
static void drop_entry(muster_protocol *node, muster_rowref ref, uint32_t at,
                       uint32_t before)
{
    muster_node_intents *intents = &node->intents;
    muster_home_intent *entries = intents->entries.data;
    uint32_t next = entries[at].next;
    if (before != UINT32_MAX) {
        entries[before].next = next;
    } else if (next != UINT32_MAX) {
        node->failed |= !muster_map_set(&intents->by_row, ref, next);
    } else {
        muster_map_remove(&intents->by_row, ref);
    }
    entries[at].next = intents->free;
    intents->free = at;
}

/* Add `change` to the intents of a node for a row. */
static void count_intent(muster_protocol *node, muster_rowref ref,
                         uint16_t from, int32_t change)
{
    muster_node_intents *intents = &node->intents;
    uint32_t before = UINT32_MAX;
    uint32_t at = muster_map_find(&intents->by_row, ref);
    while (at != UINT32_MAX) {
        muster_home_intent *entry =
            (muster_home_intent *)intents->entries.data + at;
        if (entry->node == from) {
            if (entry->count == (change > 0 ? INT32_MAX : INT32_MIN)) {
                node->counters.violations++;
                return;
            }
            entry->count += change;
            if (entry->count == 0) {
                drop_entry(node, ref, at, before);
            }
            return;
        }
        before = at;
        at = entry->next;
    }
    at = take_entry(intents);
    if (at == UINT32_MAX) {
        node->failed = true;
        return;
    }
    uint32_t first = muster_map_find(&intents->by_row, ref);
    muster_home_intent *entry =
        (muster_home_intent *)intents->entries.data + at;
    *entry = (muster_home_intent){.next = first, .node = from, .count = change};
    node->failed |= !muster_map_set(&intents->by_row, ref, at);
}

void muster_protocol_on_intent(muster_protocol *node,
                               const muster_rowmsg *message)
{
    for (uint32_t i = 0; i < message->count && !node->failed; i++) {
        uint32_t key = muster_rowmsg_keys(message)[i];
        uint32_t begins = muster_rowmsg_begins(message, i);
        if (begins > 1 || muster_home_of(node, key) != node->opts.node) {
            node->counters.violations++;
            continue;
        }
        count_intent(node, muster_rowref_make(message->table, key),
                     message->origin, begins ? 1 : -1);
    }
}

muster_intended_by muster_node_intents_of(const muster_protocol *node,
                                          uint32_t table, uint32_t key,
                                          uint16_t requester)
{
    const muster_home_intent *entries = node->intents.entries.data;
    muster_intended_by intended = {0};
    uint32_t at =
        muster_map_find(&node->intents.by_row, muster_rowref_make(table, key));
    while (at != UINT32_MAX) {
        bool begun = entries[at].count > 0;
        intended.requester =
            intended.requester || (begun && entries[at].node == requester);
        intended.others =
            intended.others || (begun && entries[at].node != requester);
        at = entries[at].next;
    }
    return intended;
}

/* ---- at the node whose workers intend ------------------------------------ */

static void notify_home(muster_protocol *node, uint32_t table, uint32_t key,
                        bool begins)
{
    muster_rowmsg intent = {.kind = MUSTER_ROWMSG_INTENT,
                            .table = (uint16_t)table,
                            .origin = node->opts.node};
    muster_draft_add(node, muster_home_of(node, key), &intent, key, begins,
                     NULL);
}

static void request_if_absent(muster_protocol *node, uint32_t table,
                              uint32_t key)
{
    uint64_t word = atomic_load_explicit(&node->opts.tables[table]->words[key],
                                         memory_order_relaxed);
    if (muster_word_state_of(word) == MUSTER_ROW_ABSENT) {
        muster_arriving_request(node, table, key, MUSTER_ROWOP_NONE);
    }
}

static void begin_one(muster_protocol *node, uint32_t table, uint32_t key)
{
    muster_rowref ref = muster_rowref_make(table, key);
    uint32_t begun = muster_map_find(&node->intents.local, ref);
    bool first = begun == MUSTER_MAP_NONE;
    if (!muster_map_set(&node->intents.local, ref, first ? 1 : begun + 1)) {
        node->failed = true;
        return;
    }
    if (!first) {
        return;
    }
    muster_replica_keep(node, ref, true);
    if (!muster_protocol_paused(node)) {
        notify_home(node, table, key, true);
        request_if_absent(node, table, key);
    }
}

static void end_one(muster_protocol *node, uint32_t table, uint32_t key)
{
    muster_rowref ref = muster_rowref_make(table, key);
    uint32_t begun = muster_map_find(&node->intents.local, ref);
    if (begun == MUSTER_MAP_NONE) {
        return; // never begun
    }
    if (begun > 1) {
        node->failed |= !muster_map_set(&node->intents.local, ref, begun - 1);
        return;
    }
    muster_map_remove(&node->intents.local, ref);
    muster_replica_keep(node, ref, false);
    if (!muster_protocol_paused(node)) {
        notify_home(node, table, key, false);
    }
}

muster_status muster_protocol_intend(muster_protocol *node, int64_t now_ns,
                                     const muster_localize_request *request,
                                     bool begins, muster_protocol_out *out)
{
    muster_protocol_begin(node, now_ns, out);
    for (uint32_t i = 0; i < request->count && !node->failed &&
                         node->opts.manage != MUSTER_PS_CLASSIC;
         i++) {
        (begins ? begin_one : end_one)(node, request->table, request->keys[i]);
    }
    return muster_protocol_end(node);
}

void muster_node_intents_row_departed(muster_protocol *node, uint32_t table,
                                      uint32_t key)
{
    // Only where rows can be replicated: else two nodes would take the row from
    // each other for as long as both intend to use it.
    if (muster_protocol_manage(node, table) == MUSTER_PS_AUTO &&
        !muster_protocol_paused(node) &&
        muster_node_intents_local(node, table, key)) {
        request_if_absent(node, table, key);
    }
}

void muster_node_intents_resend(muster_protocol *node)
{
    uint32_t cursor = 0;
    muster_rowref ref;
    while (!node->failed &&
           muster_map_next(&node->intents.local, &cursor, &ref)) {
        notify_home(node, muster_rowref_table(ref), muster_rowref_key(ref),
                    true);
        request_if_absent(node, muster_rowref_table(ref),
                          muster_rowref_key(ref));
    }
}
