/*
 * star_memory.c -- a triad on every core at once.
 */
#define _GNU_SOURCE
#include "star_memory.h"

#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/mem.h"
#include "bench.h"
#include "star_work.h"

static void triad_once(float *restrict a, const float *restrict b,
                       const float *restrict c, size_t count)
{
    for (size_t j = 0; j < count; j++) {
        a[j] = b[j] + 0.5f * c[j];
    }
    // Keep the compiler from leaving out all but the last.
    __asm__ volatile("" : : "r"(a) : "memory");
}

/* Bytes a second of a triad over vectors of `count` floats on this core. */
static double triad(size_t count)
{
    float *a = muster_mem_raw_aligned(count, sizeof(float));
    float *b = muster_mem_raw_aligned(count, sizeof(float));
    float *c = muster_mem_raw_aligned(count, sizeof(float));
    double best = 0;
    if (a != NULL && b != NULL && c != NULL) {
        star_start(b, count);
        star_start(c, count);
        int repeats = (int)(20000000 / count);
        for (int round = 0; round < 5; round++) {
            int64_t before = muster_clock_ns();
            for (int i = 0; i < repeats; i++) {
                triad_once(a, b, c, count);
            }
            double seconds = (double)(muster_clock_ns() - before) * 1e-9;
            double rate = 12.0 * (double)count * repeats / seconds;
            best = rate > best ? rate : best;
        }
    }
    muster_mem_free(a);
    muster_mem_free(b);
    muster_mem_free(c);
    return best;
}

double star_memory_rate(size_t count)
{
    long cores = sysconf(_SC_NPROCESSORS_ONLN);
    int ends[2];
    if (pipe(ends) != 0) {
        return NAN;
    }
    for (long i = 0; i < cores; i++) {
        if (fork() == 0) {
            double rate = triad(count);
            ssize_t written = write(ends[1], &rate, sizeof(rate));
            _exit(written == (ssize_t)sizeof(rate) ? 0 : 1);
        }
    }
    close(ends[1]);
    double total = 0;
    double rate = 0;
    while (read(ends[0], &rate, sizeof(rate)) == (ssize_t)sizeof(rate)) {
        total += rate;
    }
    close(ends[0]);
    for (long i = 0; i < cores; i++) {
        wait(NULL);
    }
    return total;
}
