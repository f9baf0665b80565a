/*
 * draft.c -- gathers entries into messages, numbers messages, and finds
 * duplicates by their numbers.
 */
#include <string.h>

#include "base/assert.h"
#include "ps/protocol/inside.h"

/* Max floats of a draft: it is copied into the message while it is in the
 * cache. */
#define DRAFT_FLOATS (32u << 10)

static bool same_head(const muster_draft *draft, uint16_t to,
                      const muster_rowmsg *head)
{
    return draft->to == to && draft->head.kind == head->kind &&
           draft->head.op == head->op && draft->head.table == head->table &&
           draft->head.origin == head->origin &&
           draft->head.request == head->request;
}

static muster_draft *new_draft(muster_protocol *node, uint16_t to,
                               const muster_rowmsg *head)
{
    if (node->drafts.count == node->drafts.all.count) {
        muster_draft *fresh = muster_vec_push(&node->drafts.all);
        if (fresh == NULL) {
            node->failed = true;
            return NULL;
        }
        fresh->keys = muster_vec_make(sizeof(uint32_t));
        fresh->tags = muster_vec_make(sizeof(uint32_t));
        fresh->values = muster_vec_make(sizeof(float));
    }
    muster_draft *drafts = node->drafts.all.data;
    muster_draft *draft = &drafts[node->drafts.count++];
    draft->to = to;
    draft->head = *head;
    draft->head.from = node->opts.node;
    draft->head.payload = NULL;
    draft->head.index = NULL;
    muster_vec_clear(&draft->keys);
    muster_vec_clear(&draft->tags);
    muster_vec_clear(&draft->values);
    return draft;
}

static muster_blob *payload_of(muster_protocol *node, const muster_draft *draft)
{
    size_t keys = draft->keys.count * sizeof(uint32_t);
    size_t values = draft->values.count * sizeof(float);
    muster_blob *blob =
        node->opts.make(node->opts.make_context, 2 * keys + values);
    if (blob == NULL) {
        node->failed = true;
        return NULL;
    }
    char *bytes = blob->data;
    memcpy(bytes, draft->keys.data, keys);
    memcpy(bytes + keys, draft->tags.data, keys);
    if (values > 0) {
        memcpy(bytes + 2 * keys, draft->values.data, values);
    }
    return blob;
}

/* Has every entry a key, a tag and its values? */
static bool draft_is_whole(const muster_protocol *node,
                           const muster_draft *draft)
{
    uint32_t floats = muster_rowmsg_floats(draft->head.kind, draft->head.op,
                                           &node->shapes[draft->head.table]);
    return draft->keys.count == draft->tags.count &&
           draft->keys.count * floats == draft->values.count;
}

static void send_draft(muster_protocol *node, const muster_draft *draft)
{
    muster_protocol_send send = {.to = draft->to, .message = draft->head};
    send.message.count = (uint32_t)draft->keys.count;
    MUSTER_ASSERT(draft_is_whole(node, draft));
    if (send.message.count > 0) {
        send.message.payload = payload_of(node, draft);
        if (send.message.payload == NULL) {
            return;
        }
    }
    bool kept;
    if (draft->to == node->opts.node) {
        kept = muster_vec_append(&node->drafts.to_self, &send.message, 1);
    } else {
        muster_node_link *link = &node->links[draft->to];
        // Heartbeats are not numbered: they may arrive before both ends agree
        // on the members, and duplicates do no harm.
        if (draft->head.kind != MUSTER_ROWMSG_HEARTBEAT) {
            send.message.link = link->next_out++;
        }
        link->counted_out += muster_node_link_counts(draft->head.kind);
        kept = muster_vec_append(&node->step.out->sends, &send, 1);
    }
    if (!kept) {
        muster_blob_unref(send.message.payload);
        node->failed = true;
    }
}

/* muster_vec_append() of one word, inline. */
static inline bool append_word(muster_vec *vec, uint32_t word)
{
    if (vec->count == vec->capacity) {
        return muster_vec_append(vec, &word, 1);
    }
    ((uint32_t *)vec->data)[vec->count++] = word;
    return true;
}

static bool is_full(const muster_protocol *node, const muster_draft *draft)
{
    return draft->keys.count >= node->opts.message_entries ||
           draft->values.count >= DRAFT_FLOATS;
}

/* The draft that an entry belongs to. When it is full, all drafts are sent, in
 * the order in which they were begun: an operation must not overtake a delta
 * that was drafted before it. */
static muster_draft *find_draft(muster_protocol *node, uint16_t to,
                                const muster_rowmsg *head)
{
    muster_draft *drafts = node->drafts.all.data;
    for (uint32_t i = node->drafts.count; i > 0; i--) {
        muster_draft *draft = &drafts[i - 1];
        if (same_head(draft, to, head)) {
            if (!is_full(node, draft)) {
                return draft;
            }
            muster_draft_flush(node);
            break;
        }
    }
    return new_draft(node, to, head);
}

float *muster_draft_reserve(muster_protocol *node, uint16_t to,
                            const muster_rowmsg *head, uint32_t key,
                            uint32_t tag)
{
    if (to != node->opts.node && !muster_protocol_is_member(node, to)) {
        // Only operations have a request that waits for them.
        if (head->kind == MUSTER_ROWMSG_OP) {
            muster_request_return(node, head, key, tag);
        }
        return NULL;
    }
    muster_draft *draft = find_draft(node, to, head);
    uint32_t floats =
        muster_rowmsg_floats(head->kind, head->op, &node->shapes[head->table]);
    if (draft == NULL || !append_word(&draft->keys, key) ||
        !append_word(&draft->tags, tag) ||
        !muster_vec_reserve(&draft->values, draft->values.count + floats)) {
        node->failed = true;
        return NULL;
    }
    if (floats == 0) {
        return NULL;
    }
    float *room = (float *)draft->values.data + draft->values.count;
    draft->values.count += floats;
    return room;
}

void muster_draft_add(muster_protocol *node, uint16_t to,
                      const muster_rowmsg *head, uint32_t key, uint32_t tag,
                      const float *values)
{
    float *room = muster_draft_reserve(node, to, head, key, tag);
    if (room != NULL) {
        uint32_t floats = muster_rowmsg_floats(head->kind, head->op,
                                               &node->shapes[head->table]);
        memcpy(room, values, floats * sizeof(float));
    }
}

void muster_draft_control(muster_protocol *node, uint16_t to,
                          const muster_rowmsg *head)
{
    (void)new_draft(node, to, head);
}

void muster_draft_flush(muster_protocol *node)
{
    const muster_draft *drafts = node->drafts.all.data;
    // When memory ran out, the last entry of a draft may be incomplete.
    for (uint32_t i = 0; i < node->drafts.count && !node->failed; i++) {
        send_draft(node, &drafts[i]);
    }
    node->drafts.count = 0;
}

bool muster_node_link_accept(muster_protocol *node,
                             const muster_rowmsg *message)
{
    muster_node_link *link = &node->links[message->from];
    uint64_t number = message->link;
    if (number < link->next_in) {
        node->counters.duplicates++;
        return false;
    }
    if (number - link->next_in >= MUSTER_LINK_WINDOW) {
        node->counters.violations++;
        return false;
    }
    uint64_t bit = 1ull << (number % 64);
    uint64_t *word = &link->received[number % MUSTER_LINK_WINDOW / 64];
    if (*word & bit) {
        node->counters.duplicates++;
        return false;
    }
    *word |= bit;
    link->counted_in += muster_node_link_counts(message->kind);
    for (;;) {
        bit = 1ull << (link->next_in % 64);
        word = &link->received[link->next_in % MUSTER_LINK_WINDOW / 64];
        if ((*word & bit) == 0) {
            return true;
        }
        *word &= ~bit;
        link->next_in++;
    }
}
