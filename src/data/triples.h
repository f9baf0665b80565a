/*
 * data/triples.h -- a knowledge graph: (head, relation, tail) in three sets.
 *
 * A folder in one of two forms, each file also gzipped:
 *   OpenKE  train2id.txt, and where present valid2id.txt, test2id.txt,
 *           entity2id.txt, relation2id.txt: a line with the count, then
 *           `head tail relation` as numbers (or `name number`).
 *   names   train.txt (or .tsv, .del), and where present valid and test:
 *           `head relation tail`, tabs between, or blanks when there is none;
 *           numbered in the order they are met.
 *
 *   Promise      Every number is below entities and relations; at least one
 *                training triple.
 *   Ownership    load gives, fini ends.
 */
#ifndef MUSTER_DATA_TRIPLES_H
#define MUSTER_DATA_TRIPLES_H

#include <stdint.h>

#include "data/names.h"
#include "muster/status.h"

typedef struct muster_triple {
    uint32_t head;
    uint32_t relation;
    uint32_t tail;
} muster_triple;

typedef enum muster_triples_part {
    MUSTER_TRIPLES_TRAIN = 0,
    MUSTER_TRIPLES_VALID = 1,
    MUSTER_TRIPLES_TEST = 2,
} muster_triples_part;

typedef struct muster_triples {
    uint32_t entities;
    uint32_t relations;
    muster_triple *set[3]; // by muster_triples_part; NULL when count is 0
    uint64_t count[3];
    muster_names names; // of entities, by number; may be empty
} muster_triples;

/* MUSTER_ERR_INPUT with file:line, MUSTER_ERR_NO_MEMORY. */
MUSTER_CHECKED muster_status muster_triples_load(const char *folder,
                                                 muster_error *error_out,
                                                 muster_triples *triples_out);
void muster_triples_fini(muster_triples *triples);

#endif // MUSTER_DATA_TRIPLES_H
