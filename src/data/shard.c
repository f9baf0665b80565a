/*
 * shard.c -- write a shard, and check one before it is used.
 *
 * The arrays' places follow from the header alone (layout()), so the header
 * carries no offsets that could lie. Order of checks: sizes, so that every
 * array lies inside; then contents, so that a model may trust them.
 */
#include "data/shard.h"

#include <stdbool.h>
#include <string.h>

#include "base/assert.h"
#include "base/error.h"
#include "data/table.h"

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__,
               "shards are used in place: the machine must be little-endian");

#define SHARD_ALIGNMENT 64u
#define SHARD_VERSION   1u

typedef struct shard_header {
    char magic[8];
    uint32_t version;
    uint32_t number;
    uint32_t count;
    uint32_t features;
    uint32_t sparse;
    uint32_t zero;
    uint64_t entries;
    uint64_t bytes;
    uint64_t zeros[2];
} shard_header;

_Static_assert(sizeof(shard_header) == SHARD_ALIGNMENT, "layout of a shard");

static const char shard_magic[8] = {'M', 'U', 'S', 'T', 'S', 'H', 'R', 'D'};

// Where the arrays begin, and where the shard ends.
typedef struct shard_layout {
    uint64_t ids;
    uint64_t labels;
    uint64_t offsets; // sparse only
    uint64_t columns; // sparse only
    uint64_t values;
    uint64_t end;
} shard_layout;

static uint64_t align(uint64_t offset)
{
    return (offset + SHARD_ALIGNMENT - 1) / SHARD_ALIGNMENT * SHARD_ALIGNMENT;
}

static shard_layout layout(const shard_header *header)
{
    shard_layout at = {.ids = sizeof(*header)};
    at.labels = align(at.ids + (uint64_t)header->count * sizeof(uint32_t));
    at.values = align(at.labels + (uint64_t)header->count * sizeof(float));
    if (header->sparse) {
        at.offsets = at.values;
        at.columns = align(at.offsets +
                           ((uint64_t)header->count + 1) * sizeof(uint64_t));
        at.values = align(at.columns + header->entries * sizeof(uint32_t));
    }
    at.end = align(at.values + header->entries * sizeof(float));
    return at;
}

static shard_header describe(uint32_t number, const muster_rows *rows)
{
    shard_header header = {
        .version = SHARD_VERSION,
        .number = number,
        .count = rows->count,
        .features = rows->features,
        .sparse = rows->dense == NULL,
        .entries = (uint64_t)rows->count * rows->features,
    };
    memcpy(header.magic, shard_magic, sizeof(shard_magic));
    if (header.sparse) {
        header.entries = rows->offsets[rows->count] - rows->offsets[0];
    }
    header.bytes = layout(&header).end;
    return header;
}

size_t muster_shard_bytes(const muster_rows *rows)
{
    return describe(0, rows).bytes;
}

static void copy(uint8_t *to, const void *from, size_t bytes)
{
    if (bytes > 0) {
        memcpy(to, from, bytes);
    }
}

static void zero_gap(uint8_t *bytes, uint64_t from)
{
    memset(bytes + from, 0, align(from) - from);
}

static void write_dense(const muster_rows *rows, uint8_t *to)
{
    size_t row_bytes = rows->features * sizeof(float);
    for (uint32_t r = 0; r < rows->count; r++) {
        memcpy(to + r * row_bytes, rows->dense + r * rows->stride, row_bytes);
    }
}

static void write_sparse(const muster_rows *rows, const shard_header *header,
                         const shard_layout *at, uint8_t *bytes)
{
    uint64_t first = rows->offsets[0];
    for (uint64_t r = 0; r <= rows->count; r++) {
        uint64_t offset = rows->offsets[r] - first;
        memcpy(bytes + at->offsets + r * sizeof(offset), &offset,
               sizeof(offset));
    }
    zero_gap(bytes, at->offsets + (rows->count + (uint64_t)1) * 8);
    size_t entry_bytes = header->entries * sizeof(uint32_t);
    copy(bytes + at->columns, rows->columns + first, entry_bytes);
    zero_gap(bytes, at->columns + entry_bytes);
    copy(bytes + at->values, rows->values + first, entry_bytes);
}

// Everything but the sample ids.
static void write_rows(uint32_t number, const muster_rows *rows, uint8_t *bytes)
{
    MUSTER_ASSERT(rows->labels != NULL && (uintptr_t)bytes % 8 == 0);
    shard_header header = describe(number, rows);
    shard_layout at = layout(&header);
    size_t column_bytes = rows->count * sizeof(uint32_t);
    memcpy(bytes, &header, sizeof(header));
    zero_gap(bytes, at.ids + column_bytes);
    copy(bytes + at.labels, rows->labels, column_bytes);
    zero_gap(bytes, at.labels + column_bytes);
    if (header.sparse) {
        write_sparse(rows, &header, &at, bytes);
    } else {
        write_dense(rows, bytes + at.values);
    }
    zero_gap(bytes, at.values + header.entries * sizeof(float));
}

void muster_shard_write(uint32_t number, const uint32_t *sample_ids,
                        const muster_rows *rows, void *bytes)
{
    write_rows(number, rows, bytes);
    copy((uint8_t *)bytes + sizeof(shard_header), sample_ids,
         rows->count * sizeof(uint32_t));
}

void muster_shard_write_range(uint32_t number, uint32_t first_sample,
                              const muster_rows *rows, void *bytes)
{
    write_rows(number, rows, bytes);
    uint8_t *ids = (uint8_t *)bytes + sizeof(shard_header);
    for (uint32_t r = 0; r < rows->count; r++) {
        uint32_t id = first_sample + r;
        memcpy(ids + r * sizeof(id), &id, sizeof(id));
    }
}

static shard_header describe_listed(uint32_t number, const uint32_t *ids,
                                    uint32_t count, const muster_rows *all)
{
    muster_rows rows = {.count = count,
                        .features = all->features,
                        .dense = all->dense,
                        .offsets = all->offsets};
    if (all->dense != NULL) {
        return describe(number, &rows);
    }
    rows.count = 0; // its entries are counted below
    shard_header header = describe(number, &rows);
    header.count = count;
    header.entries = 0;
    for (uint32_t r = 0; r < count; r++) {
        header.entries += all->offsets[ids[r] + 1] - all->offsets[ids[r]];
    }
    header.bytes = layout(&header).end;
    return header;
}

size_t muster_shard_bytes_listed(const muster_rows *all, const uint32_t *ids,
                                 uint32_t count)
{
    return describe_listed(0, ids, count, all).bytes;
}

static void list_sparse(const uint32_t *ids, uint32_t count,
                        const muster_rows *all, const shard_layout *at,
                        uint8_t *bytes)
{
    uint64_t done = 0;
    for (uint32_t r = 0; r < count; r++) {
        uint64_t from = all->offsets[ids[r]];
        uint64_t entries = all->offsets[ids[r] + 1] - from;
        memcpy(bytes + at->offsets + r * sizeof(done), &done, sizeof(done));
        copy(bytes + at->columns + done * sizeof(uint32_t), all->columns + from,
             entries * sizeof(uint32_t));
        copy(bytes + at->values + done * sizeof(float), all->values + from,
             entries * sizeof(float));
        done += entries;
    }
    memcpy(bytes + at->offsets + count * sizeof(done), &done, sizeof(done));
}

static void list_dense(const uint32_t *ids, uint32_t count,
                       const muster_rows *all, uint8_t *to)
{
    size_t row_bytes = all->features * sizeof(float);
    for (uint32_t r = 0; r < count; r++) {
        memcpy(to + r * row_bytes, all->dense + ids[r] * all->stride,
               row_bytes);
    }
}

void muster_shard_write_listed(uint32_t number, const uint32_t *ids,
                               uint32_t count, const muster_rows *all,
                               void *bytes)
{
    MUSTER_ASSERT(all->labels != NULL && (uintptr_t)bytes % 8 == 0);
    shard_header header = describe_listed(number, ids, count, all);
    shard_layout at = layout(&header);
    memset(bytes, 0, header.bytes); // the gaps
    memcpy(bytes, &header, sizeof(header));
    copy((uint8_t *)bytes + at.ids, ids, count * sizeof(*ids));
    for (uint32_t r = 0; r < count; r++) {
        memcpy((uint8_t *)bytes + at.labels + r * sizeof(float),
               &all->labels[ids[r]], sizeof(float));
    }
    if (header.sparse) {
        list_sparse(ids, count, all, &at, bytes);
    } else {
        list_dense(ids, count, all, (uint8_t *)bytes + at.values);
    }
}

// The reason why the header cannot be that of `size` bytes, or NULL.
static const char *check_header(const shard_header *header, size_t size)
{
    if (memcmp(header->magic, shard_magic, sizeof(shard_magic)) != 0) {
        return "it does not begin with MUSTSHRD";
    }
    if (header->version != SHARD_VERSION) {
        return "it is of another version";
    }
    if (header->bytes != size) {
        return "its length is not the one it states";
    }
    if (header->sparse > 1 || header->zero != 0 || header->zeros[0] != 0 ||
        header->zeros[1] != 0) {
        return "its header has unknown flags";
    }
    if (header->features == 0 || header->features > MUSTER_TABLE_FEATURES_MAX) {
        return "its number of features is out of range";
    }
    if (header->sparse) {
        // Bounds the sums of layout() before they are made.
        if (header->entries > size / (2 * sizeof(float))) {
            return "it states more entries than it has room for";
        }
    } else if (header->entries != (uint64_t)header->count * header->features) {
        return "its entries are not samples times features";
    }
    return layout(header).end == size ? NULL
                                      : "its arrays do not fill its length";
}

static bool all_finite(const float *values, uint64_t count)
{
    uint32_t bad = 0;
    for (uint64_t i = 0; i < count; i++) {
        uint32_t bits;
        memcpy(&bits, &values[i], sizeof(bits));
        bad |= (bits & 0x7f800000u) == 0x7f800000u;
    }
    return bad == 0;
}

static bool ids_ascend(const uint32_t *ids, uint32_t count)
{
    for (uint32_t r = 1; r < count; r++) {
        if (ids[r] <= ids[r - 1]) {
            return false;
        }
    }
    return true;
}

static const char *check_sparse(const muster_rows *rows, uint64_t entries)
{
    const uint64_t *offsets = rows->offsets;
    if (offsets[0] != 0 || offsets[rows->count] != entries) {
        return "its offsets do not span its entries";
    }
    for (uint32_t r = 0; r < rows->count; r++) {
        if (offsets[r + 1] < offsets[r] || offsets[r + 1] > entries) {
            return "its offsets do not ascend";
        }
        for (uint64_t e = offsets[r]; e < offsets[r + 1]; e++) {
            if (rows->columns[e] >= rows->features) {
                return "a column is not below its features";
            }
            if (e > offsets[r] && rows->columns[e] <= rows->columns[e - 1]) {
                return "columns do not ascend in a row";
            }
        }
    }
    return NULL;
}

static bool gap_is_zero(const uint8_t *bytes, uint64_t from)
{
    uint8_t any = 0;
    for (uint64_t i = from; i < align(from); i++) {
        any |= bytes[i];
    }
    return any == 0;
}

static bool gaps_are_zero(const uint8_t *bytes, const shard_header *header,
                          const shard_layout *at)
{
    uint64_t count_bytes = (uint64_t)header->count * sizeof(uint32_t);
    uint64_t entry_bytes = header->entries * sizeof(float);
    return gap_is_zero(bytes, at->ids + count_bytes) &&
           gap_is_zero(bytes, at->labels + count_bytes) &&
           gap_is_zero(bytes, at->values + entry_bytes) &&
           (!header->sparse ||
            (gap_is_zero(bytes,
                         at->offsets + ((uint64_t)header->count + 1) * 8) &&
             gap_is_zero(bytes, at->columns + entry_bytes)));
}

static const char *check_contents(const uint8_t *bytes,
                                  const shard_header *header,
                                  const shard_layout *at,
                                  const muster_shard *shard)
{
    const float *values =
        header->sparse ? shard->rows.values : shard->rows.dense;
    if (!ids_ascend(shard->sample_ids, header->count)) {
        return "its sample numbers do not ascend";
    }
    if (!all_finite(shard->rows.labels, header->count) ||
        !all_finite(values, header->entries)) {
        return "a label or value is not finite";
    }
    if (!gaps_are_zero(bytes, header, at)) {
        return "the gaps between its arrays are not zero";
    }
    return header->sparse ? check_sparse(&shard->rows, header->entries) : NULL;
}

static muster_shard view(const uint8_t *bytes, const shard_header *header,
                         const shard_layout *at)
{
    // Each place is 64-byte aligned from the start, which is at least 8.
    muster_shard shard = {.number = header->number};
    shard.sample_ids = (const void *)(bytes + at->ids);
    shard.rows.count = header->count;
    shard.rows.features = header->features;
    shard.rows.labels = (const void *)(bytes + at->labels);
    if (header->sparse) {
        shard.rows.offsets = (const void *)(bytes + at->offsets);
        shard.rows.columns = (const void *)(bytes + at->columns);
        shard.rows.values = (const void *)(bytes + at->values);
    } else {
        shard.rows.dense = (const void *)(bytes + at->values);
        shard.rows.stride = header->features;
    }
    return shard;
}

muster_status muster_shard_open(const void *bytes, size_t size,
                                muster_error *error_out,
                                muster_shard *shard_out)
{
    MUSTER_ASSERT((uintptr_t)bytes % 8 == 0);
    const char *reason = "it is shorter than its header";
    if (size >= sizeof(shard_header)) {
        shard_header header;
        memcpy(&header, bytes, sizeof(header));
        reason = check_header(&header, size);
        if (reason == NULL) {
            shard_layout at = layout(&header);
            muster_shard shard = view(bytes, &header, &at);
            reason = check_contents(bytes, &header, &at, &shard);
            if (reason == NULL) {
                *shard_out = shard;
                return MUSTER_OK;
            }
        }
    }
    return muster_error_set(error_out, MUSTER_ERR_PROTOCOL,
                            "%zu bytes are not a shard of the data: %s", size,
                            reason);
}

uint32_t muster_shard_find(const muster_shard *shard, uint32_t sample)
{
    uint32_t count = shard->rows.count;
    const uint32_t *ids = shard->sample_ids;
    if (count == 0 || sample < ids[0] || sample > ids[count - 1]) {
        return UINT32_MAX;
    }
    if (ids[count - 1] - ids[0] == count - 1) {
        return sample - ids[0];
    }
    uint32_t low = 0;
    uint32_t high = count - 1;
    while (low < high) {
        uint32_t middle = low + (high - low) / 2;
        if (ids[middle] < sample) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return ids[low] == sample ? low : UINT32_MAX;
}
