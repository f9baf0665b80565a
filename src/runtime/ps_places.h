/*
 * runtime/ps_places.h -- where the nodes of a mesh listen, as one text that all
 * of them are given.
 *
 *   FOLDER                      node i at the socket FOLDER/node-i
 *   tcp:PORT                    node i at port PORT + i of 127.0.0.1
 *   tcp:HOST:PORT               node i at port PORT + i of HOST
 *   tcp:HOST:PORT,HOST:PORT,..  node i at the i-th of them: one a node
 */
#ifndef MUSTER_RUNTIME_PS_PLACES_H
#define MUSTER_RUNTIME_PS_PLACES_H

#include <stdint.h>

/* What keeps `nodes` nodes from meeting there, or NULL. */
const char *muster_ps_places_fault(const char *places, uint32_t nodes);

/* The address of a node (MUSTER_NET_ADDRESS_MAX bytes). The text has no fault
 * for more than `node` nodes. */
void muster_ps_places_at(const char *places, uint32_t node, char *address_out);

#endif // MUSTER_RUNTIME_PS_PLACES_H
