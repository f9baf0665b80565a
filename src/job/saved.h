/*
 * job/saved.h -- a trained model as a file, and back.
 *
 * model.safetensors holds the model's tensors by name, and as metadata what is
 * needed to use them: `model` (the spec), `features`, `classes`, `image`
 * (28x28x1 where rows are images, else 0x0x0), `kind`
 * (regression, classes, binary) and `class_values` (what the data's files call
 * the classes, in order). Where the label was a column among others, `label` is
 * its name and `label_column` its number from 1.
 *
 *   Promise      read() refuses a file whose tensors are not exactly those of
 *                the model that its metadata names, or are not finite, or
 *                whose checksum (record/checksum.h) is another.
 *   Ownership    fini ends what read gave.
 */
#ifndef MUSTER_JOB_SAVED_H
#define MUSTER_JOB_SAVED_H

#include "model/model.h"
#include "muster/status.h"

typedef struct muster_saved {
    muster_model model;
    float *theta;          // model.dim
    float *class_values;   // model.classes
    char *label_name;      // the label's column by name; NULL: it has none
    uint32_t label_column; // by number, from 1; 0: it was not a column
} muster_saved;

/* MUSTER_ERR_SYSTEM: it could not be written. */
MUSTER_CHECKED muster_status muster_saved_write(const char *path,
                                                const char *spec,
                                                const muster_saved *saved,
                                                muster_error *error_out);

/* `allowed` is the shared object that may be run where the file's model is one
 * (model/allow.h); NULL: none. MUSTER_ERR_INPUT with what is wrong; else as
 * muster_model_allow() and muster_model_create(). */
MUSTER_CHECKED muster_status muster_saved_read(const char *path,
                                               const char *allowed,
                                               muster_error *error_out,
                                               muster_saved *saved_out);

void muster_saved_fini(muster_saved *saved);

#endif // MUSTER_JOB_SAVED_H
