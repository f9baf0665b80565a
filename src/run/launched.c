/*
 * launched.c -- a `train` command line under a launcher: process 0 becomes the
 * coordinator, the others workers, or edges and workers; or all become nodes of
 * a sparse task.
 */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "base/mem.h"
#include "base/topology.h"
#include "config/config.h"
#include "muster/launch.h"
#include "muster/ps.h"
#include "net/net.h"
#include "run/launcher.h"

/* Given by who started this program, not by a run folder. */
static bool is_said(const muster_config *config, muster_option option)
{
    return muster_config_is_set(config, option) &&
           !muster_config_is_from_file(config, option);
}

static muster_status set_number(muster_config *config, const char *name,
                                uint32_t value, muster_error *error_out)
{
    char text[16];
    (void)snprintf(text, sizeof(text), "%" PRIu32, value);
    return muster_config_set(config, name, text, error_out);
}

/* The options that a worker shares with the coordinator's command line. */
static muster_status copy_options(const muster_config *config,
                                  muster_config *join, muster_error *error_out)
{
    static const struct {
        muster_option option;
        const char *name;
    } same[] = {
        {MUSTER_OPT_THREADS, "threads"},
        {MUSTER_OPT_PATIENCE, "patience"},
        {MUSTER_OPT_ALLOW_MODEL, "allow-model"},
        {MUSTER_OPT_KEY_FILE, "key-file"},
        {MUSTER_OPT_INSECURE, "insecure"},
        {MUSTER_OPT_ENGINE, "engine"},
        {MUSTER_OPT_SEED, "seed"},
        {MUSTER_OPT_BANDWIDTH, "bandwidth"},
        {MUSTER_OPT_LATENCY, "latency"},
        {MUSTER_OPT_QUIET, "quiet"},
        {MUSTER_OPT_VERBOSE, "verbose"},
    };
    muster_status status = MUSTER_OK;
    for (size_t i = 0; i < sizeof(same) / sizeof(same[0]); i++) {
        if (status == MUSTER_OK && is_said(config, same[i].option)) {
            status = muster_config_set(join, same[i].name,
                                       muster_config_get(config, same[i].name),
                                       error_out);
        }
    }
    return status;
}

/* What a process becomes that is not the coordinator. */
typedef struct joining {
    char connect[MUSTER_NET_ADDRESS_MAX];
    char listen[MUSTER_NET_ADDRESS_MAX]; // "": it does not
    bool edge;
    uint32_t number;
    uint32_t workers; // of the run
} joining;

static muster_status make_join(const muster_config *config, const joining *as,
                               muster_error *error_out,
                               muster_config **join_out)
{
    muster_config *join = NULL;
    muster_status status = muster_config_create("join", &join);
    if (status == MUSTER_OK) {
        status = muster_config_set(join, "connect", as->connect, error_out);
    }
    if (status == MUSTER_OK && as->listen[0] != '\0') {
        status = muster_config_set(join, "listen", as->listen, error_out);
    }
    if (status == MUSTER_OK && as->edge) {
        status = muster_config_set(join, "as", "edge", error_out);
    }
    if (status == MUSTER_OK) {
        status = set_number(join, "worker", as->number, error_out);
    }
    if (status == MUSTER_OK) {
        status = set_number(join, "workers", as->workers, error_out);
    }
    if (status == MUSTER_OK) {
        status = copy_options(config, join, error_out);
    }
    if (status != MUSTER_OK) {
        muster_config_free(join);
        return status;
    }
    *join_out = join;
    return MUSTER_OK;
}

/* Where an edge listens: on its host, at a port of its own. */
static muster_status edge_address(const muster_launcher_place *place,
                                  uint32_t edge, muster_error *error_out,
                                  char *address)
{
    char host[MUSTER_LAUNCHER_HOST_BYTES];
    if (!muster_launcher_host_of(place, 1 + edge, host)) {
        return muster_error_set(error_out, MUSTER_ERR_INVALID,
                                "--topology: nothing tells on which hosts the "
                                "edges are; start them with muster join "
                                "--as edge");
    }
    (void)snprintf(address, MUSTER_NET_ADDRESS_MAX, "tcp:%s:%" PRIu32, host,
                   place->port + 1 + edge);
    return MUSTER_OK;
}

/* Process 0 is the coordinator; the edges come next, then their workers. */
static muster_status take_part(const muster_topology *topology,
                               const muster_launcher_place *place,
                               muster_error *error_out, joining *as)
{
    uint32_t edge = place->rank - 1;
    if (place->size != 1 + topology->edges + topology->workers) {
        return muster_error_set(
            error_out, MUSTER_ERR_INVALID,
            "--topology has a coordinator, %" PRIu32 " edges and %" PRIu32
            " workers: start %" PRIu32 " processes, not %" PRIu32,
            topology->edges, topology->workers,
            1 + topology->edges + topology->workers, place->size);
    }
    as->workers = topology->workers;
    as->number = edge;
    if (place->rank == 0) {
        return MUSTER_OK;
    }
    if (edge < topology->edges) {
        as->edge = true;
        return edge_address(place, edge, error_out, as->listen);
    }
    as->number = edge - topology->edges;
    uint32_t under = as->number;
    for (edge = 0; under >= topology->sizes[edge]; edge++) {
        under -= topology->sizes[edge];
    }
    return edge_address(place, edge, error_out, as->connect);
}

static muster_status be_trainer(muster_config *config,
                                const muster_launcher_place *place,
                                muster_error *error_out,
                                muster_config **join_out)
{
    const char *text = muster_config_string(config, MUSTER_OPT_TOPOLOGY);
    joining as = {.number = place->rank - 1, .workers = place->size - 1};
    muster_topology topology = {0};
    muster_status status = muster_launcher_need_host(place, error_out);
    if (status != MUSTER_OK) {
        return status;
    }
    (void)snprintf(as.connect, sizeof(as.connect), "tcp:%s:%" PRIu32,
                   place->host, place->port);
    if (text != NULL) {
        status =
            muster_topology_parse("--topology", text, error_out, &topology);
        if (status == MUSTER_OK) {
            status = take_part(&topology, place, error_out, &as);
        }
        muster_topology_fini(&topology);
    }
    if (status != MUSTER_OK || place->rank > 0) {
        return status != MUSTER_OK
                   ? status
                   : make_join(config, &as, error_out, join_out);
    }
    status = muster_config_set(config, "listen", as.connect, error_out);
    return status == MUSTER_OK && text == NULL &&
                   !is_said(config, MUSTER_OPT_WORKERS)
               ? set_number(config, "workers", as.workers, error_out)
               : status;
}

/* Where all nodes listen: each on its host, at a port of its own. NULL, with
 * the reason in error_out. */
static char *make_mesh(const muster_launcher_place *place,
                       muster_error *error_out)
{
    size_t room = (size_t)place->size * (MUSTER_LAUNCHER_HOST_BYTES + 8) + 8;
    char *mesh = muster_mem_array(room, 1);
    size_t length = 0;
    if (mesh == NULL) {
        (void)muster_error_set(error_out, MUSTER_ERR_NO_MEMORY,
                               "no memory for the addresses of %u nodes",
                               place->size);
        return NULL;
    }
    for (uint32_t i = 0; i < place->size; i++) {
        char host[MUSTER_LAUNCHER_HOST_BYTES];
        if (!muster_launcher_host_of(place, i, host)) {
            muster_mem_free(mesh);
            (void)muster_error_set(error_out, MUSTER_ERR_INVALID,
                                   "nothing tells on which hosts the %u nodes "
                                   "are: give all --mesh tcp:HOST:PORT,..",
                                   place->size);
            return NULL;
        }
        length +=
            (size_t)snprintf(mesh + length, room - length, "%s%s:%u",
                             i == 0 ? "tcp:" : ",", host, place->port + i);
    }
    return mesh;
}

static muster_status be_node(muster_config *config,
                             const muster_launcher_place *place,
                             muster_error *error_out)
{
    muster_status status = set_number(config, "node", place->rank, error_out);
    if (status == MUSTER_OK) {
        status = set_number(config, "nodes", place->size, error_out);
    }
    if (status != MUSTER_OK || is_said(config, MUSTER_OPT_MESH)) {
        return status;
    }
    muster_error reason = {.status = MUSTER_OK, .text = ""};
    char *mesh = make_mesh(place, &reason);
    if (mesh == NULL) {
        return muster_error_set(error_out, reason.status, "%s", reason.text);
    }
    status = muster_config_set(config, "mesh", mesh, error_out);
    muster_mem_free(mesh);
    return status;
}

muster_status muster_launched(muster_config *config, muster_error *error_out,
                              muster_config **join_out)
{
    static const muster_option explicit[] = {
        MUSTER_OPT_LOCAL, MUSTER_OPT_LISTEN, MUSTER_OPT_NODE};
    muster_launcher_place place;
    *join_out = NULL;
    for (size_t i = 0; i < sizeof(explicit) / sizeof(explicit[0]); i++) {
        if (is_said(config, explicit[i])) {
            return MUSTER_OK;
        }
    }
    muster_status status = muster_launcher_find(error_out, &place);
    if (status != MUSTER_OK || !place.found) {
        return status;
    }
    return muster_config_is_task(config)
               ? be_node(config, &place, error_out)
               : be_trainer(config, &place, error_out, join_out);
}
