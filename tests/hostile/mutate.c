/*
 * mutate.c -- a copy of a file with one to four faults in it, by seed: bits
 * turned, bytes replaced, a piece cut out, doubled or swapped with another, the
 * end cut off, a number made large.
 *
 * Usage: mutate SEED FROM TO. The copy always differs.
 */
#define _GNU_SOURCE
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { BYTES_MAX = 1 << 20, FAULTS = 7 };

typedef struct file {
    unsigned char *bytes; // 2 x BYTES_MAX
    size_t count;
    uint64_t state;
} file;

static size_t draw(file *f, size_t bound)
{
    f->state = f->state * 6364136223846793005ull + 1442695040888963407ull;
    return bound == 0 ? 0 : (size_t)((f->state >> 33) % bound);
}

static void cut(file *f, size_t at, size_t some)
{
    memmove(f->bytes + at, f->bytes + at + some, f->count - at - some);
    f->count -= some;
}

static void repeat(file *f, size_t at, size_t some)
{
    if (f->count + some <= BYTES_MAX) {
        memmove(f->bytes + at + some, f->bytes + at, f->count - at);
        f->count += some;
    }
}

static void swap(file *f, size_t at, size_t some)
{
    size_t other = draw(f, f->count - some + 1);
    for (size_t i = 0; i < some; i++) {
        unsigned char byte = f->bytes[at + i];
        f->bytes[at + i] = f->bytes[other + i];
        f->bytes[other + i] = byte;
    }
}

/* A digit becomes nine of them; in a binary file eight bytes become ones. */
static void enlarge(file *f, size_t at)
{
    for (size_t i = at; i < f->count; i++) {
        if (f->bytes[i] >= '0' && f->bytes[i] <= '9') {
            repeat(f, i, 8);
            memset(f->bytes + i, '9', f->count - i < 9 ? f->count - i : 9);
            return;
        }
    }
    memset(f->bytes + at, 0xff, f->count - at < 8 ? f->count - at : 8);
}

static void spoil(file *f)
{
    size_t at = draw(f, f->count);
    size_t some = 1 + draw(f, f->count - at < 64 ? f->count - at : 64);
    if (f->count == 0) {
        return;
    }
    some = some > f->count - at ? f->count - at : some;
    switch (draw(f, FAULTS)) {
    case 0:
        f->bytes[at] ^= (unsigned char)(1u << draw(f, 8));
        break;
    case 1:
        f->bytes[at] = (unsigned char)draw(f, 256);
        break;
    case 2:
        cut(f, at, some);
        break;
    case 3:
        repeat(f, at, some);
        break;
    case 4:
        swap(f, at, some);
        break;
    case 5:
        f->count = at;
        break;
    default:
        enlarge(f, at);
    }
}

static int read_file(file *f, const char *path)
{
    FILE *from = fopen(path, "rb");
    f->bytes = calloc(2, BYTES_MAX);
    if (from == NULL || f->bytes == NULL) {
        return 0;
    }
    f->count = fread(f->bytes, 1, BYTES_MAX, from);
    (void)fclose(from);
    return 1;
}

int main(int argc, char **argv)
{
    file f = {.state = argc == 4 ? strtoull(argv[1], NULL, 10) : 0};
    file before = {0};
    if (argc != 4 || !read_file(&f, argv[2]) || !read_file(&before, argv[2])) {
        fprintf(stderr, "usage: mutate SEED FROM TO\n");
        return EXIT_FAILURE;
    }
    (void)draw(&f, 2);
    for (size_t left = 1 + draw(&f, 4); left > 0; left--) {
        spoil(&f);
    }
    if (f.count == before.count &&
        memcmp(f.bytes, before.bytes, f.count) == 0) {
        f.bytes[0] ^= 1;
    }
    FILE *to = fopen(argv[3], "wb");
    int written = to != NULL && fwrite(f.bytes, 1, f.count, to) == f.count;
    written = to != NULL && fclose(to) == 0 && written;
    free(f.bytes);
    free(before.bytes);
    return written ? EXIT_SUCCESS : EXIT_FAILURE;
}
