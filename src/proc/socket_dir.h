/*
 * proc/socket_dir.h -- a private folder for the sockets of local processes.
 */
#ifndef MUSTER_PROC_SOCKET_DIR_H
#define MUSTER_PROC_SOCKET_DIR_H

#include "muster/status.h"
#include "net/net.h"

/* A Unix socket's place that only this user can reach: a fresh folder of mode
 * 0700 under $XDG_RUNTIME_DIR, or /tmp. It is locked as long as the process
 * lives; open removes those of processes that were killed. */
typedef struct muster_socket_dir {
    int lock; // the folder, open
    char folder[96];
    char file[108];
    char address[MUSTER_NET_ADDRESS_MAX]; // "unix:" and the file
} muster_socket_dir;

MUSTER_CHECKED muster_status muster_socket_dir_open(muster_error *error_out,
                                                    muster_socket_dir *dir_out);
void muster_socket_dir_close(muster_socket_dir *dir);

#endif // MUSTER_PROC_SOCKET_DIR_H
