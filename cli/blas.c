/*
 * blas.c -- kernels of OpenBLAS that the processor deserves.
 *
 * OpenBLAS chooses its kernels by the processor's model number before main(). A
 * processor that is newer than the library gets those of 2004, at a quarter of
 * its speed or less. It can be told otherwise in the environment alone: the
 * program starts again with that said, and so do the workers that it starts.
 */
#define _POSIX_C_SOURCE 200809L
#include <cblas.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

#include "cli.h"

#define CORE "OPENBLAS_CORETYPE"

/* What the processor's instructions allow, or NULL. */
static const char *core_of_processor(void)
{
#if defined(__x86_64__)
    __builtin_cpu_init();
    if (__builtin_cpu_supports("avx512f") &&
        __builtin_cpu_supports("avx512cd") &&
        __builtin_cpu_supports("avx512bw") &&
        __builtin_cpu_supports("avx512dq") &&
        __builtin_cpu_supports("avx512vl")) {
        return "SkylakeX";
    }
    if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) {
        return "Haswell";
    }
#endif
    return NULL;
}

/* Kernels without AVX, among them those for what the library does not know. */
static bool is_old(const char *core)
{
    static const char *const names[] = {"Prescott", "Core2", "Nehalem",
                                        "Barcelona", "Generic"};
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        if (strcasecmp(core, names[i]) == 0) {
            return true;
        }
    }
    return false;
}

void cli_blas_prepare(char **argv)
{
    char path[4096];
    const char *core = core_of_processor();
    if (getenv(CORE) != NULL || core == NULL ||
        !is_old(openblas_get_corename()) || setenv(CORE, core, 0) != 0) {
        return;
    }
    (void)execv(cli_own_path(path, sizeof path), argv);
}
