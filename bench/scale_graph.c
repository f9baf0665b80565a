/*
 * scale_graph.c -- a smaller graph of the same entities and relations, in a
 * folder of its own: a run of complex on all of FB15k-237 takes one thread the
 * better part of a minute, and as long to rank its test set.
 */
#define _GNU_SOURCE
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "data/triples.h"

#include "scale.h"

static const char *const sets[] = {"train2id.txt", "valid2id.txt",
                                   "test2id.txt"};
static const char *const lists[] = {"entity2id.txt", "relation2id.txt"};

static FILE *open_in(const char *folder, const char *name)
{
    char path[4200];
    (void)snprintf(path, sizeof(path), "%s/%s", folder, name);
    return fopen(path, "w");
}

/* Every `every`-th triple of a set. */
static bool write_set(const muster_triples *all, int set, uint64_t every,
                      const char *folder)
{
    FILE *file = open_in(folder, sets[set]);
    uint64_t count = (all->count[set] + every - 1) / every;
    if (file == NULL) {
        return false;
    }
    fprintf(file, "%" PRIu64 "\n", count);
    for (uint64_t i = 0; i < count; i++) {
        muster_triple t = all->set[set][i * every];
        fprintf(file, "%" PRIu32 " %" PRIu32 " %" PRIu32 "\n", t.head, t.tail,
                t.relation);
    }
    return fclose(file) == 0;
}

/* Names for all numbers, so that there are as many as before. */
static bool write_list(const char *folder, const char *name, uint32_t count)
{
    FILE *file = open_in(folder, name);
    if (file == NULL) {
        return false;
    }
    fprintf(file, "%" PRIu32 "\n", count);
    for (uint32_t i = 0; i < count; i++) {
        fprintf(file, "n%" PRIu32 "\t%" PRIu32 "\n", i, i);
    }
    return fclose(file) == 0;
}

/* To have about `count` of them, take every so-manieth. */
static uint64_t every_of(uint64_t all, uint64_t count)
{
    return all > count && count > 0 ? all / count : 1;
}

bool scale_graph_make(const char *data, uint32_t every, uint32_t ranked,
                      char *folder_out, size_t bytes)
{
    muster_triples all;
    muster_error error;
    (void)snprintf(folder_out, bytes, "/tmp/muster-scale.XXXXXX");
    if (muster_triples_load(data, &error, &all) != MUSTER_OK) {
        fprintf(stderr, "muster-bench-scale: %s\n", error.text);
        return false;
    }
    uint64_t valid = every_of(all.count[MUSTER_TRIPLES_VALID], ranked / 10);
    uint64_t test = every_of(all.count[MUSTER_TRIPLES_TEST], ranked);
    bool good = mkdtemp(folder_out) != NULL &&
                write_set(&all, MUSTER_TRIPLES_TRAIN, every, folder_out) &&
                write_set(&all, MUSTER_TRIPLES_VALID, valid, folder_out) &&
                write_set(&all, MUSTER_TRIPLES_TEST, test, folder_out) &&
                write_list(folder_out, lists[0], all.entities) &&
                write_list(folder_out, lists[1], all.relations);
    muster_triples_fini(&all);
    return good;
}

void scale_graph_remove(const char *folder)
{
    const char *const names[] = {sets[0], sets[1], sets[2], lists[0], lists[1]};
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        char path[4200];
        (void)snprintf(path, sizeof(path), "%s/%s", folder, names[i]);
        (void)unlink(path);
    }
    (void)rmdir(folder);
}
