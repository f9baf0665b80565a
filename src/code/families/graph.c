/*
 * graph.c -- codes from regular graphs (Glasgow and Wootters, 2020).
 *
 * Parts are the N vertices of a random regular graph, workers its n = N g / 2
 * edges; a worker holds the two ends of its edge and sends their sum. The edges
 * that answered fall into components, and the best decoding gives
 *   every part of a component with an odd cycle the weight 1, exactly;
 *   in a bipartite one with sides L, R:  2|R| / (|L|+|R|) on L, the other on R;
 *   a part without an edge 0.
 * The edges' weights follow by peeling leaves off a spanning tree, one odd edge
 * added where there is one: linear time.
 */
#include <math.h>
#include <string.h>

#include "base/error.h"
#include "base/mem.h"
#include "base/rng.h"
#include "code/choose.h"
#include "code/families/families.h"
#include "code/layout.h"

#define STREAM_GRAPH 0x69a7
#define NOTHING      UINT32_MAX

typedef struct graph {
    uint32_t vertices;
    uint32_t edges;
    uint32_t degree;
    uint32_t *ends;     // 2 per edge
    uint32_t *incident; // degree per vertex: its edges
} graph;

static void free_state(void *memory)
{
    graph *g = memory;
    if (g == NULL) {
        return;
    }
    muster_mem_free(g->ends);
    muster_mem_free(g->incident);
    muster_mem_free(g);
}

/* ---- drawing a regular graph --------------------------------------------- */

static bool joined(const graph *g, const uint32_t *fill, uint32_t a, uint32_t b)
{
    for (uint32_t i = 0; i < fill[a]; i++) {
        uint32_t edge = g->incident[(size_t)a * g->degree + i];
        if (g->ends[2 * (size_t)edge] == b ||
            g->ends[2 * (size_t)edge + 1] == b) {
            return true;
        }
    }
    return false;
}

/* Pair up the vertices' stubs one edge at a time (Steger and Wormald): two
 * random free stubs that make no loop and no double edge. False when stuck;
 * fill has room for a count per vertex, stubs for degree * vertices. */
static bool draw_edges(graph *g, muster_rng *rng, uint32_t *fill,
                       uint32_t *stubs)
{
    uint32_t left = g->vertices * g->degree;
    memset(fill, 0, g->vertices * sizeof(uint32_t));
    for (uint32_t i = 0; i < left; i++) {
        stubs[i] = i / g->degree;
    }
    for (uint32_t edge = 0; edge < g->edges; edge++) {
        uint32_t x = 0;
        uint32_t y = 0;
        uint32_t tries = 0;
        do {
            x = (uint32_t)muster_rng_below(rng, left);
            y = (uint32_t)muster_rng_below(rng, left);
            if (++tries > 1000) {
                return false;
            }
        } while (stubs[x] == stubs[y] || joined(g, fill, stubs[x], stubs[y]));
        uint32_t a = stubs[x];
        uint32_t b = stubs[y];
        g->ends[2 * (size_t)edge] = a < b ? a : b;
        g->ends[2 * (size_t)edge + 1] = a < b ? b : a;
        g->incident[(size_t)a * g->degree + fill[a]++] = edge;
        g->incident[(size_t)b * g->degree + fill[b]++] = edge;
        // Take both stubs out, the later one first.
        uint32_t high = x > y ? x : y;
        uint32_t low = x > y ? y : x;
        stubs[high] = stubs[--left];
        stubs[low] = stubs[--left];
    }
    return true;
}

static muster_status make_graph(muster_code *code, uint32_t vertices,
                                uint32_t degree, muster_rng *rng)
{
    graph *g = muster_mem_array(1, sizeof(*g));
    if (g == NULL) {
        return MUSTER_ERR_NO_MEMORY;
    }
    code->state = g;
    g->vertices = vertices;
    g->degree = degree;
    g->edges = code->info.workers;
    g->ends = muster_mem_array(g->edges, 2 * sizeof(uint32_t));
    g->incident = muster_mem_array(vertices, (size_t)degree * sizeof(uint32_t));
    uint32_t *fill = muster_mem_array(vertices, sizeof(uint32_t));
    uint32_t *stubs =
        muster_mem_array(vertices, (size_t)degree * sizeof(uint32_t));
    muster_status status = MUSTER_ERR_NO_MEMORY;
    if (g->ends != NULL && g->incident != NULL && fill != NULL &&
        stubs != NULL) {
        status = MUSTER_ERR_INVALID;
        for (uint32_t turn = 0; status != MUSTER_OK && turn < 100; turn++) {
            status = draw_edges(g, rng, fill, stubs) ? MUSTER_OK : status;
        }
    }
    muster_mem_free(stubs);
    muster_mem_free(fill);
    return status;
}

static muster_status fill_code(muster_code *code, muster_error *error)
{
    const graph *g = code->state;
    muster_code_layout layout;
    muster_status status = muster_code_layout_init(
        &layout, g->vertices, (size_t)g->vertices * g->degree, 1);
    if (status != MUSTER_OK) {
        return status;
    }
    for (uint32_t v = 0; v <= g->vertices; v++) {
        layout.first[v] = (size_t)v * g->degree;
    }
    for (size_t e = 0; e < (size_t)g->vertices * g->degree; e++) {
        layout.holders[e] = g->incident[e];
        layout.cells[e] = 1.0;
    }
    status = muster_code_layout_fill(&layout, code, error);
    muster_code_layout_fini(&layout);
    return status;
}

static muster_status build_draw(muster_code *code, const muster_code_spec *spec,
                                uint32_t draw, muster_error *error)
{
    uint32_t degree = 3;
    muster_status status =
        muster_code_spec_option_number(spec, "degree", 2, 4096, error, &degree);
    if (status != MUSTER_OK) {
        return status;
    }
    uint64_t ends = 2 * (uint64_t)spec->workers;
    if (ends % degree != 0 || ends / degree <= degree) {
        return muster_error_set(
            error, MUSTER_ERR_UNSUPPORTED,
            "graph: %u workers are no edges of a %u-regular graph; degree must "
            "divide 2 n = %llu and be below 2 n / degree",
            spec->workers, degree, (unsigned long long)ends);
    }
    muster_rng rng = muster_rng_make(spec->seed, STREAM_GRAPH + draw);
    code->info.parts = (uint32_t)(ends / degree);
    code->info.exact = false;
    status = make_graph(code, code->info.parts, degree, &rng);
    return status == MUSTER_OK ? fill_code(code, error) : status;
}

static muster_status build(muster_code *code, const muster_code_spec *spec,
                           muster_error *error)
{
    uint32_t draws;
    muster_status status = muster_code_spec_accept(spec, "degree,draws", error);
    if (status == MUSTER_OK) {
        status = muster_code_read_draws(spec, error, &draws);
    }
    if (status == MUSTER_OK) {
        status = muster_code_spec_whole(spec, error);
    }
    if (status == MUSTER_OK && spec->load != 0 && spec->load != 2) {
        status = muster_error_set(error, MUSTER_ERR_UNSUPPORTED,
                                  "graph has d = 2 parts a worker; set the "
                                  "copies of a part with degree=");
    }
    if (status != MUSTER_OK) {
        return status;
    }
    // Large random graphs are all alike.
    draws = spec->workers > 4096 ? 1 : draws;
    return muster_code_keep_best(code, spec, draws, build_draw, error);
}

/* ---- decoding ------------------------------------------------------------ */

/* Per vertex unless said. A spanning forest in breadth-first order. */
typedef struct forest {
    uint32_t *order;  // vertices, each component together, parents first
    uint32_t *parent; // edge to the parent, NOTHING at a root
    uint8_t *side;    // parity of the depth
    uint8_t *seen;
    uint8_t *alive;  // per edge
    double *need;    // what the vertex still wants of its parent's edge
    double *weights; // per edge
} forest;

static void release(forest *f)
{
    muster_mem_free(f->order);
    muster_mem_free(f->parent);
    muster_mem_free(f->side);
    muster_mem_free(f->seen);
    muster_mem_free(f->alive);
    muster_mem_free(f->need);
    muster_mem_free(f->weights);
}

static bool prepare(const graph *g, forest *f)
{
    f->order = muster_mem_array(g->vertices, sizeof(uint32_t));
    f->parent = muster_mem_array(g->vertices, sizeof(uint32_t));
    f->side = muster_mem_array(g->vertices, 1);
    f->seen = muster_mem_array(g->vertices, 1);
    f->alive = muster_mem_array(g->edges, 1);
    f->need = muster_mem_array(g->vertices, sizeof(double));
    f->weights = muster_mem_array(g->edges, sizeof(double));
    return f->order != NULL && f->parent != NULL && f->side != NULL &&
           f->seen != NULL && f->alive != NULL && f->need != NULL &&
           f->weights != NULL;
}

/* Walk the component of `root`, its vertices to order[from..]; returns the end.
 * *odd_out: an edge between equal sides, or NOTHING. */
static uint32_t walk(const graph *g, const forest *f, uint32_t root,
                     uint32_t from, uint32_t *odd_out)
{
    uint32_t end = from;
    *odd_out = NOTHING;
    f->seen[root] = 1;
    f->parent[root] = NOTHING;
    f->order[end++] = root;
    for (uint32_t at = from; at < end; at++) {
        uint32_t v = f->order[at];
        for (uint32_t i = 0; i < g->degree; i++) {
            uint32_t edge = g->incident[(size_t)v * g->degree + i];
            if (!f->alive[edge]) {
                continue;
            }
            const uint32_t *ends = g->ends + 2 * (size_t)edge;
            uint32_t other = ends[0] == v ? ends[1] : ends[0];
            if (!f->seen[other]) {
                f->seen[other] = 1;
                f->side[other] = !f->side[v];
                f->parent[other] = edge;
                f->order[end++] = other;
            } else if (f->side[other] == f->side[v]) {
                *odd_out = edge;
            }
        }
    }
    return end;
}

/* Weights of one component, order[from..end). */
static void weigh(const graph *g, const forest *f, uint32_t from, uint32_t end,
                  uint32_t odd)
{
    double sides[2] = {0.0, 0.0};
    for (uint32_t at = from; at < end; at++) {
        sides[f->side[f->order[at]]] += 1.0;
    }
    double size = sides[0] + sides[1];
    for (uint32_t at = from; at < end; at++) {
        uint32_t v = f->order[at];
        f->need[v] = odd != NOTHING ? 1.0 : 2.0 * sides[!f->side[v]] / size;
    }
    if (odd != NOTHING) {
        // The sides want different sums; the odd edge gives twice to one.
        const uint32_t *ends = g->ends + 2 * (size_t)odd;
        uint8_t side = f->side[ends[0]];
        double share = (sides[side] - sides[!side]) / 2.0;
        f->weights[odd] = share;
        f->need[ends[0]] -= share;
        f->need[ends[1]] -= share;
    }
    for (uint32_t at = end; at-- > from;) {
        uint32_t v = f->order[at];
        uint32_t edge = f->parent[v];
        if (edge != NOTHING) {
            const uint32_t *ends = g->ends + 2 * (size_t)edge;
            uint32_t up = ends[0] == v ? ends[1] : ends[0];
            f->weights[edge] += f->need[v];
            f->need[up] -= f->need[v];
        }
    }
}

static muster_status weights(const muster_code *code, muster_code_query *query)
{
    const graph *g = code->state;
    forest f = {0};
    muster_status status = MUSTER_ERR_NO_MEMORY;
    if (!prepare(g, &f)) {
        goto out;
    }
    for (uint32_t r = 0; r < query->count; r++) {
        f.alive[query->responders[r]] = 1;
    }
    uint32_t end = 0;
    for (uint32_t v = 0; v < g->vertices; v++) {
        if (!f.seen[v]) {
            uint32_t odd;
            uint32_t from = end;
            end = walk(g, &f, v, from, &odd);
            weigh(g, &f, from, end, odd);
        }
    }
    query->term_count = 0;
    for (uint32_t r = 0; r < query->count; r++) {
        uint32_t edge = query->responders[r];
        if (f.weights[edge] != 0.0) {
            query->terms[query->term_count++] =
                (muster_code_decode_term){0, edge, 0, f.weights[edge]};
        }
    }
    status = muster_code_measure(code, query);
out:
    release(&f);
    return status;
}

/* ---- progress: components with the parity of paths ----------------------- */

/* A union-find node: parent, parity of the path to it, and at roots whether
 * the component has an odd cycle. */
typedef struct node {
    uint32_t parent;
    uint8_t parity;
    uint8_t is_odd;
} node;

typedef struct graph_progress {
    uint32_t even; // components without an odd cycle
    node nodes[];
} graph_progress;

static size_t progress_bytes(const muster_code *code)
{
    const graph *g = code->state;
    return sizeof(graph_progress) + g->vertices * sizeof(node);
}

static void progress_reset(const muster_code *code, void *memory)
{
    const graph *g = code->state;
    graph_progress *progress = memory;
    progress->even = g->vertices;
    for (uint32_t v = 0; v < g->vertices; v++) {
        progress->nodes[v] = (node){v, 0, 0};
    }
}

/* The root of v, halving the path; *parity_out of the path. */
static uint32_t find(node *nodes, uint32_t v, uint8_t *parity_out)
{
    uint8_t parity = 0;
    while (nodes[v].parent != v) {
        node *up = &nodes[nodes[v].parent];
        // Skip one: v now hangs from its grandparent.
        nodes[v].parity ^= up->parent == nodes[v].parent ? 0 : up->parity;
        nodes[v].parent = up->parent;
        parity ^= nodes[v].parity;
        v = nodes[v].parent;
    }
    *parity_out = parity;
    return v;
}

static bool progress_add(const muster_code *code, void *memory, uint32_t worker)
{
    const graph *g = code->state;
    graph_progress *progress = memory;
    node *nodes = progress->nodes;
    uint8_t left_parity;
    uint8_t right_parity;
    uint32_t left = find(nodes, g->ends[2 * (size_t)worker], &left_parity);
    uint32_t right =
        find(nodes, g->ends[2 * (size_t)worker + 1], &right_parity);
    if (left == right) {
        if (left_parity == right_parity && !nodes[left].is_odd) {
            nodes[left].is_odd = 1;
            progress->even--;
        }
    } else {
        progress->even -= !nodes[left].is_odd || !nodes[right].is_odd;
        nodes[right].is_odd |= nodes[left].is_odd;
        nodes[left].parent = right;
        nodes[left].parity = left_parity ^ right_parity ^ 1;
    }
    return progress->even == 0;
}

const muster_code_ops muster_code_graph = {
    .name = "graph",
    .build = build,
    .weights = weights,
    .free_state = free_state,
    .progress_bytes = progress_bytes,
    .progress_reset = progress_reset,
    .progress_add = progress_add,
    .needs = "degree= copies of a part (3), dividing 2 n; d = 2",
    .limits = "approximate, exact when every component has an odd cycle",
};
