/*
 * status.c -- the functions made from MUSTER_STATUS_TABLE, and muster_error.
 */
#include "muster/status.h"

#include <stdarg.h>
#include <stdio.h>

#include "base/error.h"
#include "muster/version.h"

const char *muster_version(void)
{
    return MUSTER_VERSION;
}

const char *muster_status_text(muster_status status)
{
    switch (status) {
#define STATUS_TEXT(name, value, exit_code, text) \
    case name:                                    \
        return text;
        MUSTER_STATUS_TABLE(STATUS_TEXT)
#undef STATUS_TEXT
    }
    return "unknown status";
}

const char *muster_status_name(muster_status status)
{
    switch (status) {
#define STATUS_NAME(name, value, exit_code, text) \
    case name:                                    \
        return #name;
        MUSTER_STATUS_TABLE(STATUS_NAME)
#undef STATUS_NAME
    }
    return "MUSTER_UNKNOWN";
}

int muster_status_exit_code(muster_status status)
{
    switch (status) {
#define STATUS_EXIT(name, value, exit_code, text) \
    case name:                                    \
        return exit_code;
        MUSTER_STATUS_TABLE(STATUS_EXIT)
#undef STATUS_EXIT
    }
    return 1;
}

muster_status muster_error_set(muster_error *error, muster_status status,
                               const char *format, ...)
{
    if (error != NULL) {
        va_list args;
        va_start(args, format);
        vsnprintf(error->text, sizeof(error->text), format, args);
        va_end(args);
        error->status = status;
    }
    return status;
}
