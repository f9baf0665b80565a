/*
 * cifar.c -- CIFAR-10's binary files: records of 3,073 bytes, a label and an
 * image of 32 x 32 pixels, all of its red, then green, then blue values. Rows
 * have the three of a pixel side by side, as images have everywhere here.
 */
#include "base/error.h"
#include "data/readers.h"

#define SIDE         32u
#define CHANNELS     3u
#define PIXELS       1024u
#define FEATURES     ((size_t)PIXELS * CHANNELS)
#define RECORD_BYTES MUSTER_CIFAR_RECORD_BYTES
#define LABELS       10u

static muster_status check_label(muster_source *source, uint8_t label,
                                 muster_error *error_out)
{
    return label < LABELS
               ? MUSTER_OK
               : muster_source_fail_byte(
                     source, error_out,
                     "the label before is %u; CIFAR-10 has records of %u "
                     "bytes, the first one a label from 0 to 9",
                     label, RECORD_BYTES);
}

muster_status muster_cifar_records(muster_source *source,
                                   muster_error *error_out, muster_vec *records)
{
    for (;;) {
        const uint8_t *next;
        size_t count;
        muster_status status =
            muster_source_peek(source, error_out, &next, &count);
        if (status != MUSTER_OK || count == 0) {
            return status;
        }
        uint8_t *record = muster_vec_push(records);
        if (record == NULL) {
            return muster_table_fail_memory(muster_source_name(source),
                                            error_out);
        }
        status = muster_source_read(source, record, 1, error_out);
        if (status == MUSTER_OK) {
            status = check_label(source, record[0], error_out);
        }
        if (status == MUSTER_OK) {
            status =
                muster_source_read(source, record + 1, FEATURES, error_out);
        }
        if (status != MUSTER_OK) {
            return status;
        }
    }
}

static void take_pixels(const uint8_t *planes, float *row)
{
    for (uint32_t p = 0; p < PIXELS; p++) {
        for (uint32_t c = 0; c < CHANNELS; c++) {
            row[p * CHANNELS + c] = (float)planes[c * PIXELS + p] / 255.0f;
        }
    }
}

muster_status muster_cifar_table(const muster_vec *records, const char *name,
                                 muster_error *error_out, muster_table *table)
{
    const uint8_t *bytes = records->data;
    muster_status status = muster_table_make_dense(table, records->count,
                                                   FEATURES, name, error_out);
    if (status != MUSTER_OK) {
        muster_table_fini(table);
        return status;
    }
    for (size_t i = 0; i < records->count; i++) {
        const uint8_t *record = bytes + i * RECORD_BYTES;
        table->labels[i] = (float)record[0];
        take_pixels(record + 1, table->dense + i * FEATURES);
    }
    table->image = (muster_image){SIDE, SIDE, CHANNELS};
    return MUSTER_OK;
}
