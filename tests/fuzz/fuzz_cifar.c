/*
 * fuzz_cifar.c -- a file of CIFAR-10 records from anywhere.
 */
#include "check_table.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    muster_source *source = open_bytes(data, size);
    muster_vec records = muster_vec_make(MUSTER_CIFAR_RECORD_BYTES);
    muster_table table = {0};
    muster_error error;
    muster_status status = muster_cifar_records(source, &error, &records);
    if (status == MUSTER_OK) {
        status = muster_cifar_table(&records, "input", &error, &table);
    }
    check_table(status, &table);
    muster_vec_fini(&records);
    muster_source_close(source);
    return 0;
}
