/*
 * user_address.c -- see user_address.h.
 */
#include "proc/user_address.h"

#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "net/socket_address.h"

static bool starts_with(const char *text, const char *prefix)
{
    return strncmp(text, prefix, strlen(prefix)) == 0;
}

muster_status muster_user_address_expand(const char *text, const char *option,
                                         muster_error *error_out,
                                         char *address_out)
{
    const char *prefix = "";
    if (text[0] == ':') {
        prefix = "tcp:127.0.0.1";
    } else if (!starts_with(text, "unix:") && !starts_with(text, "tcp:")) {
        prefix = "tcp:";
    }
    const char *colon = strrchr(text, ':');
    int length =
        snprintf(address_out, MUSTER_NET_ADDRESS_MAX, "%s%s", prefix, text);
    if (colon == NULL || colon[1] == '\0' || length < 0 ||
        (size_t)length >= MUSTER_NET_ADDRESS_MAX) {
        return muster_error_set(error_out, MUSTER_ERR_INVALID,
                                "%s %s: expected HOST:PORT or unix:PATH",
                                option, text);
    }
    return MUSTER_OK;
}

muster_status muster_user_address_read(const char *text, const char *option,
                                       muster_error *error_out,
                                       char *address_out)
{
    muster_socket_address parsed;
    muster_status status =
        muster_user_address_expand(text, option, error_out, address_out);
    return status == MUSTER_OK
               ? muster_socket_address_parse(address_out, error_out, &parsed)
               : status;
}
