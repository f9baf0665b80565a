/*
 * ps_memory.c -- what a node with very many narrow rows has in memory: by the
 * kernel's count, against the bytes of the rows and their state alone.
 *
 * It takes about 4 GB and is left out unless it is asked for by its name.
 */
#define _POSIX_C_SOURCE 200809L
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/clock.h"
#include "muster/ps.h"

#include "bench_ps.h"

enum { ROWS = 100000000, WIDTH = 8, BATCH = 1000 };

#define BOUND 1.3

static double resident_bytes(void)
{
    char line[256];
    char *at;
    FILE *file = bench_must(fopen("/proc/self/statm", "r"));
    if (fgets(line, sizeof(line), file) == NULL) {
        perror("muster-bench-ps: /proc/self/statm");
        exit(1);
    }
    (void)fclose(file);
    (void)strtoul(line, &at, 10); // mapped
    return (double)strtoul(at, NULL, 10) * (double)sysconf(_SC_PAGESIZE);
}

/* Every row is written once: memory that nobody touched would not count. */
static void touch_all(muster_ps_worker *worker)
{
    static uint32_t keys[BATCH];
    static float ones[BATCH * WIDTH];
    for (uint32_t i = 0; i < BATCH * WIDTH; i++) {
        ones[i] = 1;
    }
    for (uint32_t first = 0; first < ROWS; first += BATCH) {
        for (uint32_t i = 0; i < BATCH; i++) {
            keys[i] = first + i;
        }
        bench_check(muster_ps_push(worker, 0, keys, BATCH, ones));
    }
}

void bench_memory(const bench_ps *b)
{
    muster_ps *ps;
    muster_ps_worker *worker;
    muster_error error;
    uint32_t table;
    muster_ps_opts opts = MUSTER_PS_OPTS_INIT;
    muster_ps_table_opts shape = MUSTER_PS_TABLE_OPTS_INIT;
    shape.keys = ROWS;
    shape.width = WIDTH;
    double before = resident_bytes();
    int64_t start = muster_clock_ns();
    bench_check(muster_ps_create(&opts, &error, &ps));
    bench_check(muster_ps_table_add(ps, &shape, &error, &table));
    bench_check(muster_ps_worker_create(ps, NULL, &worker));
    touch_all(worker);
    double taken = resident_bytes() - before;
    double ideal = (double)ROWS * muster_ps_row_floats(ps, table) * 4;
    bench_progress("memory: %d rows made and written in %.1f s", ROWS,
                   (double)(muster_clock_ns() - start) / 1e9);
    bench_report(b, "memory_1e8_rows", taken, "bytes",
                 "the rows and their state alone", ideal);
    muster_ps_worker_free(worker);
    muster_ps_free(ps);
    if (taken > BOUND * ideal) {
        fprintf(stderr, "muster-bench-ps: memory: above %.1f times the rows\n",
                BOUND);
        exit(1);
    }
}
