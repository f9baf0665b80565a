/*
 * decodings.c -- see decodings.h. A linear look at 64 entries costs less than
 * the smallest solve, and the lists differ early.
 */
#include "role/decodings.h"

#include <string.h>

#include "base/mem.h"

static void entry_fini(muster_decodings_entry *entry)
{
    muster_mem_free(entry->responders);
    muster_mem_free(entry->used);
    muster_decoding_unref(entry->decoding);
    *entry = (muster_decodings_entry){0};
}

muster_status muster_decodings_init(muster_decodings *decodings,
                                    const muster_assignment *assignment)
{
    *decodings = (muster_decodings){
        .assignment = assignment,
        .scratch =
            muster_mem_array(muster_code_decode_terms_max(assignment->code),
                             sizeof(muster_code_decode_term)),
        .number = muster_mem_array(assignment->info.workers, sizeof(uint32_t))};
    if (decodings->scratch == NULL || decodings->number == NULL) {
        muster_decodings_fini(decodings);
        return MUSTER_ERR_NO_MEMORY;
    }
    return MUSTER_OK;
}

void muster_decodings_fini(muster_decodings *decodings)
{
    for (size_t i = 0; i < MUSTER_DECODINGS_KEPT; i++) {
        entry_fini(&decodings->entries[i]);
    }
    muster_mem_free(decodings->scratch);
    muster_mem_free(decodings->number);
    *decodings = (muster_decodings){0};
}

static bool is_for(const muster_decodings_entry *entry,
                   const uint32_t *responders, uint32_t count)
{
    return entry->used_at != 0 && entry->responder_count == count &&
           memcmp(entry->responders, responders, count * sizeof(uint32_t)) == 0;
}

/* The entry to overwrite: the one that was wanted longest ago. */
static muster_decodings_entry *oldest(muster_decodings *decodings)
{
    muster_decodings_entry *entry = &decodings->entries[0];
    for (size_t i = 1; i < MUSTER_DECODINGS_KEPT; i++) {
        if (decodings->entries[i].used_at < entry->used_at) {
            entry = &decodings->entries[i];
        }
    }
    return entry;
}

/* Decode terms name slots; jobs want the index among the messages used. */
static void number_messages(muster_decodings *decodings,
                            muster_decodings_entry *entry)
{
    uint32_t *number = decodings->number;
    muster_decoding *decoding = entry->decoding;
    memset(number, 0, decodings->assignment->info.workers * sizeof(*number));
    for (uint32_t t = 0; t < decoding->term_count; t++) {
        number[decodings->scratch[t].worker] = 1;
    }
    for (uint32_t r = 0; r < entry->responder_count; r++) {
        uint32_t slot = entry->responders[r];
        if (number[slot] != 0) {
            number[slot] = entry->used_count;
            entry->used[entry->used_count++] = slot;
        }
    }
    for (uint32_t t = 0; t < decoding->term_count; t++) {
        decoding->terms[t] = decodings->scratch[t];
        decoding->terms[t].worker = number[decodings->scratch[t].worker];
    }
}

static muster_status solve(muster_decodings *decodings,
                           const uint32_t *responders, uint32_t count,
                           muster_decodings_entry *entry)
{
    const muster_assignment *assignment = decodings->assignment;
    size_t term_count = 0;
    muster_code_fit fit;
    muster_status status =
        muster_code_weights(assignment->code, responders, count,
                            decodings->scratch, &term_count, &fit);
    if (status < 0) {
        return status;
    }
    entry->responders = muster_mem_array(count, sizeof(uint32_t));
    entry->used = muster_mem_array(count, sizeof(uint32_t));
    entry->decoding = muster_decoding_create((uint32_t)term_count);
    if (entry->responders == NULL || entry->used == NULL ||
        entry->decoding == NULL) {
        entry_fini(entry);
        return MUSTER_ERR_NO_MEMORY;
    }
    memcpy(entry->responders, responders, count * sizeof(uint32_t));
    entry->responder_count = count;
    entry->status = status;
    entry->decoding->gradient_blocks = assignment->info.gradient_blocks;
    entry->decoding->message_blocks = assignment->info.message_blocks;
    entry->decoding->fit = fit;
    number_messages(decodings, entry);
    return status;
}

muster_status muster_decodings_get(muster_decodings *decodings,
                                   const uint32_t *responders, uint32_t count,
                                   const muster_decodings_entry **entry_out)
{
    decodings->clock++;
    for (size_t i = 0; i < MUSTER_DECODINGS_KEPT; i++) {
        muster_decodings_entry *entry = &decodings->entries[i];
        if (is_for(entry, responders, count)) {
            entry->used_at = decodings->clock;
            *entry_out = entry;
            return entry->status;
        }
    }
    muster_decodings_entry *entry = oldest(decodings);
    entry_fini(entry);
    muster_status status = solve(decodings, responders, count, entry);
    if (status < 0) {
        return status;
    }
    decodings->solved++;
    entry->used_at = decodings->clock;
    *entry_out = entry;
    return status;
}
