/*
 * fabric_route.c -- the links of a net: one to each worker of the fabric.
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

static void unlink_route(muster_fabric_route *route)
{
    muster_fabric_route **at = &route->net->fabric->routes;
    while (*at != route) {
        at = &(*at)->next;
    }
    *at = route->next;
}

static void close_route(muster_fabric_route *route)
{
    muster_net_fabric *fabric = route->net->fabric;
    unlink_route(route);
    fabric->module->end(route->link, false);
    fabric->busy = true;
    muster_mem_free(route);
}

muster_status muster_route_join(muster_conn *conn, uint64_t worker,
                                const void *address, muster_error *error_out)
{
    muster_net_fabric *fabric = conn->net->fabric;
    muster_fabric_route *route = fabric->routes;
    while (route != NULL && route->worker != worker) {
        route = route->next;
    }
    if (route == NULL) {
        route = muster_mem_array(1, sizeof(*route));
        if (route == NULL) {
            return muster_error_set(error_out, MUSTER_ERR_NO_MEMORY,
                                    "no memory for another link");
        }
        route->net = conn->net;
        route->worker = worker;
        fabric->busy = true;
        muster_status status = fabric->module->connect(
            fabric->handle, address, route, error_out, &route->link);
        if (status != MUSTER_OK) {
            muster_mem_free(route);
            return status;
        }
        route->next = fabric->routes;
        fabric->routes = route;
    }
    route->users++;
    conn->fabric.route = route;
    return MUSTER_OK;
}

void muster_route_leave(muster_conn *conn, bool lost)
{
    muster_fabric_route *route = conn->fabric.route;
    conn->fabric.route = NULL;
    route->users--;
    route->suspect = route->suspect || lost;
    if (route->users == 0 && route->suspect && !route->broken) {
        close_route(route);
    }
}

void muster_fabric_on_broken(void *context, void *owner, const char *reason)
{
    muster_net *net = context;
    muster_fabric_route *route = owner;
    muster_conn **conns = net->conns.data;
    route->broken = true;
    net->fabric->moved = true;
    for (size_t i = 0; i < net->conns.count; i++) {
        if (conns[i]->fabric.route == route) {
            muster_conn_end(conns[i], MUSTER_ERR_PEER_LOST,
                            "the fabric says: %s", reason);
        }
    }
    close_route(route);
}

void muster_routes_close(muster_net *net)
{
    muster_net_fabric *fabric = net->fabric;
    while (fabric->routes != NULL) {
        muster_fabric_route *route = fabric->routes;
        fabric->routes = route->next;
        fabric->module->end(route->link, true);
        muster_mem_free(route);
    }
}
