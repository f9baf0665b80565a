/*
 * proc/user_address.h -- addresses as users write them, such as HOST:PORT,
 * made into those that net.h takes.
 */
#ifndef MUSTER_PROC_USER_ADDRESS_H
#define MUSTER_PROC_USER_ADDRESS_H

#include <stdbool.h>

#include "muster/status.h"
#include "net/net.h"

/* "HOST:PORT" and ":PORT" become "tcp:HOST:PORT" (without a host: loopback);
 * "unix:.." and "tcp:.." stay. address_out has MUSTER_NET_ADDRESS_MAX bytes.
 * MUSTER_ERR_INVALID names `option`. */
MUSTER_CHECKED muster_status muster_user_address_expand(const char *text,
                                                        const char *option,
                                                        muster_error *error_out,
                                                        char *address_out);

/* The same for an address that must be one: its host is looked up.
 * MUSTER_ERR_INPUT: there is no such host. */
MUSTER_CHECKED muster_status muster_user_address_read(const char *text,
                                                      const char *option,
                                                      muster_error *error_out,
                                                      char *address_out);

#endif // MUSTER_PROC_USER_ADDRESS_H
