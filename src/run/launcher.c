/*
 * launcher.c -- see launcher.h.
 */
#include "run/launcher.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "run/slurm_hosts.h"

#define SIZE_LIMIT 65536u
#define PORT_FIRST 20000u // below those that systems give out by themselves
#define PORT_COUNT 10000u
#define PORT_FIXED 7700u // where no job has a number: pods, hydra

_Static_assert(MUSTER_LAUNCHER_HOST_BYTES == MUSTER_SLURM_HOST_BYTES,
               "hosts of Slurm fit");

/* The variables of one launcher; NULL: it has none such. */
typedef struct launcher {
    const char *mark; // is set by this launcher, and the rank is believed
    const char *rank;
    const char *size;
    const char *local_size; // processes on this machine
    const char *host;       // of process 0
    const char *job;        // what the port is made from
} launcher;

static const launcher launchers[] = {
    {"SLURM_STEP_ID", "SLURM_PROCID", "SLURM_STEP_NUM_TASKS", NULL, NULL,
     "SLURM_JOB_ID"},
    {"OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE",
     "OMPI_COMM_WORLD_LOCAL_SIZE", NULL, "PMIX_NAMESPACE"},
    {"PMI_RANK", "PMI_RANK", "PMI_SIZE", "MPI_LOCALNRANKS", NULL, NULL},
    {"WORLD_SIZE", "RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE", "MASTER_ADDR",
     "MASTER_PORT"},
    {"JOB_COMPLETION_INDEX", "JOB_COMPLETION_INDEX", NULL, NULL, NULL, NULL},
};

static const launcher none = {0};

/* The variable's text; NULL when it is not set, or empty. */
static const char *variable(const char *name)
{
    const char *text = name != NULL ? getenv(name) : NULL;
    return text != NULL && text[0] != '\0' ? text : NULL;
}

static const launcher *find_launcher(void)
{
    for (size_t i = 0; i < sizeof(launchers) / sizeof(launchers[0]); i++) {
        if (variable(launchers[i].mark) != NULL &&
            variable(launchers[i].rank) != NULL) {
            return &launchers[i];
        }
    }
    return &none;
}

/* A number from our own variable, or else from the launcher's. *set_out: there
 * was one. */
static muster_status read_number(const char *own, const char *other,
                                 muster_error *error_out, uint32_t *value_out,
                                 bool *set_out)
{
    const char *name = variable(own) != NULL ? own : other;
    const char *text = variable(name);
    *set_out = text != NULL;
    if (text == NULL) {
        return MUSTER_OK;
    }
    size_t digits = strspn(text, "0123456789");
    if (text[digits] != '\0' || digits > 5 ||
        strtoul(text, NULL, 10) > SIZE_LIMIT) {
        return muster_error_set(error_out, MUSTER_ERR_INVALID,
                                "%s=%.40s: expected a number in 0..%u", name,
                                text, SIZE_LIMIT);
    }
    *value_out = (uint32_t)strtoul(text, NULL, 10);
    return MUSTER_OK;
}

/* From the job's number, the same in all its processes. */
static uint32_t port_of(const launcher *by)
{
    const char *job = variable(by->job);
    const char *step =
        by->mark != NULL && strcmp(by->mark, "SLURM_STEP_ID") == 0
            ? variable(by->mark)
            : NULL;
    if (job == NULL) {
        return PORT_FIXED;
    }
    uint32_t hash = 2166136261u; // FNV-1a
    for (const char *at = job; *at != '\0'; at++) {
        hash = (hash ^ (uint8_t)*at) * 16777619u;
    }
    for (const char *at = step; at != NULL && *at != '\0'; at++) {
        hash = (hash ^ (uint8_t)*at) * 16777619u;
    }
    return PORT_FIRST + hash % PORT_COUNT;
}

/* MUSTER_MASTER: HOST, HOST:PORT or [IPv6]:PORT. */
static muster_status read_master(const char *text, muster_error *error_out,
                                 muster_launcher_place *place)
{
    const char *colon = strrchr(text, ':');
    bool has_port = colon != NULL && strchr(colon, ']') == NULL;
    size_t length = has_port ? (size_t)(colon - text) : strlen(text);
    unsigned long port = has_port ? strtoul(colon + 1, NULL, 10) : place->port;
    bool digits =
        !has_port || (colon[1] != '\0' && strlen(colon + 1) <= 5 &&
                      strspn(colon + 1, "0123456789") == strlen(colon + 1));
    if (length == 0 || length >= sizeof(place->host) || !digits || port == 0 ||
        port > 65535) {
        return muster_error_set(error_out, MUSTER_ERR_INVALID,
                                "MUSTER_MASTER=%.60s: expected HOST or "
                                "HOST:PORT, with a port in 1..65535",
                                text);
    }
    memcpy(place->host, text, length);
    place->host[length] = '\0';
    place->port = (uint32_t)port;
    return MUSTER_OK;
}

/* Where process 0 is. */
static muster_status find_host(const launcher *by, muster_error *error_out,
                               muster_launcher_place *place)
{
    uint32_t local = 0;
    bool known = false;
    const char *own = variable("MUSTER_MASTER");
    muster_status status =
        read_number(NULL, by->local_size, error_out, &local, &known);
    if (status != MUSTER_OK) {
        return status;
    }
    place->one_host = known && local == place->size;
    if (own != NULL) {
        status = read_master(own, error_out, place);
        // Nobody else could reach that address.
        place->one_host =
            place->one_host || strncmp(place->host, "127.", 4) == 0;
        return status;
    }
    if (variable(by->host) != NULL) {
        (void)snprintf(place->host, sizeof(place->host), "%s",
                       variable(by->host));
    } else if (place->one_host) {
        (void)snprintf(place->host, sizeof(place->host), "127.0.0.1");
    } else {
        (void)muster_launcher_host_of(place, 0, place->host);
    }
    return MUSTER_OK;
}

muster_status muster_launcher_find(muster_error *error_out,
                                   muster_launcher_place *place_out)
{
    const launcher *by = find_launcher();
    muster_launcher_place place = {.host = "", .port = port_of(by)};
    bool has_rank = false;
    bool has_size = false;
    *place_out = place;
    muster_status status =
        read_number("MUSTER_RANK", by->rank, error_out, &place.rank, &has_rank);
    if (status == MUSTER_OK) {
        status = read_number("MUSTER_SIZE", by->size, error_out, &place.size,
                             &has_size);
    }
    if (status != MUSTER_OK || !has_rank) {
        return status;
    }
    if (!has_size || place.rank >= place.size) {
        return muster_error_set(
            error_out, MUSTER_ERR_INVALID,
            "this is process %u of a launcher, but %s: set MUSTER_SIZE",
            place.rank,
            has_size ? "there are fewer" : "nothing tells how many there are");
    }
    status = find_host(by, error_out, &place);
    place.found = place.size > 1;
    *place_out = place;
    return status;
}

muster_status muster_launcher_need_host(const muster_launcher_place *place,
                                        muster_error *error_out)
{
    return place->host[0] != '\0'
               ? MUSTER_OK
               : muster_error_set(error_out, MUSTER_ERR_INVALID,
                                  "process %u of %u: nothing tells where "
                                  "process 0 is; set MUSTER_MASTER=HOST:PORT "
                                  "for all",
                                  place->rank, place->size);
}

bool muster_launcher_host_of(const muster_launcher_place *place, uint32_t rank,
                             char *host_out)
{
    const char *hosts = variable("SLURM_STEP_NODELIST");
    const char *tasks = variable("SLURM_STEP_TASKS_PER_NODE");
    const char *order = variable("SLURM_DISTRIBUTION");
    if (place->one_host) {
        (void)snprintf(host_out, MUSTER_LAUNCHER_HOST_BYTES, "%s", place->host);
        return true;
    }
    if (hosts == NULL || tasks == NULL) {
        return false;
    }
    bool cyclic = order != NULL && strncmp(order, "cyclic", 6) == 0;
    uint32_t host = muster_slurm_host_of(tasks, cyclic, rank);
    return host != UINT32_MAX && muster_slurm_host(hosts, host, host_out);
}
