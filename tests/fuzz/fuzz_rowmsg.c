/*
 * fuzz_rowmsg.c -- any header and payload: read, checked against small tables,
 * and given to nodes in several situations, which must not fail an assertion.
 */
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "base/assert.h"
#include "ps/protocol/protocol.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static muster_blob *make_payload(void *context, size_t bytes)
{
    (void)context;
    return muster_blob_create(bytes);
}

/* What the node is doing when the message comes. */
typedef enum situation {
    LEADING = 0,   // node 0, with rows that arrive and an open request
    CHANGING = 1,  // the same, during the change after the loss of node 2
    FOLLOWING = 2, // node 1
    SITUATIONS = 3,
} situation;

static void hand_over(const muster_rowmsg *message, situation when)
{
    uint16_t self = when == FOLLOWING ? 1 : 0;
    muster_ps_table_opts shape = MUSTER_PS_TABLE_OPTS_INIT;
    muster_ps_table_share share = {.node = self, .nodes = 3, .seed = 1};
    muster_ps_table *table = NULL;
    muster_protocol *node = NULL;
    shape.keys = 7;
    shape.width = 2;
    MUSTER_ASSERT(muster_ps_table_create(&shape, &share, &table) == MUSTER_OK);
    muster_protocol_opts opts = {.node = self,
                                 .nodes = 3,
                                 .tables = &table,
                                 .table_count = 1,
                                 .sync_ns = 1000,
                                 .contest_ns = 1000,
                                 .make = make_payload,
                                 .heartbeat_ns = 1000000};
    MUSTER_ASSERT(muster_protocol_create(&opts, &node) == MUSTER_OK);
    muster_protocol_out out = muster_protocol_out_make();
    const uint32_t wanted[2] = {1, 2};
    muster_localize_request wish = {.keys = wanted, .count = 2};
    MUSTER_ASSERT(muster_protocol_localize(node, 0, &wish, &out) == MUSTER_OK);
    const uint32_t keys[2] = {5, 2};
    const uint32_t positions[2] = {0, 1};
    float values[4] = {0};
    muster_row_request request = {.op = MUSTER_ROWOP_PULL,
                                  .keys = keys,
                                  .values = values,
                                  .positions = positions,
                                  .count = 2};
    MUSTER_ASSERT(muster_protocol_request(node, 0, &request, &out) ==
                  MUSTER_OK);
    if (when == CHANGING) {
        MUSTER_ASSERT(muster_protocol_down(node, 0, 2, &out) == MUSTER_OK);
    }
    MUSTER_ASSERT(muster_protocol_message(node, 0, message, &out) == MUSTER_OK);
    MUSTER_ASSERT(muster_protocol_tick(node, 2000000, &out) == MUSTER_OK);
    muster_protocol_out_fini(&out);
    muster_protocol_free(node);
    muster_ps_table_free(table);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    muster_rowmsg message;
    if (size < MUSTER_ROWMSG_BYTES ||
        muster_rowmsg_read(data, MUSTER_ROWMSG_BYTES, &message) != MUSTER_OK) {
        return 0;
    }
    uint8_t again[MUSTER_ROWMSG_BYTES];
    muster_rowmsg_write(&message, again);
    MUSTER_ASSERT(memcmp(data, again, sizeof(again)) == 0);
    size_t left = size - MUSTER_ROWMSG_BYTES;
    if (left > 0) {
        message.payload = muster_blob_create(left);
        MUSTER_ASSERT(message.payload != NULL);
        memcpy(message.payload->data, data + MUSTER_ROWMSG_BYTES, left);
    }
    for (int when = LEADING; when < SITUATIONS; when++) {
        hand_over(&message, (situation)when);
    }
    muster_blob_unref(message.payload);
    return 0;
}
