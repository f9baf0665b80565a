/*
 * file_read.c -- reads cluster files, by base/yaml.h.
 *
 * A map is read through a table of its keys: each has a function that takes its
 * value, and a key without a row is refused with the nearest name.
 */
#include <errno.h>
#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "base/mem.h"
#include "base/suggest.h"
#include "base/value.h"
#include "base/vec.h"
#include "base/yaml.h"
#include "cluster/file.h"

#define LOSS_MAX      0.999
#define MBIT          (1e6 / 8)
#define BANDWIDTH_MAX 1e9 // Mbit/s, as --bandwidth
#define SPEED_MAX     1e9
#define TIME_MAX_S    3600.0

typedef struct reader {
    const muster_yaml *yaml;
    muster_error *error;
    muster_cluster_worker worker; // defaults
    muster_cluster_edge edge;
    muster_vec workers; // muster_cluster_worker
    muster_vec edges;   // muster_cluster_edge
    double bytes_per_s; // of the coordinator
    uint32_t processors;
} reader;

static muster_status refuse(const reader *r, const muster_yaml_node *node,
                            const char *why)
{
    muster_error refused = {MUSTER_OK, ""};
    // For base/yaml.h it is the caller's text; here it is a file.
    if (muster_yaml_refuse(r->yaml, node, why, &refused) != MUSTER_OK) {
        return muster_error_set(r->error, MUSTER_ERR_INPUT, "%s", refused.text);
    }
    return MUSTER_ERR_INPUT;
}

/* Takes the value of one key into what `to` points at. */
typedef muster_status (*take_value)(reader *r, const muster_yaml_node *node,
                                    void *to);

typedef struct key_row {
    const char *key; // NULL ends a table
    take_value take;
    size_t offset;
} key_row;

static muster_status unknown_key(const reader *r, const muster_yaml_node *node,
                                 const key_row *rows)
{
    muster_suggestion meant =
        muster_suggestion_make(node->key, strlen(node->key));
    muster_error found = {MUSTER_OK, ""};
    for (; rows->key != NULL; rows++) {
        muster_suggestion_add(&meant, rows->key);
    }
    muster_status status = muster_suggestion_fail(&meant, "key ", &found);
    return status != MUSTER_OK ? refuse(r, node, found.text) : status;
}

static muster_status read_map(reader *r, const muster_yaml_node *map,
                              const key_row *rows, void *into)
{
    if (map->kind != MUSTER_YAML_MAP) {
        return refuse(r, map, "expected keys and values");
    }
    for (const muster_yaml_node *node = map->first; node != NULL;
         node = node->next) {
        const key_row *row = rows;
        while (row->key != NULL && strcmp(row->key, node->key) != 0) {
            row++;
        }
        if (row->key == NULL) {
            return unknown_key(r, node, rows);
        }
        muster_status status =
            row->take(r, node, (uint8_t *)into + row->offset);
        if (status != MUSTER_OK) {
            return status;
        }
    }
    return MUSTER_OK;
}

/* ---- values -------------------------------------------------------------- */

static muster_status take_number(const reader *r, const muster_yaml_node *node,
                                 double min, double max, double *to)
{
    char why[96];
    double value = 0;
    if (node->kind != MUSTER_YAML_SCALAR ||
        !muster_value_double(node->text, &value) || value < min ||
        value > max) {
        (void)snprintf(why, sizeof(why), "expected a number from %g to %g", min,
                       max);
        return refuse(r, node, why);
    }
    *to = value;
    return MUSTER_OK;
}

static muster_status take_time(reader *r, const muster_yaml_node *node,
                               void *to)
{
    double seconds = 0;
    if (node->kind != MUSTER_YAML_SCALAR ||
        !muster_value_duration_s(node->text, &seconds) ||
        seconds > TIME_MAX_S) {
        return refuse(r, node, "expected a time such as 20ms, at most 1h");
    }
    *(double *)to = seconds;
    return MUSTER_OK;
}

static muster_status take_loss(reader *r, const muster_yaml_node *node,
                               void *to)
{
    return take_number(r, node, 0, LOSS_MAX, to);
}

static muster_status take_speed(reader *r, const muster_yaml_node *node,
                                void *to)
{
    return take_number(r, node, 1 / SPEED_MAX, SPEED_MAX, to);
}

static muster_status take_bandwidth(reader *r, const muster_yaml_node *node,
                                    void *to)
{
    double mbit = 0;
    muster_status status = take_number(r, node, 1e-3, BANDWIDTH_MAX, &mbit);
    if (status == MUSTER_OK) {
        *(double *)to = mbit * MBIT;
    }
    return status;
}

static muster_status take_count(reader *r, const muster_yaml_node *node,
                                void *to)
{
    uint64_t value = 0;
    if (node->kind != MUSTER_YAML_SCALAR ||
        !muster_value_uint(node->text, &value) || value == 0 ||
        value > MUSTER_CLUSTER_WORKERS_MAX) {
        return refuse(r, node, "expected a whole number from 1 to 65536");
    }
    *(uint32_t *)to = (uint32_t)value;
    return MUSTER_OK;
}

static muster_status take_link(reader *r, const muster_yaml_node *node,
                               void *to)
{
    static const key_row rows[] = {
        {"latency", take_time, offsetof(muster_cluster_link, latency_s)},
        {"bandwidth", take_bandwidth,
         offsetof(muster_cluster_link, bytes_per_s)},
        {"loss", take_loss, offsetof(muster_cluster_link, loss)},
        {NULL, NULL, 0},
    };
    return read_map(r, node, rows, to);
}

static muster_status take_compute(reader *r, const muster_yaml_node *node,
                                  void *to)
{
    static const key_row rows[] = {
        {"shift", take_time, offsetof(muster_cluster_worker, shift_s)},
        {"mean", take_time, offsetof(muster_cluster_worker, mean_s)},
        {NULL, NULL, 0},
    };
    return read_map(r, node, rows, to);
}

/* ---- machines ------------------------------------------------------------ */

typedef struct worker_entry {
    muster_cluster_worker worker;
    uint32_t count;
} worker_entry;

static const key_row worker_rows[] = {
    {"speed", take_speed, offsetof(worker_entry, worker.speed)},
    {"compute", take_compute, offsetof(worker_entry, worker)},
    {"link", take_link, offsetof(worker_entry, worker.link)},
    {"count", take_count, offsetof(worker_entry, count)},
    {NULL, NULL, 0},
};

static muster_status no_memory(const reader *r)
{
    return muster_error_set(r->error, MUSTER_ERR_NO_MEMORY,
                            "no memory for the cluster file");
}

static muster_status read_worker(reader *r, const muster_yaml_node *node)
{
    worker_entry entry = {r->worker, 1};
    muster_status status = read_map(r, node, worker_rows, &entry);
    if (status != MUSTER_OK) {
        return status;
    }
    if (entry.count > MUSTER_CLUSTER_WORKERS_MAX - r->workers.count) {
        return refuse(r, node, "more than 65536 workers in all");
    }
    for (uint32_t i = 0; i < entry.count; i++) {
        if (!muster_vec_append(&r->workers, &entry.worker, 1)) {
            return no_memory(r);
        }
    }
    return MUSTER_OK;
}

/* Read every entry of a list that has one at least. */
static muster_status
read_list(reader *r, const muster_yaml_node *list, const char *expected,
          muster_status (*read)(reader *r, const muster_yaml_node *))
{
    if (list->kind != MUSTER_YAML_LIST || list->count == 0) {
        return refuse(r, list, expected);
    }
    muster_status status = MUSTER_OK;
    for (const muster_yaml_node *entry = list->first;
         status == MUSTER_OK && entry != NULL; entry = entry->next) {
        status = read(r, entry);
    }
    return status;
}

/* `to` is not used: workers go to the reader's list. */
static muster_status take_workers(reader *r, const muster_yaml_node *node,
                                  void *to)
{
    (void)to;
    return read_list(r, node, "expected a list of workers, one at least",
                     read_worker);
}

typedef struct edge_entry {
    muster_cluster_edge edge;
    uint32_t count;
} edge_entry;

static const key_row edge_rows[] = {
    {"link", take_link, offsetof(edge_entry, edge.link)},
    {"bandwidth", take_bandwidth, offsetof(edge_entry, edge.bytes_per_s)},
    {"count", take_count, offsetof(edge_entry, count)},
    {"workers", take_workers, 0},
    {NULL, NULL, 0},
};

/* Append the workers [first, first + count) once more. */
static bool repeat_workers(reader *r, uint32_t first, uint32_t count)
{
    if (!muster_vec_reserve(&r->workers, r->workers.count + count)) {
        return false;
    }
    const muster_cluster_worker *all = r->workers.data;
    return muster_vec_append(&r->workers, all + first, count);
}

static muster_status read_edge(reader *r, const muster_yaml_node *node)
{
    edge_entry entry = {r->edge, 1};
    entry.edge.first = (uint32_t)r->workers.count;
    muster_status status = read_map(r, node, edge_rows, &entry);
    if (status != MUSTER_OK) {
        return status;
    }
    entry.edge.workers = (uint32_t)r->workers.count - entry.edge.first;
    if (entry.edge.workers == 0) {
        return refuse(r, node, "an edge needs `workers`");
    }
    uint32_t source = entry.edge.first;
    for (uint32_t i = 0; i < entry.count; i++) {
        if (i > 0 && entry.edge.workers >
                         MUSTER_CLUSTER_WORKERS_MAX - r->workers.count) {
            return refuse(r, node, "more than 65536 workers in all");
        }
        if (i > 0) {
            entry.edge.first = (uint32_t)r->workers.count;
            if (!repeat_workers(r, source, entry.edge.workers)) {
                return no_memory(r);
            }
        }
        if (!muster_vec_append(&r->edges, &entry.edge, 1)) {
            return no_memory(r);
        }
    }
    return MUSTER_OK;
}

static muster_status take_edges(reader *r, const muster_yaml_node *node,
                                void *to)
{
    (void)to;
    return read_list(r, node, "expected a list of edges, one at least",
                     read_edge);
}

/* ---- the top ------------------------------------------------------------- */

static muster_status take_worker_default(reader *r,
                                         const muster_yaml_node *node, void *to)
{
    worker_entry entry = {r->worker, 1};
    (void)to;
    muster_status status = read_map(r, node, worker_rows, &entry);
    if (status == MUSTER_OK && muster_yaml_get(node, "count") != NULL) {
        return refuse(r, muster_yaml_get(node, "count"),
                      "a default has no count");
    }
    r->worker = entry.worker;
    return status;
}

static muster_status take_edge_default(reader *r, const muster_yaml_node *node,
                                       void *to)
{
    static const key_row rows[] = {
        {"link", take_link, offsetof(muster_cluster_edge, link)},
        {"bandwidth", take_bandwidth,
         offsetof(muster_cluster_edge, bytes_per_s)},
        {NULL, NULL, 0},
    };
    (void)to;
    return read_map(r, node, rows, &r->edge);
}

static muster_status take_defaults(reader *r, const muster_yaml_node *node,
                                   void *to)
{
    static const key_row rows[] = {
        {"worker", take_worker_default, 0},
        {"edge", take_edge_default, 0},
        {NULL, NULL, 0},
    };
    return read_map(r, node, rows, to);
}

static muster_status take_coordinator(reader *r, const muster_yaml_node *node,
                                      void *to)
{
    static const key_row rows[] = {
        {"bandwidth", take_bandwidth, offsetof(reader, bytes_per_s)},
        {NULL, NULL, 0},
    };
    return read_map(r, node, rows, to);
}

static muster_status take_processors(reader *r, const muster_yaml_node *node,
                                     void *to)
{
    uint64_t processors = 0;
    (void)to;
    if (node->kind != MUSTER_YAML_SCALAR ||
        !muster_value_uint(node->text, &processors) || processors < 1 ||
        processors > MUSTER_CLUSTER_WORKERS_MAX) {
        return refuse(r, node, "expected a number from 1 to 65536");
    }
    r->processors = (uint32_t)processors;
    return MUSTER_OK;
}

static muster_status take_version(reader *r, const muster_yaml_node *node,
                                  void *to)
{
    uint64_t version = 0;
    (void)to;
    if (node->kind != MUSTER_YAML_SCALAR ||
        !muster_value_uint(node->text, &version) ||
        version != MUSTER_CLUSTER_VERSION) {
        return refuse(r, node, "this version reads cluster files of version 1");
    }
    return MUSTER_OK;
}

/* Keys are taken in this order, wherever they stand: defaults come first. */
static muster_status read_top(reader *r, const muster_yaml_node *top)
{
    static const key_row rows[] = {
        {"version", take_version, 0},
        {"defaults", take_defaults, 0},
        {"coordinator", take_coordinator, 0},
        {"processors", take_processors, 0},
        {"edges", take_edges, 0},
        {"workers", take_workers, 0},
        {NULL, NULL, 0},
    };
    if (top->kind != MUSTER_YAML_MAP) {
        return refuse(r, top, "expected `version: 1` and `workers` or `edges`");
    }
    if (muster_yaml_get(top, "version") == NULL) {
        return refuse(r, top, "`version: 1` is missing");
    }
    const muster_yaml_node *edges = muster_yaml_get(top, "edges");
    const muster_yaml_node *workers = muster_yaml_get(top, "workers");
    if ((edges == NULL) == (workers == NULL)) {
        return refuse(r, edges != NULL ? edges : top,
                      "give `workers`, or `edges` with their workers");
    }
    for (const muster_yaml_node *node = top->first; node != NULL;
         node = node->next) {
        const key_row *row = rows;
        while (row->key != NULL && strcmp(row->key, node->key) != 0) {
            row++;
        }
        if (row->key == NULL) {
            return unknown_key(r, node, rows);
        }
    }
    muster_status status = MUSTER_OK;
    for (const key_row *row = rows; status == MUSTER_OK && row->key != NULL;
         row++) {
        const muster_yaml_node *node = muster_yaml_get(top, row->key);
        status = node != NULL ? row->take(r, node, r) : MUSTER_OK;
    }
    return status;
}

static muster_status read_tree(reader *r, muster_cluster **cluster_out)
{
    const muster_yaml_node *top = muster_yaml_top(r->yaml);
    static const muster_yaml_node nothing = {.kind = MUSTER_YAML_SCALAR,
                                             .line = 1};
    muster_status status = read_top(r, top != NULL ? top : &nothing);
    muster_cluster *cluster =
        status == MUSTER_OK ? muster_mem_array(1, sizeof(*cluster)) : NULL;
    if (cluster == NULL) {
        muster_vec_fini(&r->workers);
        muster_vec_fini(&r->edges);
        return status == MUSTER_OK ? no_memory(r) : status;
    }
    cluster->workers = r->workers.data; // the arrays are handed over
    cluster->worker_count = (uint32_t)r->workers.count;
    cluster->edges = r->edges.data;
    cluster->edge_count = (uint32_t)r->edges.count;
    cluster->bytes_per_s = r->bytes_per_s;
    cluster->processors = r->processors;
    *cluster_out = cluster;
    return MUSTER_OK;
}

muster_status muster_cluster_parse(const char *text, size_t size,
                                   const char *file, muster_error *error_out,
                                   muster_cluster **cluster_out)
{
    muster_yaml *yaml = NULL;
    muster_status status =
        muster_yaml_parse(text, size, file, error_out, &yaml);
    if (status == MUSTER_ERR_INVALID) {
        if (error_out != NULL) {
            error_out->status = MUSTER_ERR_INPUT;
        }
        return MUSTER_ERR_INPUT;
    }
    if (status != MUSTER_OK) {
        return status;
    }
    reader r = {.yaml = yaml,
                .error = error_out,
                .worker = {.speed = 1},
                .workers = muster_vec_make(sizeof(muster_cluster_worker)),
                .edges = muster_vec_make(sizeof(muster_cluster_edge))};
    status = read_tree(&r, cluster_out);
    muster_yaml_free(yaml);
    return status;
}

static muster_status unreadable(const char *path, const char *why,
                                muster_error *error)
{
    return muster_error_set(error, MUSTER_ERR_INPUT, "%s: %s", path, why);
}

static muster_status read_bytes(FILE *file, const char *path,
                                muster_error *error, muster_vec *bytes)
{
    char piece[4096];
    size_t got;
    while ((got = fread(piece, 1, sizeof(piece), file)) > 0) {
        if (bytes->count + got > MUSTER_CLUSTER_BYTES_MAX) {
            return unreadable(path, "too long for a cluster file", error);
        }
        if (!muster_vec_append(bytes, piece, got)) {
            return muster_error_set(error, MUSTER_ERR_NO_MEMORY,
                                    "%s: no memory", path);
        }
    }
    return ferror(file) != 0 ? unreadable(path, "cannot be read", error)
                             : MUSTER_OK;
}

muster_status muster_cluster_read(const char *path, muster_error *error_out,
                                  muster_cluster **cluster_out)
{
    FILE *file = fopen(path, "rb");
    if (file == NULL) {
        return muster_error_set(
            error_out, MUSTER_ERR_INPUT,
            "%s: cannot be opened: %s; expected a cluster file", path,
            strerror(errno));
    }
    muster_vec bytes = muster_vec_make(1);
    muster_status status = read_bytes(file, path, error_out, &bytes);
    (void)fclose(file);
    if (status == MUSTER_OK) {
        status =
            muster_cluster_parse(bytes.data != NULL ? bytes.data : "",
                                 bytes.count, path, error_out, cluster_out);
    }
    muster_vec_fini(&bytes);
    return status;
}
