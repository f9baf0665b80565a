/*
 * star_memory.h -- how fast this machine's memory is.
 */
#ifndef MUSTER_BENCH_STAR_MEMORY_H
#define MUSTER_BENCH_STAR_MEMORY_H

#include <stddef.h>

/* Bytes a second of a triad over vectors of `count` floats, the sum over all
 * cores at once. NAN: no process could be started. */
double star_memory_rate(size_t count);

#endif // MUSTER_BENCH_STAR_MEMORY_H
