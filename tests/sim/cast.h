/*
 * cast.h -- the codes and crews of sim_test.c, and which seed has which.
 */
#ifndef MUSTER_TESTS_SIM_CAST_H
#define MUSTER_TESTS_SIM_CAST_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "muster/code.h"

#define SMALL_FIRST  1000000u // seeds from here on have a small crew,
#define STAGED_FIRST 2000000u // and from here on a code in stages
#define WORKERS_MAX  20u
#define GENERATOR    "/tmp/muster-sim-XXXXXX" // of linear:file

/* Codes and crews: every name of the list, and some of their decodings, with
 * twenty workers; and a few with less. */
static const struct {
    uint32_t workers;
    bool unequal; // speeds 1, 2, 3, 1, 2, ..
    const char *code;
} casts[] = {
    {20, false, "frc:s=3"},
    {20, false, "uncoded"},
    {20, false, "cyclic-mds:s=3"},
    {20, false, "ignore"},
    {20, false, "linear:spc"},
    {20, true, "heter-group:s=1,k=40"},
    {20, false, "frc:s=1"},
    {20, false, "bgc:d=3"},
    {20, false, "crc:s=2"},
    {20, false, "rs:s=3"},
    {20, false, "ye-abbe:s=1,m=2"},
    {20, false, "graph:degree=4"},
    {20, false, "ye-abbe-random:s=1,m=2"},
    {20, false, "ye-abbe-tuned:s=3,m=2"},
    {20, true, "heter:s=2,k=40"},
    {20, false, "erasurehead:d=4"},
    {20, false, "frc:s=4"},
    {20, false, "linear:tuned:s=2,m=2"},
    {20, false, "linear:gaussian:s=2,m=2"},
    {20, false, "sgc:d=3"},
    {20, false, "linear:vandermonde:s=2,m=2"},
    {20, false, "linear:repetition:s=2"},
    {20, false, "linear:hamming"},
    {20, false, "rbgc:d=3"},
    {20, false, "linear:product"},
    {20, false, "linear:file=" GENERATOR},
    {20, false, "heter-group:s=2"},
    {20, false, "bgc:d=3,decode=one-step"},
    {20, false, "sgc:d=3,decode=optimal"},
    {20, false, "ignore:decode=sum"},
    {20, false, "ignore:s=3"},
    {20, false, "bgc:d=4,s=3"},
    {20, false, "hier:edges=4x5,se=1,sw=1"},
    {20, false, "scheduled:s=2,start=asked"},
    {20, false, "scheduled:s=2,start=now"},
    {20, false, "scheduled:s=3,order=staircase"},
    {20, true, "scheduled:s=2,order=speeds,start=asked"},
    {20, false, "scheduled:s=2,order=speeds"},
    {20, false, "scheduled:s=1,pieces=3,start=now"},
    {20, false, "scheduled:s=2,pieces=2,start=asked"},
    {4, false, "scheduled:s=1,start=asked"},
    {4, false, "uncoded"},
    {4, false, "frc:s=1"},
    {4, false, "ignore"},
    {4, false, "crc:s=1"},
    {2, false, "uncoded"},
};
#define CASTS  (sizeof(casts) / sizeof(casts[0]))
#define SMALL  5u // the last of them
#define STAGED 8u // and those before, codes in stages

static size_t cast_of(uint64_t seed)
{
    if (seed >= STAGED_FIRST) {
        return CASTS - SMALL - 1 - seed % STAGED;
    }
    return seed < SMALL_FIRST ? seed % (CASTS - SMALL - STAGED)
                              : CASTS - 1 - seed % SMALL;
}

/* Made once: some take longer than a run. */
static muster_code *made[CASTS];
static char generator[] = GENERATOR;

static muster_code *code_of(size_t cast)
{
    if (made[cast] != NULL) {
        return made[cast];
    }
    muster_code_opts opts = MUSTER_CODE_OPTS_INIT;
    double speeds[WORKERS_MAX];
    for (uint32_t i = 0; i < WORKERS_MAX; i++) {
        speeds[i] = 1 + i % 3;
    }
    char name[64];
    snprintf(name, sizeof(name), "%s", casts[cast].code);
    char *path = strstr(name, GENERATOR);
    if (path != NULL) {
        memcpy(path, generator, sizeof(generator));
    }
    opts.name = name;
    opts.workers = casts[cast].workers;
    opts.speeds = casts[cast].unequal ? speeds : NULL;
    muster_error error;
    if (muster_code_create(&opts, &error, &made[cast]) != MUSTER_OK) {
        fail_msg("%s: %s", name, error.text);
    }
    return made[cast];
}

static int write_generator(void **state)
{
    (void)state;
    static const char text[] = "1 0 0 1 1\n0 1 0 1 2\n0 0 1 1 3\n";
    int file = mkstemp(generator);
    bool written = file >= 0 && write(file, text, sizeof(text) - 1) ==
                                    (ssize_t)(sizeof(text) - 1);
    return file >= 0 && close(file) == 0 && written ? 0 : -1;
}

static int free_codes(void **state)
{
    (void)state;
    for (size_t i = 0; i < CASTS; i++) {
        muster_code_free(made[i]);
        made[i] = NULL;
    }
    return unlink(generator);
}

#endif // MUSTER_TESTS_SIM_CAST_H
