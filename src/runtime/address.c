/*
 * address.c -- see address.h.
 */
#define _GNU_SOURCE
#include "runtime/address.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/error.h"

static bool starts_with(const char *text, const char *prefix)
{
    return strncmp(text, prefix, strlen(prefix)) == 0;
}

muster_status muster_address_full(const char *text, const char *option,
                                  muster_error *error_out, char *address_out)
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

bool muster_address_is_local(const char *address)
{
    return starts_with(address, "unix:") || starts_with(address, "tcp:127.") ||
           starts_with(address, "tcp:localhost:") ||
           starts_with(address, "tcp:[::1]:");
}

static bool try_folder(const char *parent, muster_den *den)
{
    int length =
        snprintf(den->folder, sizeof den->folder, "%s/muster-XXXXXX", parent);
    if (length < 0 || (size_t)length >= sizeof den->folder) {
        errno = ENAMETOOLONG;
        return false;
    }
    return mkdtemp(den->folder) != NULL;
}

muster_status muster_den_open(muster_error *error_out, muster_den *den_out)
{
    muster_den den;
    const char *own = getenv("XDG_RUNTIME_DIR");
    bool made = own != NULL && own[0] == '/' && try_folder(own, &den);
    if (!made && !try_folder("/tmp", &den)) {
        return muster_error_set(error_out, MUSTER_ERR_SYSTEM,
                                "cannot make a folder in /tmp: %s",
                                strerror(errno));
    }
    (void)snprintf(den.file, sizeof den.file, "%s/socket", den.folder);
    (void)snprintf(den.address, sizeof den.address, "unix:%s", den.file);
    *den_out = den;
    return MUSTER_OK;
}

void muster_den_close(muster_den *den)
{
    if (den->folder[0] == '\0') {
        return;
    }
    (void)unlink(den->file);
    (void)rmdir(den->folder);
    den->folder[0] = '\0';
}
