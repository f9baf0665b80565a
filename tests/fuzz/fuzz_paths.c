/*
 * fuzz_paths.c -- files that are read by their path: recorded delays, owners of
 * samples, knowledge graphs. What is accepted keeps its promises. The first
 * byte chooses the reader.
 */
#define _POSIX_C_SOURCE 200809L
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/assert.h"
#include "cluster/delay_trace.h"
#include "data/owners.h"
#include "data/triples.h"

#define SAMPLES 6u
#define WORKERS 3u

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static char folder[] = "/tmp/muster-fuzz-XXXXXX";
static char path[64];

static void remove_folder(void)
{
    (void)unlink(path);
    (void)rmdir(folder);
}

/* A graph is a folder: the file has the name that is looked for there. */
static void write_file(const uint8_t *data, size_t size)
{
    if (path[0] == '\0') {
        MUSTER_ASSERT(mkdtemp(folder) != NULL);
        (void)snprintf(path, sizeof(path), "%s/train.txt", folder);
        MUSTER_ASSERT(atexit(remove_folder) == 0);
    }
    FILE *file = fopen(path, "wb");
    MUSTER_ASSERT(file != NULL && fwrite(data, 1, size, file) == size &&
                  fclose(file) == 0);
}

static void try_delays(void)
{
    muster_delay_trace trace;
    if (muster_delay_trace_load(path, NULL, &trace) != MUSTER_OK) {
        return;
    }
    MUSTER_ASSERT(trace.iterations > 0 && trace.workers > 0);
    for (size_t i = 0; i < (size_t)trace.iterations * trace.workers; i++) {
        MUSTER_ASSERT(isfinite(trace.seconds[i]) && trace.seconds[i] >= 0);
    }
    muster_delay_trace_fini(&trace);
}

static void try_owners(void)
{
    uint32_t owners[SAMPLES];
    if (muster_owners_read(path, SAMPLES, WORKERS, NULL, owners) != MUSTER_OK) {
        return;
    }
    for (uint32_t i = 0; i < SAMPLES; i++) {
        MUSTER_ASSERT(owners[i] < WORKERS);
    }
}

static void try_graph(void)
{
    muster_triples graph = {0};
    if (muster_triples_load(folder, NULL, &graph) != MUSTER_OK) {
        return;
    }
    MUSTER_ASSERT(graph.count[MUSTER_TRIPLES_TRAIN] > 0);
    for (uint64_t i = 0; i < graph.count[MUSTER_TRIPLES_TRAIN]; i++) {
        const muster_triple *triple = &graph.set[MUSTER_TRIPLES_TRAIN][i];
        MUSTER_ASSERT(triple->head < graph.entities);
        MUSTER_ASSERT(triple->tail < graph.entities);
        MUSTER_ASSERT(triple->relation < graph.relations);
    }
    muster_triples_fini(&graph);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static void (*const readers[])(void) = {try_delays, try_owners, try_graph};
    if (size > 0) {
        write_file(data + 1, size - 1);
        readers[data[0] % 3]();
    }
    return 0;
}
