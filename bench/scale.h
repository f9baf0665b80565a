/*
 * scale.h -- the parts of `muster bench scale`.
 */
#ifndef MUSTER_BENCH_SCALE_H
#define MUSTER_BENCH_SCALE_H

#include <stdint.h>

/* Cells a second of mf's cells and kernel in a plain loop of so many threads,
 * none of which waits for another, over some epochs. NAN where the model is not
 * mf. */
double scale_plain_mf(const char *model, uint32_t threads, uint64_t seed);

#endif // MUSTER_BENCH_SCALE_H
