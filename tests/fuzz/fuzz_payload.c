/*
 * fuzz_payload.c -- payloads of edges and of workers that gossip, as they come
 * over the network: what is accepted is written back byte for byte. The first
 * byte chooses the reader.
 */
#include <string.h>

#include "base/assert.h"
#include "wire/edge_answers.h"
#include "wire/edge_terms.h"
#include "wire/peers.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void try_peers(const uint8_t *data, size_t size)
{
    muster_blob *blob = muster_blob_create(size);
    MUSTER_ASSERT(blob != NULL);
    memcpy(blob->data, data, size);
    muster_peers peers = {.members =
                              muster_vec_make(sizeof(muster_peers_member))};
    if (muster_peers_read(blob, &peers)) {
        const muster_peers_member *members = peers.members.data;
        for (uint32_t i = 0; i < peers.members.count; i++) {
            MUSTER_ASSERT(muster_peers_find(&peers, members[i].id) == i);
        }
        muster_blob *copy = muster_peers_write(&peers);
        MUSTER_ASSERT(copy != NULL && copy->bytes == size);
        MUSTER_ASSERT(memcmp(copy->data, data, size) == 0);
        muster_blob_unref(copy);
    }
    muster_vec_fini(&peers.members);
    muster_blob_unref(blob);
}

static void try_edge_terms(const uint8_t *data, size_t size)
{
    muster_edge_terms terms;
    uint8_t bytes[MUSTER_EDGE_TERMS_BYTES];
    if (muster_edge_terms_read(data, size, &terms) == MUSTER_OK) {
        muster_edge_terms_write(&terms, bytes);
        MUSTER_ASSERT(memcmp(bytes, data, size) == 0);
    }
}

/* Flags that are not known are dropped: a second copy is like the first. */
static void try_edge_answer(const uint8_t *data, size_t size)
{
    uint8_t first[MUSTER_EDGE_ANSWER_BYTES];
    uint8_t second[MUSTER_EDGE_ANSWER_BYTES];
    if (size == MUSTER_EDGE_ANSWER_BYTES) {
        muster_edge_answer answer = muster_edge_answer_read(data);
        muster_edge_answer_write(&answer, first);
        answer = muster_edge_answer_read(first);
        muster_edge_answer_write(&answer, second);
        MUSTER_ASSERT(memcmp(first, second, sizeof(first)) == 0);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static void (*const readers[])(const uint8_t *, size_t) = {
        try_peers, try_edge_terms, try_edge_answer};
    if (size > 0) {
        readers[data[0] % 3](data + 1, size - 1);
    }
    return 0;
}
