/*
 * ps/node/mesh_address.h -- the addresses at which the nodes of a mesh listen,
 * as one text that is the same for all nodes.
 *
 *   FOLDER                      node i at the socket FOLDER/node-i
 *   tcp:PORT                    node i at port PORT + i of 127.0.0.1
 *   tcp:HOST:PORT               node i at port PORT + i of HOST
 *   tcp:HOST:PORT,HOST:PORT,..  node i at the i-th of them: one a node
 *
 * An IPv6 HOST stands in brackets.
 */
#ifndef MUSTER_PS_NODE_MESH_ADDRESS_H
#define MUSTER_PS_NODE_MESH_ADDRESS_H

#include <stdint.h>

#include "muster/status.h"

/* Is the text right for `nodes` nodes? MUSTER_ERR_INVALID: the error names the
 * address and what is wrong. */
MUSTER_CHECKED muster_status muster_mesh_addresses_check(
    const char *addresses, uint32_t nodes, muster_error *error_out);

/* The address of a node (MUSTER_NET_ADDRESS_MAX bytes). The check above has
 * passed the text for more than `node` nodes. */
void muster_mesh_address_of(const char *addresses, uint32_t node,
                            char *address_out);

#endif // MUSTER_PS_NODE_MESH_ADDRESS_H
