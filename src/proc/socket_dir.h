/*
 * proc/socket_dir.h -- a private folder for the sockets of local processes.
 *
 * A fresh folder of mode 0700 under $XDG_RUNTIME_DIR, or else /tmp, named
 * muster-sockets-XXXXXX. A coordinator listens at the file `socket` in it; the
 * nodes of a parameter server at `node-0`, `node-1`, .. The folder is locked as
 * long as the process that made it lives. open() removes the folders that
 * killed processes left behind: those that have such a name, are unlocked and
 * older than ten seconds, and hold no other file.
 *
 *   Lifecycle    open; close, which removes the sockets and the folder.
 */
#ifndef MUSTER_PROC_SOCKET_DIR_H
#define MUSTER_PROC_SOCKET_DIR_H

#include "muster/status.h"
#include "net/net.h"

/* Sockets "edge-0" .. that edges may have in it. */
#define MUSTER_SOCKET_EDGES_MAX 256u

typedef struct muster_socket_dir {
    int lock;                             // the folder, open
    char folder[96];                      // "" when there is none
    char address[MUSTER_NET_ADDRESS_MAX]; // "unix:" FOLDER "/socket"
} muster_socket_dir;

/* MUSTER_ERR_SYSTEM: no folder can be made. */
MUSTER_CHECKED muster_status muster_socket_dir_open(muster_error *error_out,
                                                    muster_socket_dir *dir_out);
void muster_socket_dir_close(muster_socket_dir *dir);

/* Remove sockets and folder, for a process that is about to exit.
 * Async-signal-safe. */
void muster_socket_dir_remove(const muster_socket_dir *dir);

#endif // MUSTER_PROC_SOCKET_DIR_H
