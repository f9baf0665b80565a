/*
 * star_crowd.h -- strangers that call a hub: they connect, say nothing, and
 * call again as soon as they are thrown out.
 */
#ifndef MUSTER_BENCH_STAR_CROWD_H
#define MUSTER_BENCH_STAR_CROWD_H

#include <sys/types.h>

/* A process with so many connections to "tcp:127.0.0.1:PORT"; 0: it could not
 * be started. Returns when all have called once. */
pid_t star_crowd_start(const char *address, int count);

/* 0 is allowed and does nothing. */
void star_crowd_stop(pid_t crowd);

#endif // MUSTER_BENCH_STAR_CROWD_H
