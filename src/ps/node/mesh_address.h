/*
 * ps/node/mesh_address.h -- where the nodes of a mesh listen, as one text that all
 * of them are given.
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

/* Can `nodes` nodes meet there, as far as the text tells? MUSTER_ERR_INVALID:
 * the error names what is wrong, and the place. */
MUSTER_CHECKED muster_status muster_mesh_addresses_check(
    const char *places, uint32_t nodes, muster_error *error_out);

/* The address of a node (MUSTER_NET_ADDRESS_MAX bytes). The text was found good
 * for more than `node` nodes. */
void muster_mesh_address_of(const char *places, uint32_t node,
                            char *address_out);

#endif // MUSTER_PS_NODE_MESH_ADDRESS_H
