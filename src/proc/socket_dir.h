/*
 * proc/socket_dir.h -- addresses as people write them, and a private one.
 */
#ifndef MUSTER_PROC_SOCKET_DIR_H
#define MUSTER_PROC_SOCKET_DIR_H

#include <stdbool.h>
#include <stddef.h>

#include "muster/status.h"
#include "net/net.h"

/* "HOST:PORT" and ":PORT" become "tcp:HOST:PORT" (without a host: loopback);
 * "unix:.." and "tcp:.." stay. address_out has MUSTER_NET_ADDRESS_MAX bytes.
 * MUSTER_ERR_INVALID names `option`. */
MUSTER_CHECKED muster_status muster_address_full(const char *text,
                                                 const char *option,
                                                 muster_error *error_out,
                                                 char *address_out);

/* Can only this machine reach it? */
bool muster_address_is_local(const char *address);

/* A Unix socket's place that only this user can reach: a fresh folder of mode
 * 0700 under $XDG_RUNTIME_DIR, or /tmp. It is locked as long as the process
 * lives; open removes those of processes that were killed. */
typedef struct muster_den {
    int lock; // the folder, open
    char folder[96];
    char file[108];
    char address[MUSTER_NET_ADDRESS_MAX]; // "unix:" and the file
} muster_den;

MUSTER_CHECKED muster_status muster_den_open(muster_error *error_out,
                                             muster_den *den_out);
void muster_den_close(muster_den *den);

#endif // MUSTER_PROC_SOCKET_DIR_H
