/*
 * cluster_options.c -- what options leave out and the cluster file says: how
 * many workers there are and, for a code of two layers, their edges.
 */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "base/mem.h"
#include "cluster/file.h"
#include "config/config.h"
#include "muster/run.h"
#include "plan/scheme.h"

/* Has every code of the list two layers? Other codes have the workers join the
 * coordinator, also where the file nests them. */
static bool has_layers(const char *codes)
{
    static const char *const names[] = {"hier", "auto"};
    bool all = true;
    while (all && codes != NULL) {
        size_t length = strcspn(codes, ":+");
        all = length == 4 && (strncmp(codes, names[0], length) == 0 ||
                              strncmp(codes, names[1], length) == 0);
        codes = strchr(codes, '+');
        codes = codes != NULL ? codes + 1 : NULL;
    }
    return all;
}

static muster_status set_workers(muster_config *config, uint32_t workers,
                                 muster_error *error_out)
{
    bool local = strcmp(muster_config_verb(config), "train") == 0 &&
                 muster_config_string(config, MUSTER_OPT_LISTEN) == NULL;
    char number[16];
    (void)snprintf(number, sizeof(number), "%" PRIu32, workers);
    return muster_config_set(config, local ? "local" : "workers", number,
                             error_out);
}

static muster_status take(muster_config *config, const muster_cluster *cluster,
                          muster_error *error_out)
{
    bool layers = cluster->edge_count > 0 &&
                  (!muster_config_is_set(config, MUSTER_OPT_CODE) ||
                   has_layers(muster_config_string(config, MUSTER_OPT_CODE)));
    if (!layers) {
        return set_workers(config, cluster->worker_count, error_out);
    }
    char *topology = muster_scheme_topology(cluster);
    if (topology == NULL) {
        return muster_error_set(error_out, MUSTER_ERR_NO_MEMORY,
                                "no memory for the topology");
    }
    muster_status status =
        muster_config_set(config, "topology", topology, error_out);
    muster_mem_free(topology);
    return status;
}

muster_status muster_options_of_cluster(muster_config *config,
                                        muster_error *error_out)
{
    static const char *const verbs[] = {"train", "simulate", "code"};
    const char *verb = muster_config_verb(config);
    bool counts = false;
    for (size_t i = 0; i < sizeof(verbs) / sizeof(verbs[0]); i++) {
        counts = counts || strcmp(verb, verbs[i]) == 0;
    }
    const char *path =
        counts ? muster_config_string(config, MUSTER_OPT_CLUSTER) : NULL;
    if (path == NULL || muster_config_workers(config) > 0 ||
        muster_config_string(config, MUSTER_OPT_TOPOLOGY) != NULL) {
        return MUSTER_OK;
    }
    muster_cluster *cluster = NULL;
    muster_status status = muster_cluster_read(path, error_out, &cluster);
    if (status == MUSTER_OK) {
        status = take(config, cluster, error_out);
        muster_cluster_free(cluster);
    }
    return status;
}
