/*
 * socket_address.c -- addresses between text and struct sockaddr.
 */
#define _GNU_SOURCE
#include "net/socket_address.h"

#include <arpa/inet.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netdb.h>
#include <netinet/in.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/error.h"
#include "net/net.h"

static muster_status parse_unix(const char *text, muster_error *error,
                                muster_socket_address *out)
{
    const char *name = text + strlen("unix:");
    struct sockaddr_un unix_address = {.sun_family = AF_UNIX};
    size_t length = strlen(name);
    bool abstract = name[0] == '@';
    if ((!abstract && name[0] != '/') || (abstract && length < 2)) {
        return muster_error_set(error, MUSTER_ERR_INVALID,
                                "address '%s': write unix:/absolute/path or "
                                "unix:@name",
                                text);
    }
    if (length >= sizeof(unix_address.sun_path)) {
        return muster_error_set(error, MUSTER_ERR_INVALID,
                                "address '%s': a Unix socket's name has at "
                                "most %zu characters",
                                text, sizeof(unix_address.sun_path) - 1);
    }
    memcpy(unix_address.sun_path, name, length);
    if (abstract) {
        unix_address.sun_path[0] = '\0';
    }
    *out = (muster_socket_address){0};
    memcpy(&out->storage, &unix_address, sizeof(unix_address));
    out->length = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + length +
                              (abstract ? 0 : 1));
    return MUSTER_OK;
}

/* Split "HOST:PORT" or "[HOST]:PORT"; false when there is no such shape. */
static bool split_host(const char *text, char *host, size_t host_max,
                       const char **port_out)
{
    bool bracketed = text[0] == '[';
    const char *start = bracketed ? text + 1 : text;
    const char *end = bracketed ? strchr(text, ']') : strrchr(text, ':');
    if (end == NULL || end == start || (size_t)(end - start) >= host_max) {
        return false;
    }
    const char *colon = bracketed ? end + 1 : end;
    if (*colon != ':' || colon[1] == '\0' ||
        strspn(colon + 1, "0123456789") != strlen(colon + 1)) {
        return false;
    }
    memcpy(host, start, (size_t)(end - start));
    host[end - start] = '\0';
    *port_out = colon + 1;
    return true;
}

static bool port_in_range(const char *port)
{
    unsigned value = 0;
    for (const char *digit = port; *digit != '\0'; digit++) {
        value = value * 10 + (unsigned)(*digit - '0');
        if (value > 65535) {
            return false;
        }
    }
    return true;
}

static muster_status parse_tcp(const char *text, muster_error *error,
                               muster_socket_address *out)
{
    char host[256];
    const char *port = NULL;
    if (!split_host(text + strlen("tcp:"), host, sizeof(host), &port) ||
        !port_in_range(port)) {
        return muster_error_set(error, MUSTER_ERR_INVALID,
                                "address '%s': write tcp:HOST:PORT, with a "
                                "port of 0..65535 and an IPv6 host in brackets",
                                text);
    }
    struct addrinfo hints = {.ai_family = AF_UNSPEC,
                             .ai_socktype = SOCK_STREAM,
                             .ai_flags = AI_NUMERICSERV};
    struct addrinfo *found = NULL;
    int failed = getaddrinfo(host, port, &hints, &found);
    if (failed != 0 || found == NULL) {
        return muster_error_set(error, MUSTER_ERR_INPUT,
                                "address '%s': host '%s': %s", text, host,
                                gai_strerror(failed));
    }
    // A name such as localhost may have both kinds; listeners are told an
    // address, most often an IPv4 one, so that is what both ends pick.
    const struct addrinfo *best = found;
    for (const struct addrinfo *each = found; each != NULL;
         each = each->ai_next) {
        if (each->ai_family == AF_INET) {
            best = each;
            break;
        }
    }
    *out = (muster_socket_address){.length = best->ai_addrlen};
    memcpy(&out->storage, best->ai_addr, best->ai_addrlen);
    freeaddrinfo(found);
    return MUSTER_OK;
}

muster_status muster_socket_address_parse(const char *text,
                                          muster_error *error_out,
                                          muster_socket_address *address_out)
{
    if (strlen(text) >= MUSTER_NET_ADDRESS_MAX) {
        return muster_error_set(error_out, MUSTER_ERR_INVALID,
                                "address '%.40s...': longer than %u characters",
                                text, MUSTER_NET_ADDRESS_MAX - 1);
    }
    if (strncmp(text, "unix:", 5) == 0) {
        return parse_unix(text, error_out, address_out);
    }
    if (strncmp(text, "tcp:", 4) == 0) {
        return parse_tcp(text, error_out, address_out);
    }
    return muster_error_set(error_out, MUSTER_ERR_INVALID,
                            "address '%s': write unix:/path, unix:@name or "
                            "tcp:HOST:PORT",
                            text);
}

bool muster_socket_address_is_unix(const muster_socket_address *address)
{
    return address->storage.ss_family == AF_UNIX;
}

bool muster_socket_address_is_local(const muster_socket_address *address)
{
    if (address->storage.ss_family == AF_INET6) {
        const struct sockaddr_in6 *six =
            (const struct sockaddr_in6 *)&address->storage;
        return IN6_IS_ADDR_LOOPBACK(&six->sin6_addr);
    }
    const struct sockaddr_in *four =
        (const struct sockaddr_in *)&address->storage;
    return muster_socket_address_is_unix(address) ||
           ntohl(four->sin_addr.s_addr) >> 24 == IN_LOOPBACKNET;
}

const char *muster_socket_address_path(const muster_socket_address *address)
{
    const struct sockaddr_un *unix_address =
        (const struct sockaddr_un *)&address->storage;
    return muster_socket_address_is_unix(address) ? unix_address->sun_path : "";
}

static void format_unix(const muster_socket_address *address, char *text)
{
    const struct sockaddr_un *unix_address =
        (const struct sockaddr_un *)&address->storage;
    size_t length = address->length - offsetof(struct sockaddr_un, sun_path);
    if (length == 0) {
        snprintf(text, MUSTER_NET_ADDRESS_MAX, "unix");
        return;
    }
    bool abstract = unix_address->sun_path[0] == '\0';
    snprintf(text, MUSTER_NET_ADDRESS_MAX, "unix:%s%.*s", abstract ? "@" : "",
             (int)(length - 1), unix_address->sun_path + (abstract ? 1 : 0));
}

void muster_socket_address_format(const muster_socket_address *address,
                                  char *text_out)
{
    char host[INET6_ADDRSTRLEN] = "?";
    if (muster_socket_address_is_unix(address)) {
        format_unix(address, text_out);
    } else if (address->storage.ss_family == AF_INET6) {
        const struct sockaddr_in6 *six =
            (const struct sockaddr_in6 *)&address->storage;
        inet_ntop(AF_INET6, &six->sin6_addr, host, sizeof(host));
        snprintf(text_out, MUSTER_NET_ADDRESS_MAX, "tcp:[%s]:%u", host,
                 ntohs(six->sin6_port));
    } else {
        const struct sockaddr_in *four =
            (const struct sockaddr_in *)&address->storage;
        inet_ntop(AF_INET, &four->sin_addr, host, sizeof(host));
        snprintf(text_out, MUSTER_NET_ADDRESS_MAX, "tcp:%s:%u", host,
                 ntohs(four->sin_port));
    }
}

/* The first IPv4 address of a network card that is up; false: there is none. */
static bool card_address(char *host, size_t size)
{
    struct ifaddrs *list = NULL;
    bool found = false;
    if (getifaddrs(&list) != 0) {
        return false;
    }
    for (const struct ifaddrs *each = list; each != NULL && !found;
         each = each->ifa_next) {
        bool usable = each->ifa_addr != NULL &&
                      each->ifa_addr->sa_family == AF_INET &&
                      (each->ifa_flags & IFF_UP) != 0 &&
                      (each->ifa_flags & IFF_LOOPBACK) == 0;
        if (usable) {
            struct sockaddr_in four;
            memcpy(&four, each->ifa_addr, sizeof(four));
            found = inet_ntop(AF_INET, &four.sin_addr, host, (socklen_t)size) !=
                    NULL;
        }
    }
    freeifaddrs(list);
    return found;
}

void muster_net_reachable(const char *text, char *text_out)
{
    static const char *const wildcards[] = {"tcp:0.0.0.0:", "tcp:[::]:"};
    char host[64] = "";
    const char *port = NULL;
    for (size_t i = 0; i < sizeof(wildcards) / sizeof(wildcards[0]); i++) {
        size_t length = strlen(wildcards[i]);
        if (strncmp(text, wildcards[i], length) == 0) {
            port = text + length;
        }
    }
    bool known = port != NULL && (card_address(host, sizeof(host)) ||
                                  gethostname(host, sizeof(host) - 1) == 0);
    if (known) {
        snprintf(text_out, MUSTER_NET_ADDRESS_MAX, "tcp:%s:%s", host, port);
    } else {
        snprintf(text_out, MUSTER_NET_ADDRESS_MAX, "%s", text);
    }
}
