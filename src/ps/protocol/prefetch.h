/*
 * ps/protocol/prefetch.h -- cache prefetch of rows that are used soon.
 *
 * Messages and lists name rows in an order that only the protocol knows, and
 * few of these rows are in the cache. The word of a row is prefetched some
 * entries ahead, its bytes a few entries ahead, when the word should be in the
 * cache. Prefetches are hints and change no result.
 */
#ifndef MUSTER_PS_PROTOCOL_PREFETCH_H
#define MUSTER_PS_PROTOCOL_PREFETCH_H

#include "ps/protocol/inside.h"

#define MUSTER_PROTOCOL_WORDS_AHEAD 16u
#define MUSTER_PROTOCOL_ROWS_AHEAD  4u

static inline void muster_protocol_prefetch_word(const muster_protocol *node,
                                                 muster_rowref ref)
{
    __builtin_prefetch(
        (const char *)node->opts.tables[muster_rowref_table(ref)]->words_base +
            sizeof(muster_word) * muster_rowref_key(ref),
        1);
}

static inline void muster_protocol_prefetch_row(const muster_protocol *node,
                                                muster_rowref ref)
{
    const muster_ps_table *rows = node->opts.tables[muster_rowref_table(ref)];
    uint64_t word = atomic_load_explicit(&rows->words[muster_rowref_key(ref)],
                                         memory_order_relaxed);
    if (muster_word_here(word)) {
        muster_ps_table_prefetch_row(rows, muster_word_slot(word));
    }
}

/* Prefetch words and rows of the entries that follow entry i. */
static inline void muster_protocol_prefetch(const muster_protocol *node,
                                            const muster_rowmsg *message,
                                            uint32_t i)
{
    const uint32_t *keys = muster_rowmsg_keys(message);
    uint32_t left = message->count - i;
    if (left > MUSTER_PROTOCOL_WORDS_AHEAD) {
        muster_protocol_prefetch_word(
            node, muster_rowref_make(message->table,
                                     keys[i + MUSTER_PROTOCOL_WORDS_AHEAD]));
    }
    if (left > MUSTER_PROTOCOL_ROWS_AHEAD) {
        muster_protocol_prefetch_row(
            node, muster_rowref_make(message->table,
                                     keys[i + MUSTER_PROTOCOL_ROWS_AHEAD]));
    }
}

#endif // MUSTER_PS_PROTOCOL_PREFETCH_H
