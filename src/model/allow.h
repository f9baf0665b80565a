/*
 * model/allow.h -- data never runs code.
 *
 * A saved model, the configuration of a run folder and what a coordinator sends
 * may name a shared object as the model. Such a name is data: it is run only
 * where the person at the keyboard allowed a file of that name, by
 * --allow-model, and then it is that file that is run.
 *
 *   Ownership    A string that is given out is the caller's, for
 *                muster_mem_free().
 */
#ifndef MUSTER_MODEL_ALLOW_H
#define MUSTER_MODEL_ALLOW_H

#include "muster/status.h"

/*
 * The model that `spec`, found in data of `whose` ("the run", a path), may
 * become here: itself where it is built in; with the path `allowed` (NULL:
 * none) in place of its own where it is a shared object of that file name.
 * MUSTER_ERR_INVALID: it is code that was not allowed; the line names the file,
 * its SHA-256 where it can be read, and the option.
 */
MUSTER_CHECKED muster_status muster_model_allow(const char *spec,
                                                const char *allowed,
                                                const char *whose,
                                                muster_error *error_out,
                                                char **spec_out);

/* MUSTER_ERR_INVALID: `allowed`, the value of --allow-model, is no path of a
 * shared object. NULL is good. */
MUSTER_CHECKED muster_status muster_model_allow_check(const char *allowed,
                                                      muster_error *error_out);

/* Say in the log which file's code runs, and its SHA-256. Says nothing of a
 * model that is built in, or of NULL. */
void muster_model_tell_code(const char *spec);

#endif // MUSTER_MODEL_ALLOW_H
