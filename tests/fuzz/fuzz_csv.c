/*
 * fuzz_csv.c -- comma-separated numbers from anywhere.
 */
#include "check_table.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    muster_source *source = open_bytes(data, size);
    muster_table table = {0};
    muster_error error;
    const muster_label_column none = {.name = NULL};
    check_table(muster_csv_read(source, &none, &error, &table), &table);
    muster_source_close(source);
    return 0;
}
