/*
 * Arrays on the heap, then in a mapped file that is doubled as it grows.
 */
#define _GNU_SOURCE // O_TMPFILE, mremap
#include "data/bulk.h"

#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "base/limits.h"
#include "base/mem.h"

#define FILE_BYTES_MIN ((size_t)1 << 20)

static uint64_t machine_bytes(void)
{
    long pages = sysconf(_SC_PHYS_PAGES);
    long page_bytes = sysconf(_SC_PAGESIZE);
    return pages > 0 && page_bytes > 0 ? (uint64_t)pages * (uint64_t)page_bytes
                                       : UINT64_MAX;
}

/* "max", or a number, where the system has such a file. */
static uint64_t cgroup_bytes(void)
{
    char text[32] = "";
    FILE *file = fopen("/sys/fs/cgroup/memory.max", "re");
    if (file == NULL) {
        return UINT64_MAX;
    }
    bool has_number = fgets(text, sizeof(text), file) != NULL &&
                      text[0] >= '0' && text[0] <= '9';
    (void)fclose(file);
    return has_number ? strtoull(text, NULL, 10) : UINT64_MAX;
}

static uint64_t smaller(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

size_t muster_bulk_limit(void)
{
    uint64_t bytes = smaller(machine_bytes(), cgroup_bytes());
    return (size_t)(smaller(bytes, muster_limits_get(MUSTER_LIMIT_DATA)) / 2);
}

/* Give the file blocks: without them a full disk would be a signal later. Far
 * too much is refused before any of it is taken. */
static bool has_blocks(int fd, size_t bytes)
{
    struct statvfs room;
    return fstatvfs(fd, &room) == 0 && bytes / room.f_frsize <= room.f_bavail &&
           posix_fallocate(fd, 0, (off_t)bytes) == 0;
}

/* A file without a name, of so many bytes; -1: there is no room. */
static int open_file(size_t bytes)
{
    const char *folder = getenv("TMPDIR");
    folder = folder != NULL && folder[0] != '\0' ? folder : "/var/tmp";
    int fd = open(folder, O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
    if (fd >= 0 && !has_blocks(fd, bytes)) {
        close(fd);
        fd = -1;
    }
    return fd;
}

static void *map_file(int fd, size_t bytes)
{
    void *map = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    return map != MAP_FAILED ? map : NULL;
}

void *muster_bulk_map(size_t bytes)
{
    int fd = open_file(bytes);
    void *map = fd >= 0 ? map_file(fd, bytes) : NULL;
    if (fd >= 0) {
        close(fd);
    }
    return map;
}

void muster_bulk_free(void *data, size_t mapped)
{
    if (mapped > 0 && data != NULL) {
        (void)munmap(data, mapped);
    } else {
        muster_mem_free(data);
    }
}

muster_bulk muster_bulk_make(size_t element_bytes, size_t limit)
{
    return (muster_bulk){
        .limit = limit, .vec = muster_vec_make(element_bytes), .fd = -1};
}

void muster_bulk_fini(muster_bulk *bulk)
{
    if (bulk->fd >= 0) {
        close(bulk->fd);
    }
    size_t element_bytes = bulk->vec.element_bytes;
    muster_bulk_free(bulk->map, bulk->map_capacity);
    muster_vec_fini(&bulk->vec);
    *bulk = muster_bulk_make(element_bytes, bulk->limit);
}

size_t muster_bulk_count(const muster_bulk *bulk)
{
    return bulk->map != NULL ? bulk->map_bytes / bulk->vec.element_bytes
                             : bulk->vec.count;
}

/* From the heap to a file. */
static bool move_out(muster_bulk *bulk)
{
    size_t used = bulk->vec.count * bulk->vec.element_bytes;
    size_t capacity = 2 * used > FILE_BYTES_MIN ? 2 * used : FILE_BYTES_MIN;
    bulk->fd = open_file(capacity);
    bulk->map = bulk->fd >= 0 ? map_file(bulk->fd, capacity) : NULL;
    if (bulk->map == NULL) {
        return false;
    }
    if (used > 0) {
        memcpy(bulk->map, bulk->vec.data, used);
    }
    bulk->map_bytes = used;
    bulk->map_capacity = capacity;
    size_t element_bytes = bulk->vec.element_bytes;
    muster_vec_fini(&bulk->vec);
    bulk->vec = muster_vec_make(element_bytes);
    return true;
}

static bool grow(muster_bulk *bulk, size_t bytes)
{
    size_t capacity = bulk->map_capacity;
    while (capacity < bytes) {
        capacity *= 2;
    }
    if (capacity == bulk->map_capacity) {
        return true;
    }
    if (!has_blocks(bulk->fd, capacity)) {
        return false;
    }
    void *map = mremap(bulk->map, bulk->map_capacity, capacity, MREMAP_MAYMOVE);
    if (map == MAP_FAILED) {
        return false;
    }
    bulk->map = map;
    bulk->map_capacity = capacity;
    return true;
}

bool muster_bulk_append(muster_bulk *bulk, const void *elements, size_t count)
{
    size_t bytes = count * bulk->vec.element_bytes;
    if (bulk->map == NULL) {
        // A vec may double what it has: half of the limit is full.
        size_t used = bulk->vec.count * bulk->vec.element_bytes;
        if (2 * (used + bytes) <= bulk->limit) {
            return muster_vec_append(&bulk->vec, elements, count);
        }
        if (!move_out(bulk)) {
            return false;
        }
    }
    if (!grow(bulk, bulk->map_bytes + bytes)) {
        return false;
    }
    memcpy(bulk->map + bulk->map_bytes, elements, bytes);
    bulk->map_bytes += bytes;
    return true;
}

void *muster_bulk_take(muster_bulk *bulk, size_t *mapped_out)
{
    void *data = bulk->map;
    *mapped_out = bulk->map_capacity;
    if (data == NULL) {
        data = bulk->vec.data;
        if (bulk->vec.count < bulk->vec.capacity) {
            void *shrunk = muster_mem_resize(data, bulk->vec.count,
                                             bulk->vec.element_bytes);
            data = shrunk != NULL ? shrunk : data;
        }
        bulk->vec.data = NULL;
    }
    bulk->map = NULL;
    bulk->map_capacity = 0;
    bulk->vec = muster_vec_make(bulk->vec.element_bytes);
    muster_bulk_fini(bulk);
    return data;
}
