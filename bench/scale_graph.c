/*
 * scale_graph.c -- a smaller graph of the same entities and relations, in a
 * folder of its own: a run of complex on all of FB15k-237 takes one thread the
 * better part of a minute, and as long to rank its test set.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "data/triples.h"

#include "scale.h"

/* The folders that were made. */
static char folders[SCALE_FOLDERS_MAX][SCALE_FOLDER_BYTES];
static volatile sig_atomic_t folder_count;

static const char *const sets[] = {"train2id.txt", "valid2id.txt",
                                   "test2id.txt"};
static const char *const lists[] = {"entity2id.txt", "relation2id.txt"};
enum { SETS = 3, LISTS = 2 };

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

/* Only what a signal handler may call. */
static void remove_folders(void)
{
    for (int i = 0; i < folder_count; i++) {
        int folder = open(folders[i], O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        for (int k = 0; k < SETS; k++) {
            (void)unlinkat(folder, sets[k], 0);
        }
        for (int k = 0; k < LISTS; k++) {
            (void)unlinkat(folder, lists[k], 0);
        }
        (void)close(folder);
        (void)rmdir(folders[i]);
    }
}

static void on_signal(int number)
{
    remove_folders();
    (void)signal(number, SIG_DFL);
    (void)raise(number);
}

/* Signals that are ignored, as by nohup, stay so. */
static void remove_at_end(void)
{
    static const int ends[] = {SIGHUP, SIGINT, SIGTERM};
    (void)atexit(remove_folders);
    for (size_t i = 0; i < sizeof(ends) / sizeof(ends[0]); i++) {
        if (signal(ends[i], on_signal) == SIG_IGN) {
            (void)signal(ends[i], SIG_IGN);
        }
    }
}

/* A new folder, which is removed at the end. */
static bool make_folder(char folder_out[SCALE_FOLDER_BYTES])
{
    if (folder_count == SCALE_FOLDERS_MAX) {
        return false;
    }
    if (folder_count == 0) {
        remove_at_end();
    }
    char *folder = folders[folder_count];
    (void)snprintf(folder, SCALE_FOLDER_BYTES, "/tmp/muster-scale.XXXXXX");
    if (mkdtemp(folder) == NULL) {
        return false;
    }
    memcpy(folder_out, folder, SCALE_FOLDER_BYTES);
    folder_count++;
    return true;
}

static bool write_graph(const muster_triples *all, uint32_t every,
                        uint32_t ranked, const char *folder)
{
    uint64_t valid = every_of(all->count[MUSTER_TRIPLES_VALID], ranked / 10);
    uint64_t test = every_of(all->count[MUSTER_TRIPLES_TEST], ranked);
    return write_set(all, MUSTER_TRIPLES_TRAIN, every, folder) &&
           write_set(all, MUSTER_TRIPLES_VALID, valid, folder) &&
           write_set(all, MUSTER_TRIPLES_TEST, test, folder) &&
           write_list(folder, lists[0], all->entities) &&
           write_list(folder, lists[1], all->relations);
}

bool scale_graph_make(const char *data, uint32_t every, uint32_t ranked,
                      char folder_out[SCALE_FOLDER_BYTES])
{
    muster_triples all;
    muster_error error;
    if (muster_triples_load(data, &error, &all) != MUSTER_OK) {
        fprintf(stderr, "muster-bench-scale: %s\n", error.text);
        return false;
    }
    bool good =
        make_folder(folder_out) && write_graph(&all, every, ranked, folder_out);
    if (!good) {
        perror("muster-bench-scale: /tmp");
    }
    muster_triples_fini(&all);
    return good;
}
