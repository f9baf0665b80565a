/*
 * replay.c -- runs a libFuzzer target over the files of a folder, so that the
 * corpus is checked by every `make test`, with any compiler.
 */
#define _POSIX_C_SOURCE 200809L
#include <dirent.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static int replay_file(const char *path)
{
    FILE *file = fopen(path, "rb");
    if (file == NULL) {
        fprintf(stderr, "replay: cannot open %s\n", path);
        return -1;
    }
    static uint8_t bytes[1 << 20];
    size_t size = fread(bytes, 1, sizeof(bytes), file);
    fclose(file);
    // An exact-size copy lets the sanitizers see reads past the end.
    uint8_t *copy = malloc(size > 0 ? size : 1);
    if (copy == NULL) {
        return -1;
    }
    for (size_t i = 0; i < size; i++) {
        copy[i] = bytes[i];
    }
    LLVMFuzzerTestOneInput(copy, size);
    free(copy);
    return 0;
}

int main(int argc, char **argv)
{
    if (argc != 2) {
        fprintf(stderr, "usage: replay CORPUS_DIR\n");
        return 2;
    }
    DIR *dir = opendir(argv[1]);
    if (dir == NULL) {
        fprintf(stderr, "replay: no corpus at %s\n", argv[1]);
        return 1;
    }
    int count = 0;
    int failed = 0;
    for (struct dirent *entry = readdir(dir); entry != NULL;
         entry = readdir(dir)) {
        if (entry->d_name[0] == '.') {
            continue;
        }
        char path[4096];
        snprintf(path, sizeof(path), "%s/%s", argv[1], entry->d_name);
        failed += replay_file(path) != 0;
        count++;
    }
    closedir(dir);
    printf("replayed %d inputs\n", count);
    return count == 0 || failed > 0;
}
