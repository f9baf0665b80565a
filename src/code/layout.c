/*
 * layout.c -- from parts and their holders to workers and their terms.
 */
#include "code/layout.h"

#include <string.h>

#include "base/assert.h"
#include "base/error.h"
#include "base/mem.h"

muster_status muster_code_layout_init(muster_code_layout *layout,
                                      uint32_t parts, size_t holder_count,
                                      uint32_t cell_count)
{
    memset(layout, 0, sizeof(*layout));
    layout->parts = parts;
    layout->cell_count = cell_count;
    layout->first = muster_mem_array((size_t)parts + 1, sizeof(size_t));
    layout->holders = muster_mem_array(holder_count, sizeof(uint32_t));
    layout->cells = muster_mem_array(holder_count, cell_count * sizeof(double));
    if (layout->first == NULL || layout->holders == NULL ||
        layout->cells == NULL) {
        muster_code_layout_fini(layout);
        return MUSTER_ERR_NO_MEMORY;
    }
    return MUSTER_OK;
}

void muster_code_layout_fini(muster_code_layout *layout)
{
    muster_mem_free(layout->first);
    muster_mem_free(layout->holders);
    muster_mem_free(layout->cells);
    memset(layout, 0, sizeof(*layout));
}

void muster_code_layout_cyclic(muster_code_layout *layout, uint32_t n,
                               uint32_t d)
{
    for (uint32_t part = 0; part < n; part++) {
        layout->first[part] = (size_t)part * d;
        for (uint32_t i = 0; i < d; i++) {
            layout->holders[(size_t)part * d + i] =
                (part + n - (d - 1) + i) % n;
        }
    }
    layout->first[n] = (size_t)n * d;
}

void muster_code_layout_lists(muster_code_layout *layout, const uint32_t *loads,
                              const uint32_t *parts, uint32_t workers)
{
    uint32_t k = layout->parts;
    size_t *first = layout->first;
    size_t entries = 0;
    MUSTER_ASSERT(k > 0);
    for (uint32_t i = 0; i < workers; i++) {
        entries += loads[i];
    }
    // Count, then sum, then place.
    memset(first, 0, ((size_t)k + 1) * sizeof(size_t));
    for (size_t e = 0; e < entries; e++) {
        first[parts != NULL ? parts[e] : e % k]++;
    }
    size_t total = 0;
    for (uint32_t part = 0; part <= k; part++) {
        size_t count = part < k ? first[part] : 0;
        first[part] = total;
        total += count;
    }
    size_t e = 0;
    for (uint32_t i = 0; i < workers; i++) {
        for (uint32_t j = 0; j < loads[i]; j++, e++) {
            layout->holders[first[parts != NULL ? parts[e] : e % k]++] = i;
        }
    }
    // Placing has moved every start to its end: move them back.
    memmove(first + 1, first, k * sizeof(size_t));
    first[0] = 0;
}

/* Nonzero cells of entry e. */
static uint32_t cells_used(const muster_code_layout *layout, size_t e)
{
    uint32_t used = 0;
    for (uint32_t c = 0; c < layout->cell_count; c++) {
        used += layout->cells[e * layout->cell_count + c] != 0.0;
    }
    return used;
}

/* Where each worker's terms start in the sorted array (starts[n] = all). */
static size_t count_terms(const muster_code_layout *layout, uint32_t workers,
                          size_t *starts)
{
    size_t entries = layout->first[layout->parts];
    memset(starts, 0, ((size_t)workers + 1) * sizeof(size_t));
    for (size_t e = 0; e < entries; e++) {
        starts[layout->holders[e]] += cells_used(layout, e);
    }
    size_t total = 0;
    for (uint32_t i = 0; i <= workers; i++) {
        size_t count = i < workers ? starts[i] : 0;
        starts[i] = total;
        total += count;
    }
    return total;
}

/* Write the terms of entry e to `to`; returns how many. */
static size_t place_entry(const muster_code_layout *layout, size_t e,
                          muster_code_encode_term like, uint32_t blocks,
                          muster_code_encode_term *to)
{
    const double *cells = layout->cells + e * layout->cell_count;
    size_t count = 0;
    for (uint32_t c = 0; c < layout->cell_count; c++) {
        if (cells[c] != 0.0) {
            like.message_block = c / blocks;
            like.gradient_block = c % blocks;
            like.coef = cells[c];
            to[count++] = like;
        }
    }
    return count;
}

static void place_terms(const muster_code_layout *layout, uint32_t blocks,
                        size_t *starts, muster_code_encode_term *sorted)
{
    for (uint32_t part = 0; part < layout->parts; part++) {
        muster_code_encode_term like = {.part = part};
        for (size_t e = layout->first[part]; e < layout->first[part + 1]; e++) {
            size_t *start = &starts[layout->holders[e]];
            *start += place_entry(layout, e, like, blocks, sorted + *start);
        }
    }
}

/* The terms stand sorted in the reserved array: hand them out. */
static bool add_workers(muster_code *code, const size_t *ends)
{
    for (uint32_t i = 0; i < code->info.workers; i++) {
        muster_code_open_worker(code, i);
        code->terms.count = ends[i];
        if (!muster_code_close_worker(code, i)) {
            return false;
        }
    }
    return true;
}

muster_status muster_code_layout_fill(const muster_code_layout *layout,
                                      muster_code *code, muster_error *error)
{
    uint32_t n = code->info.workers;
    size_t *starts = muster_mem_array((size_t)n + 1, sizeof(size_t));
    muster_status status = MUSTER_ERR_NO_MEMORY;
    if (starts == NULL) {
        goto out;
    }
    size_t total = count_terms(layout, n, starts);
    if (total > MUSTER_CODE_TERMS_MAX) {
        status = muster_error_set(error, MUSTER_ERR_UNSUPPORTED,
                                  "%s: %zu encode terms; at most %u fit, take "
                                  "a smaller load or fewer workers",
                                  code->name, total, MUSTER_CODE_TERMS_MAX);
        goto out;
    }
    if (!muster_code_reserve(code, total)) {
        goto out;
    }
    place_terms(layout, code->info.gradient_blocks, starts, code->terms.data);
    // Placing has moved every start to its end.
    status = add_workers(code, starts) ? MUSTER_OK : MUSTER_ERR_NO_MEMORY;
out:
    muster_mem_free(starts);
    return status;
}
