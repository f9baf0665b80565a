/*
 * data/bulk.h -- arrays that may be larger than memory.
 *
 * An array begins on the heap. Beyond a limit it moves to a file without a name
 * in TMPDIR (or /var/tmp), which is mapped: the system writes pages out that it
 * has no room for and reads them when they are used, so that rows are used as
 * if they lay in memory.
 *
 *   Promise      No more than `limit` bytes of an array are on the heap.
 *   Lifecycle    make; append; then take, which hands the memory to the caller
 *                (muster_bulk_free), or fini. A file ends with its mapping,
 *                also when the process dies.
 *   Threads      One at a time.
 */
#ifndef MUSTER_DATA_BULK_H
#define MUSTER_DATA_BULK_H

#include <stdbool.h>
#include <stddef.h>

#include "base/vec.h"

typedef struct muster_bulk {
    size_t limit;   // bytes on the heap
    muster_vec vec; // as long as they fit
    int fd;         // of the file, once they do not
    char *map;
    size_t map_bytes; // of it in use
    size_t map_capacity;
} muster_bulk;

/* Bytes of rows that belong on the heap here: half of what this process may
 * use, which is the machine's memory, its cgroup's (memory.max) or `ulimit -d`,
 * whichever is least. */
size_t muster_bulk_limit(void);

muster_bulk muster_bulk_make(size_t element_bytes, size_t limit);
void muster_bulk_fini(muster_bulk *bulk);

/* False: no memory, or no room in the folder. */
bool muster_bulk_append(muster_bulk *bulk, const void *elements, size_t count);
size_t muster_bulk_count(const muster_bulk *bulk);

/* The elements; *mapped_out is for muster_bulk_free(). */
void *muster_bulk_take(muster_bulk *bulk, size_t *mapped_out);

/* Room for so many bytes in a file, to be filled; NULL: there is none. */
void *muster_bulk_map(size_t bytes);

/* `mapped` is the size of a mapping, 0: heap memory. NULL is allowed. */
void muster_bulk_free(void *data, size_t mapped);

#endif // MUSTER_DATA_BULK_H
