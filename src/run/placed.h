/*
 * run/placed.h -- --placement of a training run: the data of a coordinator's
 * executor, cut by owners.
 *
 * Where every worker of the code has one part of its own (uncoded, ignore),
 * worker j owns part j, sized by its speed. Any other code has its parts on
 * several workers, and all of them are equal: who is fast has more parts, if
 * the code is one for unequal workers (heter).
 *
 * With --speeds measure the parts have their sizes from the role
 * (role/balance.h), in whole shards: then each shard is placed like a worker of
 * its own, so that any of them together have the classes in proportion.
 */
#ifndef MUSTER_RUN_PLACED_H
#define MUSTER_RUN_PLACED_H

#include "config/config.h"
#include "job/executor.h"
#include "muster/code.h"
#include "muster/status.h"

/* Do as --placement says; nothing where it is not given. Fails as
 * muster_placing_read() and muster_placing_make(). */
MUSTER_CHECKED muster_status muster_placed_make(const muster_config *config,
                                                const muster_code *code,
                                                muster_executor *executor,
                                                muster_error *error_out);

#endif // MUSTER_RUN_PLACED_H
