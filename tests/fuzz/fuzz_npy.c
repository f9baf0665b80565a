/*
 * fuzz_npy.c -- an npy file from anywhere, with labels of its own or, when
 * their length is 0, inside.
 */
#include "check_table.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    two_files files = cut_input(data, size);
    muster_source *labels = NULL;
    if (files.labels_size > 0) {
        labels = open_bytes(files.labels, files.labels_size);
    }
    muster_source *samples = open_bytes(files.samples, files.samples_size);
    muster_table table = {0};
    muster_error error;
    const muster_label_column none = {.name = NULL};
    check_table(muster_npy_read(samples, labels, &none, &error, &table),
                &table);
    muster_source_close(samples);
    muster_source_close(labels);
    return 0;
}
