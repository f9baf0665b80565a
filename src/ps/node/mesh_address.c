/*
 * mesh_address.c -- see mesh_address.h.
 */
#include "ps/node/mesh_address.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "net/net.h"

#define TCP        "tcp:"
#define HERE       "127.0.0.1"
#define PORTS      65536u
#define FOLDER_MAX 80u // with "/node-63" it fits a socket's name
#define HOST_MAX   100u
#define SHOWN      60 // characters of a text in an error

/* One HOST:PORT, or a PORT of this machine. */
typedef struct tcp_address {
    const char *host;
    size_t host_length;
    unsigned long port;
} tcp_address;

static bool is_tcp(const char *addresses)
{
    return strncmp(addresses, TCP, strlen(TCP)) == 0;
}

static bool is_list(const char *addresses)
{
    return strchr(addresses, ',') != NULL;
}

/* A name or number without colons, or an IPv6 address in brackets. */
static bool is_host(const tcp_address *at)
{
    const char *first = at->host;
    size_t length = at->host_length;
    bool brackets = length > 2 && first[0] == '[' && first[length - 1] == ']';
    first += brackets ? 1 : 0;
    length -= brackets ? 2 : 0;
    for (size_t i = 0; i < length; i++) {
        if (strchr(brackets ? " \t[]" : " \t[]:", first[i]) != NULL) {
            return false;
        }
    }
    return length > 0 && at->host_length <= HOST_MAX;
}

/* The address that begins at `text` and ends before a comma or the end. */
static bool read_address(const char *text, tcp_address *out)
{
    size_t length = strcspn(text, ",");
    size_t digits = 0;
    *out = (tcp_address){.host = HERE, .host_length = strlen(HERE)};
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
        if (text[out->host_length] != ':') {
            return false;
        }
    }
    return out->port > 0 && out->port < PORTS && is_host(out);
}

/* The text of the address after `skip` others, or NULL. */
static const char *skip_addresses(const char *text, uint32_t skip)
{
    for (uint32_t i = 0; i < skip && text != NULL; i++) {
        text = strchr(text, ',');
        text = text != NULL ? text + 1 : NULL;
    }
    return text;
}

static uint32_t count_addresses(const char *list)
{
    uint32_t count = 1;
    for (; *list != '\0'; list++) {
        count += *list == ',';
    }
    return count;
}

static int shown_length(const char *text)
{
    size_t length = strcspn(text, ",");
    return (int)(length < SHOWN ? length : SHOWN);
}

static bool same_address(const tcp_address *a, const tcp_address *b)
{
    return a->port == b->port && a->host_length == b->host_length &&
           memcmp(a->host, b->host, a->host_length) == 0;
}

/* Is address `node` of a list right, and none of the addresses before it? */
static muster_status check_address(const char *list, uint32_t node,
                                   muster_error *error_out)
{
    const char *text = skip_addresses(list, node);
    tcp_address at;
    if (!read_address(text, &at)) {
        return muster_error_set(
            error_out, MUSTER_ERR_INVALID,
            "mesh: the address of node %u, '%.*s': expected "
            "HOST:PORT, with a port in 1..65535 and an "
            "IPv6 host in brackets",
            node, shown_length(text), text);
    }
    for (uint32_t i = 0; i < node; i++) {
        tcp_address other;
        if (read_address(skip_addresses(list, i), &other) &&
            same_address(&at, &other)) {
            return muster_error_set(error_out, MUSTER_ERR_INVALID,
                                    "mesh: nodes %u and %u have one address, "
                                    "'%.*s'",
                                    i, node, shown_length(text), text);
        }
    }
    return MUSTER_OK;
}

static muster_status check_list(const char *list, uint32_t nodes,
                                muster_error *error_out)
{
    uint32_t count = count_addresses(list);
    muster_status status = MUSTER_OK;
    if (count != nodes) {
        return muster_error_set(
            error_out, MUSTER_ERR_INVALID,
            "mesh: %u addresses for %u nodes: a list has one "
            "HOST:PORT for each",
            count, nodes);
    }
    for (uint32_t i = 0; i < nodes && status == MUSTER_OK; i++) {
        status = check_address(list, i, error_out);
    }
    return status;
}

muster_status muster_mesh_addresses_check(const char *addresses, uint32_t nodes,
                                          muster_error *error_out)
{
    tcp_address at;
    if (!is_tcp(addresses)) {
        return addresses[0] != '\0' && strlen(addresses) <= FOLDER_MAX
                   ? MUSTER_OK
                   : muster_error_set(error_out, MUSTER_ERR_INVALID,
                                      "mesh '%.*s': expected a folder, of at "
                                      "most %u characters, or tcp:HOST:PORT",
                                      SHOWN, addresses, FOLDER_MAX);
    }
    if (is_list(addresses)) {
        return check_list(addresses + strlen(TCP), nodes, error_out);
    }
    return read_address(addresses + strlen(TCP), &at) &&
                   at.port + nodes <= PORTS
               ? MUSTER_OK
               : muster_error_set(
                     error_out, MUSTER_ERR_INVALID,
                     "mesh '%.*s': expected tcp:HOST:PORT or "
                     "tcp:PORT, with a port up to 65535 for each "
                     "of %u nodes and an IPv6 host in brackets, or "
                     "tcp:HOST:PORT,HOST:PORT,.. for all",
                     SHOWN, addresses, nodes);
}

void muster_mesh_address_of(const char *addresses, uint32_t node,
                            char *address_out)
{
    tcp_address at;
    if (!is_tcp(addresses)) {
        (void)snprintf(address_out, MUSTER_NET_ADDRESS_MAX, "unix:%s/node-%u",
                       addresses, node);
        return;
    }
    bool list = is_list(addresses);
    const char *text = skip_addresses(addresses + strlen(TCP), list ? node : 0);
    (void)read_address(text, &at);
    (void)snprintf(address_out, MUSTER_NET_ADDRESS_MAX, TCP "%.*s:%lu",
                   (int)at.host_length, at.host, at.port + (list ? 0 : node));
}
