/*
 * net/fabric.h -- what a module for a cluster's own network offers to the net.
 *
 * A fabric moves messages between worker addresses: a short header and a body.
 * A short body comes with its message. A long one is offered first, and the
 * receiver says where to put it. Who may connect, when a message leaves, what
 * it means and who has died is the net's business (conn_fabric.c).
 *
 * The module is a shared object with one symbol, MUSTER_FABRIC_SYMBOL, a
 * muster_fabric_module. It is loaded when --engine asks for it, so that nobody
 * else gets its libraries, threads and hooks.
 *
 *   Promise      A message that was sent on a link arrives whole and at most
 *                once, in no promised order. on_sent comes exactly once for
 *                each send that answered MUSTER_IN_PROGRESS, and on_landed for
 *                each offer that was taken, unless close() comes before.
 *                Without traffic no processor time is used.
 *   Lifecycle    open; connect, send, end, progress; close.
 *   Ownership    Header and body of a send, and the memory for an offered
 *                body, belong to the fabric until on_sent and on_landed.
 *   Threads      The thread that owns the net.
 *   Not here     Authentication and encryption: a fabric is trusted.
 */
#ifndef MUSTER_NET_FABRIC_H
#define MUSTER_NET_FABRIC_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "muster/status.h"

#define MUSTER_FABRIC_SYMBOL  "muster_fabric_ucx"
#define MUSTER_FABRIC_VERSION 1u

typedef struct muster_fabric muster_fabric;

/* A way to one worker address. */
typedef struct muster_fabric_link muster_fabric_link;

/* Of a send or a landing under way: the first member of what the caller keeps
 * for it. */
typedef struct muster_fabric_ticket {
    muster_fabric *fabric; // set by the fabric
} muster_fabric_ticket;

/* Called from progress() and close() only. They may call send and end. */
typedef struct muster_fabric_callbacks {
    void (*on_message)(void *context, const uint8_t *header,
                       size_t header_bytes, const uint8_t *body,
                       size_t body_bytes);
    /* A long body waits at its sender. Returns where to put it, and the ticket
     * that on_landed is to be called with; NULL: nowhere. */
    void *(*on_offer)(void *context, const uint8_t *header, size_t header_bytes,
                      size_t body_bytes, muster_fabric_ticket **ticket_out);
    void (*on_landed)(void *context, muster_fabric_ticket *ticket,
                      muster_status status);
    void (*on_sent)(void *context, muster_fabric_ticket *ticket,
                    muster_status status);
    /* The link is of no use any more; end it. Not after end(). */
    void (*on_broken)(void *context, void *owner, const char *reason);
} muster_fabric_callbacks;

/* One message. The header has at most header_bytes_max bytes. */
typedef struct muster_fabric_send {
    const void *header;
    size_t header_bytes;
    const void *body;
    size_t body_bytes;
    bool offer; // offer the body: it is long
} muster_fabric_send;

typedef struct muster_fabric_module {
    uint32_t version; // MUSTER_FABRIC_VERSION
    muster_status (*open)(const muster_fabric_callbacks *callbacks,
                          void *context, muster_error *error_out,
                          muster_fabric **fabric_out);
    /* Waits up to grace_ns for links that end gently. False: sends or landings
     * cannot be ended; what they use has to stay as long as the process. */
    bool (*close)(muster_fabric *fabric, int64_t grace_ns);
    /* Readable when there is something to progress, after arm(). */
    int (*descriptor)(const muster_fabric *fabric);
    size_t (*header_bytes_max)(const muster_fabric *fabric);
    /* Where others reach this process; lent until close. */
    const void *(*address)(const muster_fabric *fabric, size_t *bytes_out);
    muster_status (*connect)(muster_fabric *fabric, const void *address,
                             void *owner, muster_error *error_out,
                             muster_fabric_link **link_out);
    /* MUSTER_OK: sent, no on_sent comes. MUSTER_IN_PROGRESS: it will come.
     * MUSTER_ERR_PEER_LOST: not taken. */
    muster_status (*send)(muster_fabric_link *link,
                          const muster_fabric_send *message,
                          muster_fabric_ticket *ticket);
    /* Let the link go. `gently`: what was sent on it still leaves. */
    void (*end)(muster_fabric_link *link, bool gently);
    /* Move what can be moved now; false: there was nothing. */
    bool (*progress)(muster_fabric *fabric);
    /* Have the descriptor tell of what comes; false: progress first. */
    bool (*arm)(muster_fabric *fabric);
} muster_fabric_module;

/* The module of this name beside this library. MUSTER_ERR_UNSUPPORTED and what
 * is missing. The module stays loaded. */
MUSTER_CHECKED muster_status
muster_fabric_load(const char *name, muster_error *error_out,
                   const muster_fabric_module **module_out);

/* A device of RDMA under `sysfs` ("/sys") with an active port, for a person;
 * false: none. */
bool muster_fabric_rdma(const char *sysfs, char *device_out, size_t room);

#endif // MUSTER_NET_FABRIC_H
