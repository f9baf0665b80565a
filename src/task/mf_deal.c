/*
 * mf_deal.c -- which rows are whose.
 *
 * Parts are to have as many cells each, and to take as long: a worker whose
 * rows are few and heavy finds them in its cache, one with all the light ones
 * does not. So rows are dealt, the heaviest first, each to the part that has
 * the fewest cells yet. Light rows go in groups of neighbours, whose words in
 * the table share a line of the cache.
 */
#include <stdlib.h>

#include "base/assert.h"
#include "base/mem.h"
#include "task/mf.h"
#include "task/mf_deal.h"

#define GROUP_ROWS 8u // neighbours that stay together
#define GROUP_PART 64 // unless they have so much of a part's cells already

static int by_row(const void *a, const void *b)
{
    const muster_mf_group *x = a;
    const muster_mf_group *y = b;
    return (x->row > y->row) - (x->row < y->row);
}

static int by_cells(const void *a, const void *b)
{
    const muster_mf_group *x = a;
    const muster_mf_group *y = b;
    if (x->cells != y->cells) {
        return x->cells > y->cells ? -1 : 1;
    }
    return by_row(a, b);
}

static int by_part(const void *a, const void *b)
{
    const muster_mf_group *x = a;
    const muster_mf_group *y = b;
    if (x->part != y->part) {
        return x->part < y->part ? -1 : 1;
    }
    return by_row(a, b);
}

/* Does the group end before `row`? */
static bool full(const muster_mf *m, const muster_mf_group *group, uint32_t row)
{
    uint64_t max = m->train.count / GROUP_PART / m->parts;
    return row / GROUP_ROWS != group->row / GROUP_ROWS || group->cells > max;
}

/* Groups over all rows, those without cells too: `sorted` are the rows of all
 * cells. Each begins with a row that has cells, but for the first. */
static void gather(muster_mf *m, const uint32_t *sorted)
{
    muster_mf_group *group = m->groups;
    *group = (muster_mf_group){.row = 0};
    for (uint64_t i = 0; i < m->train.count; i++) {
        bool next = i > 0 && sorted[i] != sorted[i - 1];
        if (next && full(m, group, sorted[i])) {
            group->end = sorted[i];
            *++group = (muster_mf_group){.row = sorted[i]};
        }
        group->cells++;
    }
    group->end = m->train.rows;
    m->group_count = (uint64_t)(group - m->groups) + 1;
    muster_mf_group *fewer =
        muster_mem_resize(m->groups, m->group_count, sizeof(*fewer));
    m->groups = fewer != NULL ? fewer : m->groups;
}

/* A part and the cells it has; a heap of them has the least at its top. */
typedef struct hand {
    uint64_t cells;
    uint32_t part;
} hand;

static bool less(const hand *a, const hand *b)
{
    return a->cells != b->cells ? a->cells < b->cells : a->part < b->part;
}

static void sink_top(hand *heap, uint32_t count)
{
    for (uint32_t at = 0; 2 * at + 1 < count;) {
        uint32_t child = 2 * at + 1;
        child += child + 1 < count && less(&heap[child + 1], &heap[child]);
        if (!less(&heap[child], &heap[at])) {
            return;
        }
        hand moved = heap[at];
        heap[at] = heap[child];
        heap[child] = moved;
        at = child;
    }
}

static void deal(muster_mf *m, hand *heap)
{
    for (uint32_t part = 0; part < m->parts; part++) {
        heap[part] = (hand){0, part};
    }
    for (uint64_t i = 0; i < m->group_count; i++) {
        m->groups[i].part = heap[0].part;
        heap[0].cells += m->groups[i].cells;
        sink_top(heap, m->parts);
    }
}

muster_status muster_mf_deal(muster_mf *m, const uint32_t *sorted)
{
    MUSTER_ASSERT(m->parts > 0 && m->train.count > 0);
    hand *heap = muster_mem_array(m->parts, sizeof(*heap));
    m->groups = muster_mem_array(m->train.count, sizeof(*m->groups));
    bool built = heap != NULL && m->groups != NULL;
    if (built) {
        gather(m, sorted);
        qsort(m->groups, m->group_count, sizeof(*m->groups), by_cells);
        deal(m, heap);
        qsort(m->groups, m->group_count, sizeof(*m->groups), by_row);
    }
    muster_mem_free(heap);
    return built ? MUSTER_OK : MUSTER_ERR_NO_MEMORY;
}

uint32_t muster_mf_part_of(const muster_mf *m, uint32_t row)
{
    MUSTER_ASSERT(m->parts_at[m->parts].group == 0); // still in order
    uint64_t low = 0;
    uint64_t high = m->group_count - 1;
    while (low < high) {
        uint64_t middle = low + (high - low + 1) / 2;
        if (m->groups[middle].row <= row) {
            low = middle;
        } else {
            high = middle - 1;
        }
    }
    return m->groups[low].part;
}

void muster_mf_dealt(muster_mf *m)
{
    qsort(m->groups, m->group_count, sizeof(*m->groups), by_part);
    for (uint64_t i = 0; i < m->group_count; i++) {
        m->parts_at[m->groups[i].part + 1].group = i + 1;
    }
    for (uint32_t part = 0; part < m->parts; part++) {
        // A part without any begins where the one before it ended.
        muster_mf_part *next = &m->parts_at[part + 1];
        uint64_t start = m->parts_at[part].group;
        next->group = next->group > start ? next->group : start;
    }
}

muster_mf_cursor muster_mf_rows_of(const muster_mf *m, uint32_t part,
                                   uint32_t end)
{
    muster_mf_cursor at = {.group = m->groups + m->parts_at[part].group,
                           .end = m->groups + m->parts_at[end].group};
    at.row = at.group < at.end ? at.group->row : 0;
    return at;
}

uint32_t muster_mf_next_rows(muster_mf_cursor *at, uint32_t *rows_out,
                             uint32_t max)
{
    uint32_t count = 0;
    while (count < max && at->group < at->end) {
        rows_out[count++] = at->row++;
        if (at->row == at->group->end && ++at->group < at->end) {
            at->row = at->group->row;
        }
    }
    return count;
}
