/*
 * fabric_link.c -- the links of a net: one to each worker of the fabric.
 *
 * The connections between two nets share one link, and it stays when they have
 * ended: UCX pairs endpoints by the order in which both sides make them, so
 * that closing one and making another while the peer does the same can pair
 * the wrong ones, or end in an assertion of UCX. A link is closed when it
 * breaks, when a connection on it was lost, or with the net.
 */
#include "base/error.h"
#include "base/mem.h"
#include "net/fabric_inside.h"

static void unlink_link(muster_fabric_route *link)
{
    muster_fabric_route **at = &link->net->fabric->links;
    while (*at != link) {
        at = &(*at)->next;
    }
    *at = link->next;
}

static void close_link(muster_fabric_route *link)
{
    muster_net_fabric *fabric = link->net->fabric;
    unlink_link(link);
    fabric->module->end(link->way, false);
    fabric->busy = true;
    muster_mem_free(link);
}

muster_status muster_route_join(muster_conn *conn, uint64_t worker,
                                const void *address, muster_error *error_out)
{
    muster_net_fabric *fabric = conn->net->fabric;
    muster_fabric_route *link = fabric->links;
    while (link != NULL && link->worker != worker) {
        link = link->next;
    }
    if (link == NULL) {
        link = muster_mem_array(1, sizeof(*link));
        if (link == NULL) {
            return muster_error_set(error_out, MUSTER_ERR_NO_MEMORY,
                                    "no memory for another link");
        }
        link->net = conn->net;
        link->worker = worker;
        fabric->busy = true;
        muster_status status = fabric->module->connect(
            fabric->handle, address, link, error_out, &link->way);
        if (status != MUSTER_OK) {
            muster_mem_free(link);
            return status;
        }
        link->next = fabric->links;
        fabric->links = link;
    }
    link->users++;
    conn->fabric.link = link;
    return MUSTER_OK;
}

void muster_route_leave(muster_conn *conn, bool lost)
{
    muster_fabric_route *link = conn->fabric.link;
    conn->fabric.link = NULL;
    link->users--;
    link->suspect = link->suspect || lost;
    if (link->users == 0 && link->suspect && !link->broken) {
        close_link(link);
    }
}

void muster_fabric_on_broken(void *context, void *owner, const char *reason)
{
    muster_net *net = context;
    muster_fabric_route *link = owner;
    muster_conn **conns = net->conns.data;
    link->broken = true;
    net->fabric->moved = true;
    for (size_t i = 0; i < net->conns.count; i++) {
        if (conns[i]->fabric.link == link) {
            muster_conn_end(conns[i], MUSTER_ERR_PEER_LOST,
                            "the fabric says: %s", reason);
        }
    }
    close_link(link);
}

void muster_routes_close(muster_net *net)
{
    muster_net_fabric *fabric = net->fabric;
    while (fabric->links != NULL) {
        muster_fabric_route *link = fabric->links;
        fabric->links = link->next;
        fabric->module->end(link->way, true);
        muster_mem_free(link);
    }
}
