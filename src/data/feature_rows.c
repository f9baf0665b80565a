/*
 * feature_rows.c -- see feature_rows.h.
 */
#include "data/feature_rows.h"

#include "data/readers.h"
#include "data/source.h"

muster_status muster_feature_rows_read(const char *path, uint64_t samples,
                                       muster_error *error_out,
                                       muster_feature_rows *rows_out)
{
    muster_source *source = NULL;
    muster_status status = muster_source_open(path, error_out, &source);
    if (status == MUSTER_OK) {
        status = muster_npy_read_features(
            source, samples, error_out, &rows_out->features, &rows_out->dense);
        muster_source_close(source);
    }
    return status;
}
