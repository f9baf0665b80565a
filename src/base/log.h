/*
 * base/log.h -- tell people something; the program decides how (muster/log.h).
 *
 *   Threads      Any. Lines that nobody listens to are not formatted.
 */
#ifndef MUSTER_BASE_LOG_H
#define MUSTER_BASE_LOG_H

#include "muster/log.h"

void muster_log(muster_log_level level, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

#endif // MUSTER_BASE_LOG_H
