/*
 * replicated_file.c -- see replicated_file.h.
 */
#include "ps/node/replicated_file.h"

#include "base/error.h"
#include "ps/node/inside.h"

static const char *skip_blanks(const char *at)
{
    while (*at == ' ' || *at == '\t') {
        at++;
    }
    return at;
}

/* A number from 0 to `max`; NULL when there is none, or it is larger. */
static const char *read_number(const char *at, uint32_t max, uint32_t *out)
{
    uint64_t value = 0;
    const char *first = at;
    for (; *at >= '0' && *at <= '9'; at++) {
        value = 10 * value + (uint64_t)(*at - '0');
        if (value > max) {
            return NULL;
        }
    }
    *out = (uint32_t)value;
    return at > first ? at : NULL;
}

/* The rows of a line; false: it is malformed. *any_out: it has some. */
static bool read_line(const char *line, muster_keyrange *range, bool *any_out)
{
    const char *at = skip_blanks(line);
    *any_out = *at != '\0' && *at != '#';
    if (!*any_out) {
        return true;
    }
    at = read_number(at, MUSTER_PS_TABLES_MAX - 1, &range->table);
    if (at == NULL || (*at != ' ' && *at != '\t')) {
        return false;
    }
    at = read_number(skip_blanks(at), MUSTER_PS_KEYS_MAX, &range->first);
    if (at == NULL) {
        return false;
    }
    range->last = range->first;
    if (*at == '-') {
        at = read_number(at + 1, MUSTER_PS_KEYS_MAX, &range->last);
    }
    if (at == NULL || range->last < range->first) {
        return false;
    }
    at = skip_blanks(at);
    return *at == '\0' || *at == '#';
}

muster_status muster_replicated_file_read(muster_source *source,
                                          muster_error *error_out,
                                          muster_keyset *set_out)
{
    muster_keyset set = muster_keyset_make();
    muster_status status = MUSTER_OK;
    for (;;) {
        const char *line;
        muster_keyrange range;
        bool any;
        status = muster_source_line(source, error_out, &line);
        if (status != MUSTER_OK || line == NULL) {
            break;
        }
        if (!read_line(line, &range, &any)) {
            status = muster_source_fail_line(
                source, error_out,
                "expected TABLE KEY or TABLE FIRST-LAST, numbers from 0");
            break;
        }
        if (any && set.ranges.count == MUSTER_REPLICATED_FILE_LINES_MAX) {
            status = muster_source_fail_line(source, error_out,
                                             "more than %u lines with rows",
                                             MUSTER_REPLICATED_FILE_LINES_MAX);
            break;
        }
        if (any && muster_keyset_add(&set, range) != MUSTER_OK) {
            status = muster_error_set(error_out, MUSTER_ERR_NO_MEMORY,
                                      "%s: out of memory",
                                      muster_source_name(source));
            break;
        }
    }
    if (status != MUSTER_OK) {
        muster_keyset_fini(&set);
        return status;
    }
    muster_keyset_seal(&set);
    *set_out = set;
    return MUSTER_OK;
}

muster_status muster_replicated_file_load(const char *path,
                                          muster_error *error_out,
                                          muster_keyset *set_out)
{
    muster_source *source;
    muster_status status = muster_source_open(path, error_out, &source);
    if (status != MUSTER_OK) {
        return status;
    }
    status = muster_replicated_file_read(source, error_out, set_out);
    muster_source_close(source);
    return status;
}

muster_status muster_replicated_file_check(const muster_keyset *set,
                                           const muster_ps *ps,
                                           muster_error *error_out)
{
    const muster_keyrange *ranges = set->ranges.data;
    for (size_t i = 0; i < set->ranges.count; i++) {
        uint32_t table = ranges[i].table;
        if (table >= ps->table_count ||
            ranges[i].last >= ps->tables[table]->keys) {
            return muster_error_set(
                error_out, MUSTER_ERR_INPUT,
                "parameter server: rows to replicate: table %u has no key %u",
                table,
                table < ps->table_count ? ranges[i].last : ranges[i].first);
        }
    }
    return MUSTER_OK;
}
