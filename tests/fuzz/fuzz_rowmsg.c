/*
 * fuzz_rowmsg.c -- a header and a payload from anywhere: read, checked against
 * small tables, and handed to a node, which must stay whole.
 */
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "base/assert.h"
#include "role/psnode.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static muster_blob *make_payload(void *context, size_t bytes)
{
    (void)context;
    return muster_blob_create(bytes);
}

static void hand_over(const muster_rowmsg *message)
{
    muster_ps_table_opts shape = MUSTER_PS_TABLE_OPTS_INIT;
    muster_pstable_share share = {.node = 0, .nodes = 3, .seed = 1};
    muster_pstable *table = NULL;
    muster_psnode *node = NULL;
    shape.keys = 7;
    shape.width = 2;
    MUSTER_ASSERT(muster_pstable_create(&shape, &share, &table) == MUSTER_OK);
    muster_psnode_opts opts = {.nodes = 3,
                               .tables = &table,
                               .table_count = 1,
                               .sync_ns = 1000,
                               .contest_ns = 1000,
                               .make = make_payload};
    MUSTER_ASSERT(muster_psnode_create(&opts, &node) == MUSTER_OK);
    muster_psnode_out out = muster_psnode_out_make();
    const uint32_t wanted[2] = {1, 2};
    muster_pswish wish = {.keys = wanted, .count = 2};
    MUSTER_ASSERT(muster_psnode_localize(node, 0, &wish, &out) == MUSTER_OK);
    MUSTER_ASSERT(muster_psnode_message(node, 0, message, &out) == MUSTER_OK);
    muster_psnode_out_fini(&out);
    muster_psnode_free(node);
    muster_pstable_free(table);
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
    hand_over(&message);
    muster_blob_unref(message.payload);
    return 0;
}
