/*
 * slurm_hosts.c -- see slurm_hosts.h.
 */
#include "run/slurm_hosts.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define COUNT_MAX 1000000u

/* Digits, at most nine of them; their number of characters, 0: none. */
static size_t read_number(const char *text, uint32_t *value_out)
{
    size_t length = strspn(text, "0123456789");
    if (length == 0 || length > 9) {
        return 0;
    }
    *value_out = (uint32_t)strtoul(text, NULL, 10);
    return length;
}

/* Name one host: prefix, number with its zeros, suffix. */
static bool write_host(const char *prefix, size_t prefix_length, size_t digits,
                       uint32_t number, const char *suffix, char *host_out)
{
    size_t suffix_length = strcspn(suffix, ",[");
    int length = snprintf(host_out, MUSTER_SLURM_HOST_BYTES, "%.*s%0*u%.*s",
                          (int)prefix_length, prefix, (int)digits, number,
                          (int)suffix_length, suffix);
    return length > 0 && (size_t)length < MUSTER_SLURM_HOST_BYTES;
}

/* One name, with or without [..], of `length` characters. *left_inout counts
 * down to the host that is looked for; true: it was in here. *bad_out: this is
 * no name. */
static bool look_in_name(const char *name, size_t length, uint32_t *left_inout,
                         char *host_out, bool *bad_out)
{
    size_t prefix = strcspn(name, "[");
    if (prefix >= length) {
        bool here =
            *left_inout == 0 && length > 0 && length < MUSTER_SLURM_HOST_BYTES;
        if (here) {
            memcpy(host_out, name, length);
            host_out[length] = '\0';
        }
        *left_inout -= *left_inout > 0;
        *bad_out = length == 0 || length >= MUSTER_SLURM_HOST_BYTES;
        return here;
    }
    const char *end = memchr(name, ']', length);
    for (const char *at = name + prefix + 1; end != NULL && at < end; at++) {
        uint32_t first = 0;
        uint32_t last = 0;
        size_t digits = read_number(at, &first);
        last = first;
        at += digits;
        if (digits > 0 && *at == '-') {
            size_t more = read_number(at + 1, &last);
            at += 1 + more;
            digits = more > 0 ? digits : 0;
        }
        if (digits == 0 || last < first || (*at != ',' && at != end)) {
            break;
        }
        if (*left_inout <= last - first) {
            return write_host(name, prefix, digits, first + *left_inout,
                              end + 1, host_out);
        }
        *left_inout -= last - first + 1;
        if (at == end) {
            return false;
        }
    }
    *bad_out = true;
    return false;
}

bool muster_slurm_host(const char *list, uint32_t index, char *host_out)
{
    bool bad = false;
    while (*list != '\0' && !bad) {
        size_t length = 0; // to the comma outside brackets
        bool inside = false;
        while (list[length] != '\0' && (inside || list[length] != ',')) {
            inside = list[length] == '[' || (inside && list[length] != ']');
            length++;
        }
        if (look_in_name(list, length, &index, host_out, &bad)) {
            return true;
        }
        list += length + (list[length] == ',');
    }
    return false;
}

/* "3" or "3(x2)": so many processes, on so many hosts; the characters read. */
static size_t read_group(const char *text, uint32_t *tasks, uint32_t *hosts)
{
    size_t length = read_number(text, tasks);
    *hosts = 1;
    if (length > 0 && strncmp(text + length, "(x", 2) == 0) {
        size_t more = read_number(text + length + 2, hosts);
        bool closed = more > 0 && text[length + 2 + more] == ')';
        length = closed ? length + more + 3 : 0;
    }
    bool sane = *tasks <= COUNT_MAX && *hosts <= COUNT_MAX;
    return sane && (text[length] == ',' || text[length] == '\0') ? length : 0;
}

/* How many processes the host has; 0: there is no such host. */
static uint32_t tasks_on(const char *text, uint32_t host)
{
    while (*text != '\0') {
        uint32_t tasks = 0;
        uint32_t hosts = 0;
        size_t length = read_group(text, &tasks, &hosts);
        if (length == 0) {
            return 0;
        }
        if (host < hosts) {
            return tasks;
        }
        host -= hosts;
        text += length + (text[length] == ',');
    }
    return 0;
}

uint32_t muster_slurm_host_of(const char *tasks_per_node, bool cyclic,
                              uint32_t rank)
{
    for (uint32_t round = 0; round <= COUNT_MAX; round++) {
        bool any = false;
        for (uint32_t host = 0;; host++) {
            uint32_t tasks = tasks_on(tasks_per_node, host);
            if (tasks == 0) {
                break;
            }
            uint32_t takes = !cyclic ? tasks : tasks > round;
            if (rank < takes) {
                return host;
            }
            rank -= takes;
            any = any || takes > 0;
        }
        if (!any || !cyclic) {
            return UINT32_MAX;
        }
    }
    return UINT32_MAX;
}
