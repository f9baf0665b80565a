/*
 * fuzz_idx.c -- a pair of idx files from anywhere.
 */
#include "check_table.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    two_files files = cut_input(data, size);
    muster_source *labels = open_bytes(files.labels, files.labels_size);
    muster_source *samples = open_bytes(files.samples, files.samples_size);
    muster_table table = {0};
    muster_error error;
    check_table(muster_idx_read(samples, labels, &error, &table), &table);
    muster_source_close(samples);
    muster_source_close(labels);
    return 0;
}
