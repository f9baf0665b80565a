/*
 * hier_decode.c -- decodes the two layers of hier at once, and counts answers.
 *
 * The answers of every edge are decoded by its inner code; edges that decode
 * exactly are the responders of the outer code. A weight is the product of its
 * two layers' weights. Where the layers do not reach, the least-squares best of
 * all answers together is taken.
 */
#include <math.h>
#include <string.h>

#include "base/mem.h"
#include "code/families/hier_inside.h"
#include "code/lsq.h"

/* The decoding of one edge: terms of its inner code. */
typedef struct edge_terms {
    muster_code_decode_term *terms;
    size_t count;
    size_t at; // the next one, while an output block of the edge is taken
} edge_terms;

typedef struct hier_query {
    const muster_hier *hier;
    uint32_t *members; // responders of one edge, by place under it
    edge_terms *inner; // by edge
    muster_code_decode_term *memory;
    uint32_t *edges; // that decode, ascending
    uint32_t edge_count;
    muster_code_decode_term *outer;
    size_t outer_count;
    double condition;
} hier_query;

static void query_fini(hier_query *query)
{
    muster_mem_free(query->members);
    muster_mem_free(query->inner);
    muster_mem_free(query->memory);
    muster_mem_free(query->edges);
    muster_mem_free(query->outer);
}

static muster_status query_init(hier_query *query, const muster_hier *hier)
{
    uint32_t edges = hier->topology.edges;
    uint32_t widest = 0;
    size_t terms = 0;
    for (uint32_t i = 0; i < edges; i++) {
        const muster_hier_edge *edge = &hier->edges[i];
        widest = edge->workers > widest ? edge->workers : widest;
        terms += muster_code_decode_terms_max(edge->inner);
    }
    memset(query, 0, sizeof(*query));
    query->hier = hier;
    query->members = muster_mem_array(widest, sizeof(uint32_t));
    query->inner = muster_mem_array(edges, sizeof(edge_terms));
    query->memory = muster_mem_array(terms, sizeof(muster_code_decode_term));
    query->edges = muster_mem_array(edges, sizeof(uint32_t));
    query->outer = muster_mem_array(muster_code_decode_terms_max(hier->outer),
                                    sizeof(muster_code_decode_term));
    query->condition = 1.0;
    if (query->members == NULL || query->inner == NULL ||
        query->memory == NULL || query->edges == NULL || query->outer == NULL) {
        query_fini(query);
        return MUSTER_ERR_NO_MEMORY;
    }
    return MUSTER_OK;
}

/* Decode each edge from its responders. */
static muster_status solve_edges(hier_query *query,
                                 const muster_code_query *flat)
{
    const muster_hier *hier = query->hier;
    muster_code_decode_term *room = query->memory;
    uint32_t at = 0;
    for (uint32_t i = 0; i < hier->topology.edges; i++) {
        const muster_hier_edge *edge = &hier->edges[i];
        muster_code_query part = {.responders = query->members, .terms = room};
        while (at < flat->count &&
               flat->responders[at] < edge->first + edge->workers) {
            query->members[part.count++] = flat->responders[at++] - edge->first;
        }
        if (part.count == 0) {
            continue;
        }
        muster_status status = muster_code_solve(edge->inner, &part);
        if (status < 0) {
            return status;
        }
        if (status == MUSTER_OK) {
            query->inner[i] = (edge_terms){room, part.term_count, 0};
            query->edges[query->edge_count++] = i;
            query->condition = fmax(query->condition, part.fit.condition);
            room += part.term_count;
        }
    }
    return MUSTER_OK;
}

/* MUSTER_INEXACT: too few edges decode. */
static muster_status solve_outer(hier_query *query)
{
    muster_code_query edges = {.responders = query->edges,
                               .count = query->edge_count,
                               .terms = query->outer};
    muster_status status = muster_code_solve(query->hier->outer, &edges);
    query->outer_count = edges.term_count;
    query->condition *= edges.fit.condition;
    return status;
}

/* The terms of output block (u, v): outer weight times inner weights. */
static void add_block(hier_query *query, uint32_t u, uint32_t v,
                      muster_code_query *flat)
{
    const muster_hier *hier = query->hier;
    uint32_t blocks = hier->edges[0].inner->info.gradient_blocks;
    for (size_t e = 0; e < query->outer_count; e++) {
        const muster_code_decode_term *outer = &query->outer[e];
        if (outer->output_block != u || outer->weight == 0.0) {
            continue;
        }
        edge_terms *inner = &query->inner[outer->worker];
        inner->at = v == 0 ? 0 : inner->at;
        while (inner->at < inner->count &&
               inner->terms[inner->at].output_block == v) {
            muster_code_decode_term term = inner->terms[inner->at++];
            term.output_block = u * blocks + v;
            term.worker += hier->edges[outer->worker].first;
            term.weight *= outer->weight;
            flat->terms[flat->term_count++] = term;
        }
    }
}

static void add_terms(hier_query *query, muster_code_query *flat)
{
    uint32_t blocks = query->hier->edges[0].inner->info.gradient_blocks;
    flat->term_count = 0;
    for (uint32_t u = 0; u < query->hier->edge_comm; u++) {
        for (uint32_t v = 0; v < blocks; v++) {
            add_block(query, u, v, flat);
        }
    }
}

muster_status muster_hier_weights(const muster_code *code,
                                  muster_code_query *query)
{
    hier_query layers;
    muster_status status = query_init(&layers, code->state);
    if (status != MUSTER_OK) {
        return status;
    }
    status = solve_edges(&layers, query);
    if (status == MUSTER_OK) {
        status = solve_outer(&layers);
    }
    if (status == MUSTER_OK) {
        add_terms(&layers, query);
        query->fit.condition = layers.condition;
        status = muster_code_measure(code, query);
    } else if (status == MUSTER_INEXACT) {
        status = muster_code_least_squares(code, query);
    }
    query_fini(&layers);
    return status;
}

/* ---- progress: of every edge's workers, then of the edges ---------------- */

/* Answers of one layer, before the memory of its code's family. */
typedef struct layer_progress {
    uint32_t count;
    bool ready;
} layer_progress;

#define ALIGNMENT 16u

static size_t layer_bytes(const muster_code *layer)
{
    size_t bytes = sizeof(layer_progress);
    if (layer->ops->progress_bytes != NULL) {
        bytes = ALIGNMENT + layer->ops->progress_bytes(layer);
    }
    return (bytes + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
}

void muster_hier_place_progress(muster_hier *hier)
{
    size_t at = 0;
    for (uint32_t i = 0; i < hier->topology.edges; i++) {
        hier->edges[i].progress_at = at;
        at += layer_bytes(hier->edges[i].inner);
    }
    hier->outer_progress_at = at;
    hier->progress_bytes = at + layer_bytes(hier->outer);
}

size_t muster_hier_progress_bytes(const muster_code *code)
{
    const muster_hier *hier = code->state;
    return hier->progress_bytes;
}

static void layer_reset(const muster_code *layer, uint8_t *memory)
{
    memset(memory, 0, sizeof(layer_progress));
    if (layer->ops->progress_reset != NULL) {
        layer->ops->progress_reset(layer, memory + ALIGNMENT);
    }
}

void muster_hier_progress_reset(const muster_code *code, void *progress)
{
    const muster_hier *hier = code->state;
    uint8_t *memory = progress;
    for (uint32_t i = 0; i < hier->topology.edges; i++) {
        layer_reset(hier->edges[i].inner, memory + hier->edges[i].progress_at);
    }
    layer_reset(hier->outer, memory + hier->outer_progress_at);
}

/* Count an answer; true when it is the one that makes the layer ready. */
static bool layer_add(const muster_code *layer, uint8_t *memory,
                      uint32_t member)
{
    layer_progress *progress = (void *)memory;
    if (progress->ready) {
        return false;
    }
    progress->count++;
    progress->ready =
        layer->ops->progress_add != NULL
            ? layer->ops->progress_add(layer, memory + ALIGNMENT, member)
            : progress->count + layer->info.stragglers >= layer->info.workers;
    return progress->ready;
}

bool muster_hier_progress_add(const muster_code *code, void *progress,
                              uint32_t worker)
{
    const muster_hier *hier = code->state;
    uint8_t *memory = progress;
    uint32_t index = hier->edge_of[worker];
    const muster_hier_edge *edge = &hier->edges[index];
    return layer_add(edge->inner, memory + edge->progress_at,
                     worker - edge->first) &&
           layer_add(hier->outer, memory + hier->outer_progress_at, index);
}
