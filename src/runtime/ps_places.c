/*
 * ps_places.c -- the places of a mesh's nodes.
 */
#include "runtime/ps_places.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "net/net.h"

#define TCP        "tcp:"
#define HERE       "127.0.0.1"
#define PORTS      65536u
#define FOLDER_MAX 80u // with "/node-63" it fits a socket's name
#define HOST_MAX   100u

/* One HOST:PORT, or a PORT of this machine. */
typedef struct place {
    const char *host;
    size_t host_length;
    unsigned long port;
} place;

static bool is_tcp(const char *places)
{
    return strncmp(places, TCP, strlen(TCP)) == 0;
}

static bool is_list(const char *places)
{
    return strchr(places, ',') != NULL;
}

/* The place that begins at `text` and ends before a comma or the end. */
static bool read_place(const char *text, place *out)
{
    size_t length = strcspn(text, ",");
    size_t digits = 0;
    *out = (place){.host = HERE, .host_length = strlen(HERE)};
    while (digits < length && text[length - digits - 1] >= '0' &&
           text[length - digits - 1] <= '9') {
        digits++;
    }
    if (digits == 0 || digits > 5) {
        return false;
    }
    out->port = strtoul(text + length - digits, NULL, 10);
    if (digits < length) {
        out->host = text;
        out->host_length = length - digits - 1;
    }
    return out->port > 0 && out->port < PORTS && out->host_length > 0 &&
           out->host_length <= HOST_MAX &&
           (digits == length || text[length - digits - 1] == ':');
}

/* The text of the place after `skip` others, or NULL. */
static const char *skip_places(const char *text, uint32_t skip)
{
    for (uint32_t i = 0; i < skip && text != NULL; i++) {
        text = strchr(text, ',');
        text = text != NULL ? text + 1 : NULL;
    }
    return text;
}

static const char *list_fault(const char *list, uint32_t nodes)
{
    if (skip_places(list, nodes - 1) == NULL ||
        skip_places(list, nodes) != NULL) {
        return "a list of places has one HOST:PORT for each node";
    }
    for (uint32_t i = 0; i < nodes; i++) {
        place at;
        if (!read_place(skip_places(list, i), &at)) {
            return "a list of places is tcp:HOST:PORT,HOST:PORT,..";
        }
    }
    return NULL;
}

const char *muster_ps_places_fault(const char *places, uint32_t nodes)
{
    place at;
    if (!is_tcp(places)) {
        return places[0] == '\0' || strlen(places) > FOLDER_MAX
                   ? "nodes meet in a folder, whose name has at most 80 "
                     "characters, or at tcp:HOST:PORT"
                   : NULL;
    }
    if (is_list(places)) {
        return list_fault(places + strlen(TCP), nodes);
    }
    return read_place(places + strlen(TCP), &at) && at.port + nodes <= PORTS
               ? NULL
               : "expected tcp:HOST:PORT or tcp:PORT, with a port for each "
                 "node, or tcp:HOST:PORT,HOST:PORT,..";
}

void muster_ps_places_at(const char *places, uint32_t node, char *address_out)
{
    place at;
    if (!is_tcp(places)) {
        (void)snprintf(address_out, MUSTER_NET_ADDRESS_MAX, "unix:%s/node-%u",
                       places, node);
        return;
    }
    bool list = is_list(places);
    const char *text = skip_places(places + strlen(TCP), list ? node : 0);
    (void)read_place(text, &at);
    (void)snprintf(address_out, MUSTER_NET_ADDRESS_MAX, TCP "%.*s:%lu",
                   (int)at.host_length, at.host, at.port + (list ? 0 : node));
}
