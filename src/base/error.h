/*
 * base/error.h -- fill in a muster_error.
 *
 *   return muster_error_set(error, MUSTER_ERR_INPUT,
 *                           "%s:%zu: label '%s' is not a number", ...);
 *
 * Returns `status`, so that failing is one line. `error` may be NULL.
 */
#ifndef MUSTER_BASE_ERROR_H
#define MUSTER_BASE_ERROR_H

#include "muster/status.h"

muster_status muster_error_set(muster_error *error, muster_status status,
                               const char *format, ...)
    __attribute__((format(printf, 3, 4)));

#endif // MUSTER_BASE_ERROR_H
