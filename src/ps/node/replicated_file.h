/*
 * ps/node/replicated_file.h -- the file of rows that MUSTER_PS_STATIC
 * replicates.
 *
 * A line names rows of a table: `TABLE KEY` or `TABLE FIRST-LAST`, numbers from
 * 0. Blank lines and what follows a # do not count. The file may be gzipped.
 */
#ifndef MUSTER_PS_NODE_REPLICATED_FILE_H
#define MUSTER_PS_NODE_REPLICATED_FILE_H

#include "data/source.h"
#include "muster/ps.h"
#include "ps/store/keyset.h"

/* At most so many lines with rows; a longer file is refused. */
#define MUSTER_REPLICATED_FILE_LINES_MAX 67108864u

/* Read and seal; the set is empty on failure. MUSTER_ERR_INPUT names file and
 * line. */
MUSTER_CHECKED muster_status muster_replicated_file_load(
    const char *path, muster_error *error_out, muster_keyset *set_out);
MUSTER_CHECKED muster_status muster_replicated_file_read(
    muster_source *source, muster_error *error_out, muster_keyset *set_out);

/* Is every row of the set in a table of the node? MUSTER_ERR_INPUT names the
 * first that is not. */
MUSTER_CHECKED muster_status muster_replicated_file_check(
    const muster_keyset *set, const muster_ps *ps, muster_error *error_out);

#endif // MUSTER_PS_NODE_REPLICATED_FILE_H
