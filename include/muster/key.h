/*
 * muster/key.h -- run keys: what the processes of one run prove to each other.
 *
 * A run key is 32 random bytes, written as 64 hexadecimal digits in a file that
 * only its owner may read. Processes that connect over TCP prove to each other
 * that they have the same one (TLS 1.3), and encrypt what they send with keys
 * made from it. It says that a process belongs to the run, not which one it is.
 *
 *   Threads      Any.
 */
#ifndef MUSTER_KEY_H
#define MUSTER_KEY_H

#include "muster/export.h"
#include "muster/status.h"

#ifdef __cplusplus
extern "C" {
#endif

/* 64 digits, a newline and the end of the text. */
#define MUSTER_KEY_TEXT_BYTES 66u

/* Draw a fresh key; text_out has room for MUSTER_KEY_TEXT_BYTES.
 * MUSTER_ERR_SYSTEM: the system gives no random numbers. */
MUSTER_API MUSTER_CHECKED muster_status muster_key_make(char *text_out);

#ifdef __cplusplus
}
#endif

#endif // MUSTER_KEY_H
