/*
 * net/fabric_inside.h -- what the files of a connection by a fabric share.
 *
 * conn_fabric.c wires and ends connections and owns the net's fabric,
 * fabric_route.c keeps the links, fabric_write.c sends on them, fabric_read.c
 * receives.
 */
#ifndef MUSTER_NET_FABRIC_INSIDE_H
#define MUSTER_NET_FABRIC_INSIDE_H

#include "net/fabric.h"
#include "net/inside.h"

/* Every message leads with: the receiver's number of the connection, its token
 * and the kind, 8 bytes each. */
#define MUSTER_LEAD_BYTES  24u
#define MUSTER_FLIGHTS_MAX 16u // sends of a connection under way

/* Values travel. */
typedef enum muster_lead_kind {
    MUSTER_LEAD_GREETING = 1,
    MUSTER_LEAD_HEARD = 2,  // a greeting of one that has heard ours
    MUSTER_LEAD_FRAMES = 3, // the body is frames
    MUSTER_LEAD_LONG = 4,   // the header goes on with a frame; the body is its
                            // payload
} muster_lead_kind;

/* The link to one worker, shared by all connections to it. */
typedef struct muster_fabric_route {
    struct muster_fabric_route *next;
    struct muster_net *net;
    uint64_t worker; // the number that the worker gave itself
    muster_fabric_link *link;
    unsigned users; // connections
    bool suspect;   // a connection on it was lost: close it with the last
    bool broken;
} muster_fabric_route;

/* The fabric of a net. */
struct muster_net_fabric {
    muster_event_source source; // of the fabric's descriptor
    const muster_fabric_module *module;
    muster_fabric *handle;
    size_t header_bytes_max;
    uint64_t worker; // our number, drawn at random
    muster_fabric_route *routes;
    bool busy;      // called since it last had nothing to progress
    bool moved;     // something came since the last poll began to progress
    bool forsaken;  // must not progress any more
    unsigned drain; // connections whose socket has ended
    struct muster_flight *spares;
    unsigned spare_count;
    struct muster_flight *flights; // of connections that have ended
    struct muster_landing *landings;
};

/* What is given to the fabric at once. */
typedef struct muster_flight {
    muster_fabric_ticket ticket;
    struct muster_flight *next; // of its connection, the net or the spares
    muster_conn *conn;          // NULL: it has ended
    muster_queue items;
    muster_blob *payload; // one reference; of a long one
    size_t bytes;
    uint8_t *buffer; // the lead, then frames
    size_t capacity;
} muster_flight;

/* A long body on its way to us. */
typedef struct muster_landing {
    muster_fabric_ticket ticket;
    struct muster_landing *next; // of its connection or the net
    muster_conn *conn;           // NULL: it has ended
    muster_blob *body;
    bool is_payload; // or frames
    muster_frame frame;
    uint8_t *header; // the message header, of a payload
} muster_landing;

/* fabric_route.c ----------------------------------------------------------- */

/* Set the connection's route to this worker; it is made where there is none. */
MUSTER_CHECKED muster_status muster_route_join(muster_conn *conn,
                                               uint64_t worker,
                                               const void *address,
                                               muster_error *error_out);

/* The connection ends; lost: not because one of the sides wanted it. */
void muster_route_leave(muster_conn *conn, bool lost);

/* End all routes, gently. */
void muster_routes_close(muster_net *net);

/* Of muster_fabric_callbacks; the owner is a muster_fabric_route. */
void muster_fabric_on_broken(void *context, void *owner, const char *reason);

/* fabric_write.c ---------------------------------------------------------- */

/* Greet the peer on the link. */
void muster_fabric_greet(muster_conn *conn, muster_lead_kind kind);

/* Give the fabric what waits and what it may have. */
void muster_fabric_launch(muster_conn *conn);

/* The connection ends: its items are over, its flights the net's. */
void muster_fabric_ground(muster_conn *conn, muster_status status);
void muster_flight_free(muster_flight *flight);

/* Of muster_fabric_callbacks. */
void muster_fabric_on_sent(void *context, muster_fabric_ticket *ticket,
                           muster_status status);

/* fabric_read.c ----------------------------------------------------------- */

/* The connection ends: what is about to land is nobody's. */
void muster_fabric_abandon(muster_conn *conn);
void muster_landing_free(muster_landing *landing);

/* Of muster_fabric_callbacks. */
void muster_fabric_on_message(void *context, const uint8_t *header,
                              size_t header_bytes, const uint8_t *body,
                              size_t body_bytes);
void *muster_fabric_on_offer(void *context, const uint8_t *header,
                             size_t header_bytes, size_t body_bytes,
                             muster_fabric_ticket **ticket_out);
void muster_fabric_on_landed(void *context, muster_fabric_ticket *ticket,
                             muster_status status);

#endif // MUSTER_NET_FABRIC_INSIDE_H
