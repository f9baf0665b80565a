/*
 * net/socket_address.h -- "unix:/path", "unix:@name" and "tcp:HOST:PORT" to
 * struct sockaddr, and back.
 *
 * HOST is a name, an IPv4 address or an IPv6 address in brackets. A name is
 * looked up when parsed, which may take as long as the resolver does; numbers
 * are not looked up.
 */
#ifndef MUSTER_NET_SOCKET_ADDRESS_H
#define MUSTER_NET_SOCKET_ADDRESS_H

#include <stdbool.h>
#include <sys/socket.h>

#include "muster/status.h"

typedef struct muster_socket_address {
    struct sockaddr_storage storage;
    socklen_t length;
} muster_socket_address;

/* MUSTER_ERR_INVALID says what is wrong with the text: an absent host, too, as
 * we bind only where told. MUSTER_ERR_INPUT: no host of that name. */
MUSTER_CHECKED muster_status
muster_socket_address_parse(const char *text, muster_error *error_out,
                            muster_socket_address *address_out);

bool muster_socket_address_is_unix(const muster_socket_address *address);

/* Can only this machine reach it: a Unix socket, or loopback? */
bool muster_socket_address_is_local(const muster_socket_address *address);

/* The path to unlink in the end, "" for any other kind of address. Lent. */
const char *muster_socket_address_path(const muster_socket_address *address);

/* The text that parse() reads, into MUSTER_NET_ADDRESS_MAX bytes. An unnamed
 * Unix socket becomes "unix". */
void muster_socket_address_format(const muster_socket_address *address,
                                  char *text_out);

/* An address that other machines can connect to, into MUSTER_NET_ADDRESS_MAX
 * bytes: where `text` names every address of this machine (0.0.0.0 or [::]), an
 * address of one of its network cards, or else its host name. Any other text
 * stays as it is. */
void muster_net_reachable(const char *text, char *text_out);

#endif // MUSTER_NET_SOCKET_ADDRESS_H
