/*
 * muster/version.h -- which Muster this is.
 *
 * The program and library version is for people; the protocol number is what
 * two processes compare before they talk, and changes only when an old process
 * could misread a new one's messages. docs/compatibility.md says what stays.
 *
 *   Threads      Pure functions; texts are lent for ever.
 */
#ifndef MUSTER_VERSION_H
#define MUSTER_VERSION_H

#include "muster/export.h"

#ifdef __cplusplus
extern "C" {
#endif

#define MUSTER_VERSION          "0.1.0"
#define MUSTER_PROTOCOL_VERSION 3

/* The library's MUSTER_VERSION, which may differ from the header's. */
MUSTER_API const char *muster_version(void);

#ifdef __cplusplus
}
#endif
#endif // MUSTER_VERSION_H
