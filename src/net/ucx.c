/*
 * ucx.c -- fabric.h over UCX: a module of its own, since UCX brings threads,
 * hooks and signal handlers that only those who ask for it are to get.
 *
 * Design. One context and one worker, in serialized thread mode: the net's
 * owner changes. Every link is an endpoint in peer error mode, made from the
 * other's worker address. A message is one active message; a long body is sent
 * by rendezvous, so that it is written once, to where the receiver wants it.
 *
 *   1. UCX calls us from ucp_worker_progress() alone. An endpoint must not be
 *      closed there, so links that end meanwhile are closed after it.
 *   2. A link is freed when its endpoint is closed and its last send is over:
 *      in peer error mode every send ends, also when the peer died.
 *   3. A gentle end flushes first. After FLUSH_NS it is closed by force.
 *
 * UCX's own keepalive is off: the connection by which a peer entered tells of
 * its death, and heartbeats are the roles' business.
 */
#define _GNU_SOURCE
#include <poll.h>
#include <ucp/api/ucp.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/mem.h"
#include "net/fabric.h"

#define MESSAGE_ID   1
#define PROGRESS_MAX 256 // calls in a turn
#define FLUSH_NS     (2 * MUSTER_NS_PER_S)
#define NAP_MS       10
#define HEADERS_MAX  (4u << 10)

typedef enum link_state {
    LINK_OPEN,
    LINK_ENDING,   // to be closed by force, when UCX may be called
    LINK_FLUSHING, // to be flushed, then closed
    LINK_CLOSED,   // UCX was asked to close
} link_state;

struct muster_fabric_link {
    muster_fabric *fabric;
    muster_fabric_link *next; // of all links of the fabric
    void *owner;              // NULL: ended
    ucp_ep_h endpoint;        // NULL: closed
    link_state state;
    int64_t force_ns; // when to stop flushing
    void *closing;    // UCX's request to flush or close, NULL: none
};

struct muster_fabric {
    muster_fabric_callbacks callbacks;
    void *context;
    ucp_context_h ucp;
    ucp_worker_h worker;
    ucp_address_t *address;
    size_t address_bytes;
    size_t header_bytes_max;
    int descriptor;
    muster_fabric_link *links;
    unsigned ending; // links that are neither open nor closed
    unsigned busy;   // sends and landings under way
};

/* open -------------------------------------------------------------------- */

static muster_status fail(muster_error *error_out, const char *what,
                          ucs_status_t status)
{
    return muster_error_set(error_out, MUSTER_ERR_SYSTEM,
                            "engine ucx: %s: %s (UCX_TLS and UCX_NET_DEVICES "
                            "choose the transport)",
                            what, ucs_status_string(status));
}

static ucs_status_t open_context(muster_fabric *fabric)
{
    ucp_config_t *config = NULL;
    ucs_status_t status = ucp_config_read(NULL, NULL, &config);
    if (status != UCS_OK) {
        return status;
    }
    (void)ucp_config_modify(config, "KEEPALIVE_INTERVAL", "inf");
    (void)ucp_config_modify(config, "MAX_RNDV_RAILS", "1");
    const ucp_params_t params = {
        .field_mask = UCP_PARAM_FIELD_FEATURES | UCP_PARAM_FIELD_NAME,
        .features = UCP_FEATURE_AM | UCP_FEATURE_WAKEUP,
        .name = "muster",
    };
    status = ucp_init(&params, config, &fabric->ucp);
    ucp_config_release(config);
    return status;
}

static ucs_status_t open_worker(muster_fabric *fabric)
{
    const ucp_worker_params_t params = {
        .field_mask =
            UCP_WORKER_PARAM_FIELD_THREAD_MODE | UCP_WORKER_PARAM_FIELD_EVENTS,
        .thread_mode = UCS_THREAD_MODE_SERIALIZED,
        .events = UCP_WAKEUP_RMA | UCP_WAKEUP_AMO | UCP_WAKEUP_TAG_SEND |
                  UCP_WAKEUP_TAG_RECV | UCP_WAKEUP_TX | UCP_WAKEUP_RX,
    };
    ucs_status_t status =
        ucp_worker_create(fabric->ucp, &params, &fabric->worker);
    if (status != UCS_OK) {
        return status;
    }
    ucp_worker_attr_t attr = {.field_mask =
                                  UCP_WORKER_ATTR_FIELD_THREAD_MODE |
                                  UCP_WORKER_ATTR_FIELD_MAX_AM_HEADER};
    status = ucp_worker_query(fabric->worker, &attr);
    if (status == UCS_OK && attr.thread_mode == UCS_THREAD_MODE_SINGLE) {
        status = UCS_ERR_UNSUPPORTED; // built without threads
    }
    fabric->header_bytes_max =
        attr.max_am_header < HEADERS_MAX ? attr.max_am_header : HEADERS_MAX;
    if (status == UCS_OK) {
        status = ucp_worker_get_address(fabric->worker, &fabric->address,
                                        &fabric->address_bytes);
    }
    return status == UCS_OK
               ? ucp_worker_get_efd(fabric->worker, &fabric->descriptor)
               : status;
}

/* receive ----------------------------------------------------------------- */

static muster_status status_of(ucs_status_t status)
{
    return status == UCS_OK ? MUSTER_OK : MUSTER_ERR_PEER_LOST;
}

static void on_landed(void *request, ucs_status_t status, size_t length,
                      void *user_data)
{
    muster_fabric_ticket *ticket = user_data;
    muster_fabric *fabric = ticket->fabric;
    (void)length;
    ucp_request_free(request);
    fabric->busy--;
    fabric->callbacks.on_landed(fabric->context, ticket, status_of(status));
}

/* A body that waits at its sender. */
static ucs_status_t on_offer(muster_fabric *fabric, const void *header,
                             size_t header_bytes, void *data, size_t length)
{
    muster_fabric_ticket *ticket = NULL;
    void *room = fabric->callbacks.on_offer(fabric->context, header,
                                            header_bytes, length, &ticket);
    if (room == NULL) {
        return UCS_OK; // dropped
    }
    const ucp_request_param_t param = {
        .op_attr_mask = UCP_OP_ATTR_FIELD_CALLBACK |
                        UCP_OP_ATTR_FIELD_USER_DATA |
                        UCP_OP_ATTR_FLAG_NO_IMM_CMPL,
        .cb.recv_am = on_landed,
        .user_data = ticket,
    };
    ticket->fabric = fabric;
    fabric->busy++;
    ucs_status_ptr_t request =
        ucp_am_recv_data_nbx(fabric->worker, data, room, length, &param);
    if (UCS_PTR_IS_ERR(request)) {
        fabric->busy--;
        fabric->callbacks.on_landed(fabric->context, ticket,
                                    MUSTER_ERR_PEER_LOST);
    }
    return UCS_OK;
}

static ucs_status_t on_message(void *argument, const void *header,
                               size_t header_bytes, void *data, size_t length,
                               const ucp_am_recv_param_t *param)
{
    muster_fabric *fabric = argument;
    if ((param->recv_attr & UCP_AM_RECV_ATTR_FLAG_RNDV) != 0) {
        return on_offer(fabric, header, header_bytes, data, length);
    }
    fabric->callbacks.on_message(fabric->context, header, header_bytes, data,
                                 length);
    return UCS_OK;
}

static bool fabric_close(muster_fabric *fabric, int64_t grace_ns);

static muster_status fabric_open(const muster_fabric_callbacks *callbacks,
                                 void *context, muster_error *error_out,
                                 muster_fabric **fabric_out)
{
    muster_fabric *fabric = muster_mem_array(1, sizeof(*fabric));
    if (fabric == NULL) {
        return muster_error_set(error_out, MUSTER_ERR_NO_MEMORY,
                                "no memory for engine ucx");
    }
    fabric->callbacks = *callbacks;
    fabric->context = context;
    const char *what = "cannot open a context";
    ucs_status_t status = open_context(fabric);
    if (status == UCS_OK) {
        what = "cannot open a worker that can sleep";
        status = open_worker(fabric);
    }
    if (status == UCS_OK) {
        const ucp_am_handler_param_t handler = {
            .field_mask = UCP_AM_HANDLER_PARAM_FIELD_ID |
                          UCP_AM_HANDLER_PARAM_FIELD_CB |
                          UCP_AM_HANDLER_PARAM_FIELD_ARG,
            .id = MESSAGE_ID,
            .cb = on_message,
            .arg = fabric,
        };
        what = "cannot receive active messages";
        status = ucp_worker_set_am_recv_handler(fabric->worker, &handler);
    }
    if (status != UCS_OK) {
        (void)fabric_close(fabric, 0);
        return fail(error_out, what, status);
    }
    *fabric_out = fabric;
    return MUSTER_OK;
}

/* links ------------------------------------------------------------------- */

static void on_error(void *argument, ucp_ep_h endpoint, ucs_status_t status)
{
    muster_fabric_link *link = argument;
    muster_fabric *fabric = link->fabric;
    (void)endpoint;
    if (link->owner != NULL) {
        fabric->callbacks.on_broken(fabric->context, link->owner,
                                    ucs_status_string(status));
    }
}

static muster_status fabric_connect(muster_fabric *fabric, const void *address,
                                    void *owner, muster_error *error_out,
                                    muster_fabric_link **link_out)
{
    muster_fabric_link *link = muster_mem_array(1, sizeof(*link));
    if (link == NULL) {
        return muster_error_set(error_out, MUSTER_ERR_NO_MEMORY,
                                "no memory for another link");
    }
    const ucp_ep_params_t params = {
        .field_mask = UCP_EP_PARAM_FIELD_REMOTE_ADDRESS |
                      UCP_EP_PARAM_FIELD_ERR_HANDLING_MODE |
                      UCP_EP_PARAM_FIELD_ERR_HANDLER,
        .address = address,
        .err_mode = UCP_ERR_HANDLING_MODE_PEER,
        .err_handler = {.cb = on_error, .arg = link},
    };
    link->fabric = fabric;
    link->owner = owner;
    ucs_status_t status =
        ucp_ep_create(fabric->worker, &params, &link->endpoint);
    if (status != UCS_OK) {
        muster_mem_free(link);
        return fail(error_out, "cannot connect", status);
    }
    link->next = fabric->links;
    fabric->links = link;
    *link_out = link;
    return MUSTER_OK;
}

static void on_sent(void *request, ucs_status_t status, void *user_data)
{
    muster_fabric_ticket *ticket = user_data;
    muster_fabric *fabric = ticket->fabric;
    ucp_request_free(request);
    fabric->busy--;
    fabric->callbacks.on_sent(fabric->context, ticket, status_of(status));
}

static muster_status fabric_send(muster_fabric_link *link,
                                 const muster_fabric_send *message,
                                 muster_fabric_ticket *ticket)
{
    if (link->state != LINK_OPEN) {
        return MUSTER_ERR_PEER_LOST;
    }
    const ucp_request_param_t param = {
        .op_attr_mask = UCP_OP_ATTR_FIELD_CALLBACK |
                        UCP_OP_ATTR_FIELD_USER_DATA | UCP_OP_ATTR_FIELD_FLAGS,
        .flags =
            message->offer ? UCP_AM_SEND_FLAG_RNDV : UCP_AM_SEND_FLAG_EAGER,
        .cb.send = on_sent,
        .user_data = ticket,
    };
    ticket->fabric = link->fabric;
    ucs_status_ptr_t request = ucp_am_send_nbx(
        link->endpoint, MESSAGE_ID, message->header, message->header_bytes,
        message->body, message->body_bytes, &param);
    if (UCS_PTR_IS_PTR(request)) {
        link->fabric->busy++;
        return MUSTER_IN_PROGRESS;
    }
    return status_of(UCS_PTR_STATUS(request));
}

/* Ask UCX to close the endpoint. */
static void close_endpoint(muster_fabric_link *link)
{
    const ucp_request_param_t param = {
        .op_attr_mask = UCP_OP_ATTR_FIELD_FLAGS,
        .flags = UCP_EP_CLOSE_FLAG_FORCE,
    };
    if (link->closing != NULL) {
        ucp_request_free(link->closing); // the flush ends with the endpoint
    }
    link->closing = ucp_ep_close_nbx(link->endpoint, &param);
    link->endpoint = NULL;
    link->state = LINK_CLOSED;
}

static void flush_endpoint(muster_fabric_link *link)
{
    const ucp_request_param_t param = {0};
    ucs_status_ptr_t request = ucp_ep_flush_nbx(link->endpoint, &param);
    if (UCS_PTR_IS_PTR(request)) {
        link->closing = request;
        link->force_ns = muster_clock_ns() + FLUSH_NS;
    } else {
        close_endpoint(link);
    }
}

/* Is the request that ends the link over? */
static bool has_ended(muster_fabric_link *link)
{
    if (UCS_PTR_IS_PTR(link->closing)) {
        if (ucp_request_check_status(link->closing) == UCS_INPROGRESS) {
            return false;
        }
        ucp_request_free(link->closing);
    }
    link->closing = NULL;
    return true;
}

/* Bring the links that end a step further; outside of UCX's callbacks. */
static void tend_links(muster_fabric *fabric)
{
    muster_fabric_link **at = &fabric->links;
    while (fabric->ending > 0 && *at != NULL) {
        muster_fabric_link *link = *at;
        if (link->state == LINK_ENDING) {
            close_endpoint(link);
        } else if (link->state == LINK_FLUSHING && link->closing == NULL) {
            flush_endpoint(link);
        } else if (link->state == LINK_FLUSHING) {
            if (has_ended(link) || muster_clock_ns() >= link->force_ns) {
                close_endpoint(link);
            }
        }
        if (link->state == LINK_CLOSED && has_ended(link)) {
            *at = link->next;
            fabric->ending--;
            muster_mem_free(link);
        } else {
            at = &link->next;
        }
    }
}

static void fabric_end(muster_fabric_link *link, bool gently)
{
    link->owner = NULL;
    link->state = gently ? LINK_FLUSHING : LINK_ENDING;
    link->fabric->ending++;
}

/* the loop ---------------------------------------------------------------- */

static bool fabric_progress(muster_fabric *fabric)
{
    unsigned moved = 1;
    bool any = false;
    tend_links(fabric);
    for (int i = 0; i < PROGRESS_MAX && moved > 0; i++) {
        moved = ucp_worker_progress(fabric->worker);
        any = any || moved > 0;
        tend_links(fabric);
    }
    return any;
}

static bool fabric_arm(muster_fabric *fabric)
{
    return ucp_worker_arm(fabric->worker) == UCS_OK;
}

static int fabric_descriptor(const muster_fabric *fabric)
{
    return fabric->descriptor;
}

static size_t fabric_header_bytes_max(const muster_fabric *fabric)
{
    return fabric->header_bytes_max;
}

static const void *fabric_address(const muster_fabric *fabric,
                                  size_t *bytes_out)
{
    *bytes_out = fabric->address_bytes;
    return fabric->address;
}

/* Progress until no link is left, at most until then. */
static void drain(muster_fabric *fabric, int64_t until_ns)
{
    while ((fabric->links != NULL || fabric->busy > 0) &&
           muster_clock_ns() < until_ns) {
        if (!fabric_progress(fabric) && fabric_arm(fabric)) {
            struct pollfd nap = {.fd = fabric->descriptor, .events = POLLIN};
            (void)poll(&nap, 1, NAP_MS);
        }
    }
}

/* UCX asserts when a worker with requests under way is destroyed. Such a worker
 * is left to the end of the process. */
static bool close_worker(muster_fabric *fabric, int64_t grace_ns)
{
    int64_t now_ns = muster_clock_ns();
    drain(fabric, now_ns + grace_ns);
    for (muster_fabric_link *it = fabric->links; it != NULL; it = it->next) {
        it->force_ns = 0;
    }
    drain(fabric, now_ns + grace_ns + grace_ns / 2);
    if (fabric->busy > 0 || fabric->links != NULL) {
        return false;
    }
    if (fabric->address != NULL) {
        ucp_worker_release_address(fabric->worker, fabric->address);
    }
    ucp_worker_destroy(fabric->worker);
    return true;
}

static bool fabric_close(muster_fabric *fabric, int64_t grace_ns)
{
    if (fabric->worker != NULL && !close_worker(fabric, grace_ns)) {
        return false;
    }
    if (fabric->ucp != NULL) {
        ucp_cleanup(fabric->ucp);
    }
    muster_mem_free(fabric);
    return true;
}

__attribute__((
    visibility("default"))) extern const muster_fabric_module muster_fabric_ucx;
const muster_fabric_module muster_fabric_ucx = {
    .version = MUSTER_FABRIC_VERSION,
    .open = fabric_open,
    .close = fabric_close,
    .descriptor = fabric_descriptor,
    .header_bytes_max = fabric_header_bytes_max,
    .address = fabric_address,
    .connect = fabric_connect,
    .send = fabric_send,
    .end = fabric_end,
    .progress = fabric_progress,
    .arm = fabric_arm,
};
