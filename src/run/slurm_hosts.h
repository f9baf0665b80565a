/*
 * run/slurm_hosts.h -- hosts as Slurm writes them: "n[01-04,7],gpu3", and how
 * many processes each has: "3,1(x2)".
 *
 *   Threads      Pure functions.
 */
#ifndef MUSTER_RUN_SLURM_HOSTS_H
#define MUSTER_RUN_SLURM_HOSTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define MUSTER_SLURM_HOST_BYTES 100u

/* The host number `index` of the list, into MUSTER_SLURM_HOST_BYTES; false: the
 * list is shorter, or not one. */
bool muster_slurm_host(const char *list, uint32_t index, char *host_out);

/* On which host of the list process `rank` runs; UINT32_MAX: the text is not
 * such a list, or has fewer processes. `cyclic`: one process a host, then the
 * next, until all have theirs; else each host is filled in turn. */
uint32_t muster_slurm_host_of(const char *tasks_per_node, bool cyclic,
                              uint32_t rank);

#endif // MUSTER_RUN_SLURM_HOSTS_H
