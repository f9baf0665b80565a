/*
 * triples.c -- readers of knowledge graphs.
 */
#define _POSIX_C_SOURCE 200809L
#include "data/triples.h"

#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "base/error.h"
#include "base/mem.h"
#include "data/source.h"

#define PATH_MAX_BYTES 4096u

typedef struct load {
    const char *folder;
    muster_error *error;
    muster_triples *into;
    muster_names relations; // names form only
    // OpenKE: what entity2id.txt and relation2id.txt number; 0: no such file
    uint32_t named_entities;
    uint32_t named_relations;
} load;

static const char *const openke_names[3] = {"train2id.txt", "valid2id.txt",
                                            "test2id.txt"};
static const char *const plain_names[3][3] = {
    {"train.txt", "train.tsv", "train.del"},
    {"valid.txt", "valid.tsv", "valid.del"},
    {"test.txt", "test.tsv", "test.del"}};

/* FOLDER/NAME or FOLDER/NAME.gz, whichever there is. */
static bool find_file(const char *folder, const char *name, char *path_out)
{
    static const char *const endings[2] = {"", ".gz"};
    for (int i = 0; i < 2; i++) {
        struct stat info;
        int length = snprintf(path_out, PATH_MAX_BYTES, "%s/%s%s", folder, name,
                              endings[i]);
        if (length > 0 && (unsigned)length < PATH_MAX_BYTES &&
            stat(path_out, &info) == 0) {
            return true;
        }
    }
    return false;
}

static bool is_blank(char c)
{
    return c == ' ' || c == '\t';
}

static bool take_number(const char **text, uint32_t *number_out)
{
    const char *p = *text;
    while (is_blank(*p)) {
        p++;
    }
    const char *start = p;
    uint64_t value = 0;
    for (; *p >= '0' && *p <= '9' && value <= UINT32_MAX; p++) {
        value = value * 10 + (uint64_t)(*p - '0');
    }
    if (p == start || value >= 0x7ffffffeu || (*p != '\0' && !is_blank(*p))) {
        return false;
    }
    *text = p;
    *number_out = (uint32_t)value;
    return true;
}

static muster_status fail_memory(load *l)
{
    return muster_error_set(l->error, MUSTER_ERR_NO_MEMORY, "%s: out of memory",
                            l->folder);
}

static muster_status parse_openke(load *l, muster_source *source,
                                  const char *line, muster_triple *triple)
{
    if (!take_number(&line, &triple->head) ||
        !take_number(&line, &triple->tail) ||
        !take_number(&line, &triple->relation)) {
        return muster_source_fail_line(source, l->error,
                                       "expected `head tail relation` as "
                                       "numbers");
    }
    uint32_t top = triple->head > triple->tail ? triple->head : triple->tail;
    if (l->named_entities > 0 && top >= l->named_entities) {
        return muster_source_fail_line(
            source, l->error, "entity %u, but entity2id.txt has %u, from 0",
            top, l->named_entities);
    }
    if (l->named_relations > 0 && triple->relation >= l->named_relations) {
        return muster_source_fail_line(
            source, l->error, "relation %u, but relation2id.txt has %u, from 0",
            triple->relation, l->named_relations);
    }
    return MUSTER_OK;
}

/* The next field: up to a tab, or a blank where the line has no tab. */
static bool take_field(const char **text, char separator, const char **start,
                       size_t *length)
{
    const char *p = *text;
    while (*p == separator) {
        p++;
    }
    *start = p;
    while (*p != '\0' && *p != separator) {
        p++;
    }
    *length = (size_t)(p - *start);
    *text = p;
    return *length > 0;
}

static muster_status parse_names(load *l, muster_source *source,
                                 const char *line, muster_triple *triple)
{
    char separator = strchr(line, '\t') != NULL ? '\t' : ' ';
    const char *field[3];
    size_t length[3];
    for (int i = 0; i < 3; i++) {
        if (!take_field(&line, separator, &field[i], &length[i])) {
            return muster_source_fail_line(source, l->error,
                                           "expected `head relation tail`");
        }
    }
    muster_names *entities = &l->into->names;
    triple->head = muster_names_add(entities, field[0], length[0]);
    triple->relation = muster_names_add(&l->relations, field[1], length[1]);
    triple->tail = muster_names_add(entities, field[2], length[2]);
    bool kept = triple->head != MUSTER_NAMES_NONE &&
                triple->relation != MUSTER_NAMES_NONE &&
                triple->tail != MUSTER_NAMES_NONE;
    return kept ? MUSTER_OK : fail_memory(l);
}

static void note_sizes(muster_triples *into, const muster_triple *triple)
{
    uint32_t top = triple->head > triple->tail ? triple->head : triple->tail;
    into->entities = top >= into->entities ? top + 1 : into->entities;
    into->relations = triple->relation >= into->relations ? triple->relation + 1
                                                          : into->relations;
}

static muster_status read_set(load *l, muster_source *source, bool openke,
                              muster_vec *set)
{
    const char *line;
    uint32_t promised = 0;
    for (uint64_t number = 1;; number++) {
        muster_status status = muster_source_line(source, l->error, &line);
        if (status != MUSTER_OK) {
            return status;
        }
        if (line == NULL) {
            break;
        }
        if (line[strspn(line, " \t")] == '\0') {
            continue;
        }
        if (openke && number == 1) {
            if (!take_number(&line, &promised)) {
                return muster_source_fail_line(
                    source, l->error, "expected the number of triples");
            }
            continue;
        }
        muster_triple triple = {0};
        status = openke ? parse_openke(l, source, line, &triple)
                        : parse_names(l, source, line, &triple);
        if (status != MUSTER_OK) {
            return status;
        }
        note_sizes(l->into, &triple);
        if (!muster_vec_append(set, &triple, 1)) {
            return fail_memory(l);
        }
    }
    if (openke && set->count != promised) {
        return muster_source_fail_line(
            source, l->error, "%zu triples, but the first line says %u",
            set->count, promised);
    }
    return MUSTER_OK;
}

static muster_status load_set(load *l, int part, const char *path, bool openke)
{
    muster_source *source;
    muster_status status = muster_source_open(path, l->error, &source);
    if (status != MUSTER_OK) {
        return status;
    }
    muster_vec set = muster_vec_make(sizeof(muster_triple));
    status = read_set(l, source, openke, &set);
    muster_source_close(source);
    if (status != MUSTER_OK) {
        muster_vec_fini(&set);
        return status;
    }
    l->into->set[part] = set.data;
    l->into->count[part] = set.count;
    return MUSTER_OK;
}

/* A count, then lines `name number`, numbers ascending from 0. */
static muster_status read_names(load *l, muster_source *source,
                                muster_names *names)
{
    const char *line;
    uint32_t promised = 0;
    for (uint64_t number = 0;; number++) {
        muster_status status = muster_source_line(source, l->error, &line);
        if (status != MUSTER_OK) {
            return status;
        }
        if (line == NULL) {
            break;
        }
        size_t length = strcspn(line, "\t ");
        const char *rest = line + length;
        uint32_t id;
        if (number == 0 && !take_number(&line, &promised)) {
            return muster_source_fail_line(source, l->error,
                                           "expected the number of names");
        }
        if (number == 0 || length == 0) {
            continue;
        }
        if (!take_number(&rest, &id) || id != number - 1) {
            return muster_source_fail_line(source, l->error,
                                           "expected `name %llu`",
                                           (unsigned long long)number - 1);
        }
        uint32_t added = muster_names_add(names, line, length);
        if (added != id) {
            return added == MUSTER_NAMES_NONE
                       ? fail_memory(l)
                       : muster_source_fail_line(
                             source, l->error, "a name that was there before");
        }
    }
    return muster_names_count(names) == promised
               ? MUSTER_OK
               : muster_source_fail_line(source, l->error,
                                         "%u names, but the first line says %u",
                                         muster_names_count(names), promised);
}

static muster_status load_names(load *l, const char *name, muster_names *names)
{
    char path[PATH_MAX_BYTES];
    muster_source *source;
    if (!find_file(l->folder, name, path)) {
        return MUSTER_OK;
    }
    muster_status status = muster_source_open(path, l->error, &source);
    if (status != MUSTER_OK) {
        return status;
    }
    status = read_names(l, source, names);
    muster_source_close(source);
    return status;
}

/* The names come first: triples are checked against them. */
static muster_status load_openke_names(load *l)
{
    muster_triples *into = l->into;
    muster_status status = load_names(l, "entity2id.txt", &into->names);
    if (status == MUSTER_OK) {
        status = load_names(l, "relation2id.txt", &l->relations);
    }
    l->named_entities = muster_names_count(&into->names);
    l->named_relations = muster_names_count(&l->relations);
    into->entities = l->named_entities;
    into->relations = l->named_relations;
    return status;
}

static muster_status load_all(load *l)
{
    char path[PATH_MAX_BYTES];
    bool openke = find_file(l->folder, openke_names[0], path);
    muster_status status = openke ? load_openke_names(l) : MUSTER_OK;
    if (status != MUSTER_OK) {
        return status;
    }
    for (int part = 0; part < 3; part++) {
        bool found = openke && find_file(l->folder, openke_names[part], path);
        for (int i = 0; !openke && !found && i < 3; i++) {
            found = find_file(l->folder, plain_names[part][i], path);
        }
        if (!found && part == MUSTER_TRIPLES_TRAIN) {
            return muster_error_set(l->error, MUSTER_ERR_INPUT,
                                    "%s: expected a folder with train2id.txt, "
                                    "train.txt, train.tsv or train.del (or "
                                    ".gz)",
                                    l->folder);
        }
        status = found ? load_set(l, part, path, openke) : MUSTER_OK;
        if (status != MUSTER_OK) {
            return status;
        }
    }
    if (l->into->count[MUSTER_TRIPLES_TRAIN] == 0) {
        return muster_error_set(l->error, MUSTER_ERR_INPUT,
                                "%s: no training triple", l->folder);
    }
    return MUSTER_OK;
}

muster_status muster_triples_load(const char *folder, muster_error *error_out,
                                  muster_triples *triples_out)
{
    if (muster_source_is_stdin(folder)) {
        return muster_error_set(error_out, MUSTER_ERR_INVALID,
                                "stdin: a knowledge graph is a folder of "
                                "files: give its path in place of -");
    }
    muster_triples read = {0};
    load l = {.folder = folder, .error = error_out, .into = &read};
    muster_names_init(&read.names);
    muster_names_init(&l.relations);
    muster_status status = load_all(&l);
    muster_names_fini(&l.relations);
    if (status != MUSTER_OK) {
        muster_triples_fini(&read);
        return status;
    }
    *triples_out = read;
    return MUSTER_OK;
}

void muster_triples_fini(muster_triples *triples)
{
    for (int part = 0; part < 3; part++) {
        muster_mem_free(triples->set[part]);
    }
    muster_names_fini(&triples->names);
    *triples = (muster_triples){0};
}
