/*
 * greedy.c -- lazy greedy for many blocks.
 *
 * The first gains are the same for all blocks: they are sorted once, and every
 * block walks that list with a cursor of its own. Items that a block has
 * evaluated, and not taken, wait in a heap of the block with the gain of that
 * time. So a block holds only what it has looked at, not all items.
 *
 * Invariants
 *  1. An untaken item is, for each block, either at or behind the cursor or in
 *     the heap, once.
 *  2. The gain kept for an item is not below its gain now.
 *  3. A pick precedes, by (gain, item), every bound that is left; by 2 it then
 *     precedes every gain.
 *  4. An entry evaluated since the block's last pick (`at` == block's count)
 *     is exact, and is not evaluated again.
 */
#include "partition/greedy.h"

#include <stdlib.h>

#include "base/assert.h"
#include "base/mem.h"
#include "base/vec.h"

typedef struct greedy_entry {
    double gain;
    uint32_t item;
    uint32_t at; // items that the block had when the gain was computed
} greedy_entry;

typedef struct greedy_block {
    float *best; // of each client
    double value;
    uint32_t count;
    uint32_t quota;
    uint32_t cursor; // place in the list of first gains
    muster_vec heap; // of greedy_entry
} greedy_block;

typedef struct greedy_run {
    const muster_greedy_input *input;
    muster_greedy_result *result;
    greedy_entry *first; // all items by first gain
    greedy_block *blocks;
    float *best; // blocks x clients
    uint32_t picked;
} greedy_run;

/* Whether a is chosen before b. */
static bool precedes(const greedy_entry *a, const greedy_entry *b)
{
    return a->gain > b->gain || (a->gain == b->gain && a->item < b->item);
}

static int compare_entries(const void *left, const void *right)
{
    const greedy_entry *a = left;
    const greedy_entry *b = right;
    return precedes(b, a) - precedes(a, b);
}

static bool heap_push(muster_vec *heap, greedy_entry entry)
{
    if (muster_vec_push(heap) == NULL) {
        return false;
    }
    greedy_entry *all = heap->data;
    size_t at = heap->count - 1;
    while (at > 0 && precedes(&entry, &all[(at - 1) / 2])) {
        all[at] = all[(at - 1) / 2];
        at = (at - 1) / 2;
    }
    all[at] = entry;
    return true;
}

static void heap_pop(muster_vec *heap)
{
    greedy_entry *all = heap->data;
    heap->count--;
    size_t count = heap->count;
    greedy_entry last = all[count];
    size_t at = 0;
    while (2 * at + 1 < count) {
        size_t child = 2 * at + 1;
        if (child + 1 < count && precedes(&all[child + 1], &all[child])) {
            child++;
        }
        if (!precedes(&all[child], &last)) {
            break;
        }
        all[at] = all[child];
        at = child;
    }
    if (count > 0) {
        all[at] = last;
    }
}

static bool is_free(const greedy_run *run, uint32_t item)
{
    return run->result->owners[item] == MUSTER_GREEDY_FREE;
}

/* The free item with the largest bound, or NULL; lent until the block
 * changes. */
static const greedy_entry *look(const greedy_run *run, greedy_block *block)
{
    uint32_t items = run->input->facility->items;
    while (block->cursor < items &&
           !is_free(run, run->first[block->cursor].item)) {
        block->cursor++;
    }
    const greedy_entry *top = block->heap.data;
    while (block->heap.count > 0 && !is_free(run, top->item)) {
        heap_pop(&block->heap);
    }
    const greedy_entry *listed =
        block->cursor < items ? &run->first[block->cursor] : NULL;
    if (block->heap.count == 0) {
        return listed;
    }
    return listed == NULL || precedes(top, listed) ? top : listed;
}

/* Remove what look() showed. */
static greedy_entry remove_entry(greedy_block *block, const greedy_entry *shown)
{
    greedy_entry entry = *shown;
    if (block->heap.count > 0 && shown == block->heap.data) {
        heap_pop(&block->heap);
    } else {
        block->cursor++;
    }
    return entry;
}

/* The free item of largest gain for this block; it leaves the block's lists. */
static muster_status choose(greedy_run *run, greedy_block *block,
                            greedy_entry *pick_out)
{
    for (;;) {
        const greedy_entry *shown = look(run, block);
        MUSTER_ASSERT(shown != NULL); // quotas do not exceed the items
        greedy_entry entry = remove_entry(block, shown);
        if (entry.at == block->count) {
            *pick_out = entry;
            return MUSTER_OK;
        }
        entry.gain =
            muster_facility_gain(run->input->facility, block->best, entry.item);
        entry.at = block->count;
        run->result->evaluations++;
        const greedy_entry *next = look(run, block);
        if (next == NULL || precedes(&entry, next)) {
            *pick_out = entry;
            return MUSTER_OK;
        }
        if (!heap_push(&block->heap, entry)) {
            return MUSTER_ERR_NO_MEMORY;
        }
    }
}

static void take(greedy_run *run, uint32_t number, const greedy_entry *pick)
{
    greedy_block *block = &run->blocks[number];
    muster_greedy_result *result = run->result;
    result->owners[pick->item] = number;
    if (result->places != NULL) {
        result->places[pick->item] = block->count;
    }
    if (result->picks != NULL) {
        result->picks[run->picked] = pick->item;
    }
    if (result->gains != NULL) {
        result->gains[run->picked] = pick->gain;
    }
    block->count++;
    block->value += pick->gain;
    run->picked++;
    muster_facility_take(run->input->facility, block->best, pick->item);
}

/* Whether block a is served before block b. Filled shares are compared as
 * fractions of integers. */
static bool is_before(const greedy_run *run, const greedy_block *a,
                      const greedy_block *b)
{
    if (run->input->turn == MUSTER_PARTITION_ROUND_ROBIN) {
        return (uint64_t)a->count * b->quota < (uint64_t)b->count * a->quota;
    }
    return a->value < b->value;
}

/* The block whose turn it is; `blocks` when all are full. */
static uint32_t whose_turn(const greedy_run *run)
{
    uint32_t turn = run->input->blocks;
    for (uint32_t j = 0; j < run->input->blocks; j++) {
        const greedy_block *block = &run->blocks[j];
        if (block->count < block->quota &&
            (turn == run->input->blocks ||
             is_before(run, block, &run->blocks[turn]))) {
            turn = j;
        }
    }
    return turn;
}

static muster_status deal(greedy_run *run)
{
    const muster_greedy_input *input = run->input;
    uint64_t wanted = 0;
    for (uint32_t j = 0; j < input->blocks; j++) {
        wanted += input->quotas[j];
    }
    MUSTER_ASSERT(wanted <= input->facility->items);
    uint64_t step = wanted / 100 + 1;
    for (;;) {
        uint32_t number = whose_turn(run);
        if (number == input->blocks) {
            return MUSTER_OK;
        }
        greedy_entry pick;
        muster_status status = choose(run, &run->blocks[number], &pick);
        if (status == MUSTER_OK) {
            take(run, number, &pick);
            if (run->picked % step == 0) {
                status = muster_meter_add(input->meter, input->work_ns *
                                                            (double)step /
                                                            (double)wanted);
            }
        }
        if (status != MUSTER_OK) {
            return status;
        }
    }
}

/* First gains, with the `best` of a block that has nothing yet. */
static void sort_items(greedy_run *run)
{
    const muster_facility *facility = run->input->facility;
    const double *known = run->input->first_gains;
    for (uint32_t i = 0; i < facility->items; i++) {
        run->first[i].gain = known != NULL
                                 ? known[i]
                                 : muster_facility_gain(facility, run->best, i);
        run->first[i].item = i;
        run->result->owners[i] = MUSTER_GREEDY_FREE;
    }
    qsort(run->first, facility->items, sizeof(*run->first), compare_entries);
}

static void start_blocks(greedy_run *run)
{
    for (uint32_t j = 0; j < run->input->blocks; j++) {
        run->blocks[j].best =
            run->best + (size_t)j * run->input->facility->clients;
        run->blocks[j].quota = run->input->quotas[j];
        run->blocks[j].heap = muster_vec_make(sizeof(greedy_entry));
    }
}

static void end_blocks(greedy_run *run)
{
    for (uint32_t j = 0; run->blocks != NULL && j < run->input->blocks; j++) {
        run->result->values[j] = run->blocks[j].value;
        muster_vec_fini(&run->blocks[j].heap);
    }
}

muster_status muster_greedy_run(const muster_greedy_input *input,
                                muster_greedy_result *result)
{
    greedy_run run = {.input = input, .result = result};
    size_t clients = input->facility->clients;
    result->evaluations = 0;
    run.first = muster_mem_array(input->facility->items, sizeof(*run.first));
    run.blocks = muster_mem_array(input->blocks, sizeof(*run.blocks));
    run.best = muster_mem_array(clients * input->blocks, sizeof(*run.best));
    muster_status status = MUSTER_ERR_NO_MEMORY;
    if (run.first != NULL && run.blocks != NULL && run.best != NULL) {
        sort_items(&run);
        start_blocks(&run);
        status = deal(&run);
    }
    end_blocks(&run);
    muster_mem_free(run.first);
    muster_mem_free(run.blocks);
    muster_mem_free(run.best);
    return status;
}
