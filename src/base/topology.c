/*
 * topology.c -- reads and writes topologies.
 */
#include "base/topology.h"

#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "base/mem.h"
#include "base/value.h"
#include "base/vec.h"

/* "65536x65536" and its terminating zero. */
#define PIECE_MAX 16u

static muster_status refuse(const char *place, const char *text,
                            muster_error *error)
{
    return muster_error_set(
        error, MUSTER_ERR_INVALID,
        "%s: '%.64s' is no topology; write EDGESxWORKERS such as 4x10, or the "
        "workers under each edge such as 3,4,5,6; at most %u workers",
        place, text, MUSTER_TOPOLOGY_WORKERS_MAX);
}

/* A number from 1 to the limit. */
static bool read_count(const char *text, uint32_t *count_out)
{
    uint64_t value;
    if (text[0] < '0' || text[0] > '9' || !muster_value_uint(text, &value) ||
        value == 0 || value > MUSTER_TOPOLOGY_WORKERS_MAX) {
        return false;
    }
    *count_out = (uint32_t)value;
    return true;
}

/* "10" or "4x10". */
static bool read_piece(const char *text, size_t length, uint32_t *edges_out,
                       uint32_t *workers_out)
{
    char piece[PIECE_MAX];
    if (length == 0 || length >= sizeof(piece)) {
        return false;
    }
    memcpy(piece, text, length);
    piece[length] = '\0';
    char *times = strchr(piece, 'x');
    *edges_out = 1;
    if (times == NULL) {
        return read_count(piece, workers_out);
    }
    *times = '\0';
    return read_count(piece, edges_out) && read_count(times + 1, workers_out);
}

/* Append the edges of one piece. MUSTER_ERR_INVALID: too many workers. */
static muster_status add_edges(muster_vec *sizes, uint32_t edges,
                               uint32_t workers, uint32_t *total)
{
    if ((uint64_t)edges * workers > MUSTER_TOPOLOGY_WORKERS_MAX - *total) {
        return MUSTER_ERR_INVALID;
    }
    for (uint32_t i = 0; i < edges; i++) {
        if (!muster_vec_append(sizes, &workers, 1)) {
            return MUSTER_ERR_NO_MEMORY;
        }
    }
    *total += edges * workers;
    return MUSTER_OK;
}

muster_status muster_topology_parse(const char *place, const char *text,
                                    muster_error *error_out,
                                    muster_topology *topology_out)
{
    muster_vec sizes = muster_vec_make(sizeof(uint32_t));
    uint32_t total = 0;
    muster_status status = MUSTER_OK;
    const char *at = text;
    for (bool more = true; status == MUSTER_OK && more;) {
        uint32_t edges;
        uint32_t workers;
        size_t length = strcspn(at, ",");
        status = MUSTER_ERR_INVALID;
        if (read_piece(at, length, &edges, &workers)) {
            status = add_edges(&sizes, edges, workers, &total);
        }
        more = at[length] == ',';
        at += length + more;
    }
    if (status == MUSTER_OK) {
        *topology_out =
            (muster_topology){(uint32_t)sizes.count, total, sizes.data};
        return MUSTER_OK;
    }
    muster_vec_fini(&sizes);
    return status == MUSTER_ERR_INVALID
               ? refuse(place, text, error_out)
               : muster_error_set(error_out, status, "%s: no memory", place);
}

void muster_topology_fini(muster_topology *topology)
{
    muster_mem_free(topology->sizes);
    memset(topology, 0, sizeof(*topology));
}

char *muster_topology_text(const muster_topology *topology)
{
    size_t room = (size_t)topology->edges * PIECE_MAX + PIECE_MAX;
    char *text = muster_mem_array(room, 1);
    if (text == NULL) {
        return NULL;
    }
    bool equal = topology->edges > 1;
    for (uint32_t i = 1; i < topology->edges; i++) {
        equal = equal && topology->sizes[i] == topology->sizes[0];
    }
    if (equal) {
        (void)snprintf(text, room, "%ux%u", topology->edges,
                       topology->sizes[0]);
        return text;
    }
    size_t at = 0;
    for (uint32_t i = 0; i < topology->edges; i++) {
        at += (size_t)snprintf(text + at, room - at, "%s%u", i > 0 ? "," : "",
                               topology->sizes[i]);
    }
    return text;
}
