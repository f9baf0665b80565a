/*
 * hier.c -- hierarchical codes (Tang, Li, Chen, Chen 2024): a code over edges,
 * and under each edge a code over its workers.
 *
 * A part survives s_e lost edges when it is on s_e + 1 of them, and s_w lost
 * workers under the last of these when s_w + 1 workers hold it there. So the
 * load D / K is at least (s_e + 1)(s_w + 1) / workers, and this construction
 * has exactly that. With messages of p / m_e from edges and p / (m_e m_w) from
 * workers, each s + 1 becomes s + m (the bound of Ye and Abbe, in each layer).
 *
 * All workers carry the same load, so edge i holds a share of the parts in
 * proportion to its m_i workers, s_e + m_e times over. That share is at most
 * all parts: m_i (s_e + m_e) <= workers, or the numbers are refused.
 */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "base/mem.h"
#include "code/choose.h"
#include "code/families/families.h"
#include "code/families/hier_inside.h"
#include "code/sets.h"

/* Straggler sets by which each layer's error is predicted. */
#define JUDGE_SETS 100u

static void free_state(void *state)
{
    muster_hier *hier = state;
    if (hier == NULL) {
        return;
    }
    for (uint32_t i = 0; hier->inner != NULL && i < hier->inner_count; i++) {
        muster_code_free(hier->inner[i]);
    }
    muster_code_free(hier->outer);
    muster_mem_free(hier->inner);
    muster_mem_free(hier->edges);
    muster_mem_free(hier->edge_of);
    muster_topology_fini(&hier->topology);
    muster_mem_free(hier);
}

/* ---- numbers ------------------------------------------------------------- */

static muster_status read_topology(const muster_code_spec *spec,
                                   muster_error *error,
                                   muster_topology *topology)
{
    const char *own = muster_code_spec_option_get(spec, "edges");
    const char *text = own != NULL ? own : spec->topology;
    if (text == NULL) {
        return muster_error_set(error, MUSTER_ERR_INVALID,
                                "hier: which workers are under which edge? add "
                                "a topology such as 4x10 or 3,4,5,6 "
                                "(--topology, or edges= in the code)");
    }
    muster_status status =
        muster_topology_parse("hier: edges", text, error, topology);
    if (status == MUSTER_OK && topology->workers != spec->workers) {
        status = muster_error_set(
            error, MUSTER_ERR_INVALID,
            "hier: topology %.64s has %u workers, the cluster has %u", text,
            topology->workers, spec->workers);
    }
    return status;
}

static muster_status read_numbers(const muster_code_spec *spec,
                                  muster_error *error, muster_hier *hier)
{
    static const struct {
        const char *key;
        uint32_t min;
        size_t offset;
    } keys[] = {
        {"se", 0, offsetof(muster_hier, edge_stragglers)},
        {"sw", 0, offsetof(muster_hier, worker_stragglers)},
        {"me", 1, offsetof(muster_hier, edge_comm)},
        {"mw", 1, offsetof(muster_hier, worker_comm)},
    };
    if (spec->stragglers != 0 || spec->load != 0) {
        return muster_error_set(error, MUSTER_ERR_INVALID,
                                "hier takes se=, sw=, me= and mw=, not s or d; "
                                "its load follows from them");
    }
    hier->edge_comm = 1;
    hier->worker_comm = 1;
    muster_status status =
        muster_code_spec_accept(spec, "se,sw,me,mw,edges,inner", error);
    for (size_t i = 0; status == MUSTER_OK && i < 4; i++) {
        status = muster_code_spec_option_number(
            spec, keys[i].key, keys[i].min, MUSTER_CODE_WORKERS_DENSE_MAX,
            error, (uint32_t *)(void *)((uint8_t *)hier + keys[i].offset));
    }
    uint32_t comm = hier->edge_comm * hier->worker_comm;
    if (status == MUSTER_OK && spec->comm > 1 && spec->comm != comm) {
        status = muster_error_set(
            error, MUSTER_ERR_INVALID,
            "hier: m = %u; say by which layer, me= for edges, mw= for workers",
            spec->comm);
    }
    return status;
}

/* Can the layers be built? Says what would be possible. */
static muster_status check_numbers(const muster_hier *hier, muster_error *error)
{
    const muster_topology *topology = &hier->topology;
    uint64_t edge_copies = (uint64_t)hier->edge_stragglers + hier->edge_comm;
    uint64_t worker_copies =
        (uint64_t)hier->worker_stragglers + hier->worker_comm;
    uint32_t low = 0;  // edge of fewest workers
    uint32_t high = 0; // of most
    for (uint32_t i = 1; i < topology->edges; i++) {
        low = topology->sizes[i] < topology->sizes[low] ? i : low;
        high = topology->sizes[i] > topology->sizes[high] ? i : high;
    }
    if (worker_copies > topology->sizes[low]) {
        return muster_error_set(
            error, MUSTER_ERR_UNSUPPORTED,
            "hier: sw = %u, mw = %u need %llu workers under every edge, edge "
            "%u has %u: sw + mw <= %u",
            hier->worker_stragglers, hier->worker_comm,
            (unsigned long long)worker_copies, low, topology->sizes[low],
            topology->sizes[low]);
    }
    if (edge_copies * topology->sizes[high] > topology->workers) {
        uint32_t copies = topology->workers / topology->sizes[high];
        return muster_error_set(
            error, MUSTER_ERR_UNSUPPORTED,
            "hier: edge %u has %u of the %u workers and would hold more than "
            "all parts %llu times over (se = %u, me = %u); feasible are se + "
            "me <= %u, or at most %llu workers under an edge",
            high, topology->sizes[high], topology->workers,
            (unsigned long long)edge_copies, hier->edge_stragglers,
            hier->edge_comm, copies,
            (unsigned long long)(topology->workers / edge_copies));
    }
    return MUSTER_OK;
}

/* ---- layers -------------------------------------------------------------- */

static muster_status check_inner(const muster_hier *hier,
                                 const muster_code *inner, muster_error *error)
{
    const muster_code_info *first = &hier->inner[0]->info;
    const muster_code_info *info = &inner->info;
    if (info->exact && info->stragglers >= hier->worker_stragglers &&
        info->gradient_blocks == first->gradient_blocks &&
        info->message_blocks == first->message_blocks) {
        return MUSTER_OK;
    }
    return muster_error_set(error, MUSTER_ERR_UNSUPPORTED,
                            "hier: inner=%s is not exact for %u stragglers "
                            "with one message length under all edges; leave "
                            "inner= out",
                            info->name, hier->worker_stragglers);
}

/* The inner code of an edge, made when no earlier edge has its size. */
static muster_status take_inner(muster_hier *hier, const muster_code_spec *spec,
                                uint32_t workers, muster_error *error,
                                const muster_code **inner_out)
{
    for (uint32_t i = 0; i < hier->inner_count; i++) {
        if (hier->inner[i]->info.workers == workers) {
            *inner_out = hier->inner[i];
            return MUSTER_OK;
        }
    }
    muster_code **slot = &hier->inner[hier->inner_count];
    muster_status status =
        muster_hier_build_inner(hier, spec, workers, error, slot);
    if (status == MUSTER_OK) {
        hier->inner_count++;
        *inner_out = *slot;
        status = check_inner(hier, *slot, error);
    }
    return status;
}

static muster_status build_layers(muster_hier *hier,
                                  const muster_code_spec *spec,
                                  muster_error *error)
{
    uint32_t edges = hier->topology.edges;
    hier->edges = muster_mem_array(edges, sizeof(muster_hier_edge));
    hier->inner = muster_mem_array(edges, sizeof(muster_code *));
    hier->edge_of = muster_mem_array(spec->workers, sizeof(uint32_t));
    if (hier->edges == NULL || hier->inner == NULL || hier->edge_of == NULL) {
        return MUSTER_ERR_NO_MEMORY;
    }
    muster_status status =
        muster_hier_build_outer(hier, spec, error, &hier->outer);
    uint32_t first = 0;
    for (uint32_t i = 0; status == MUSTER_OK && i < edges; i++) {
        muster_hier_edge *edge = &hier->edges[i];
        edge->first = first;
        edge->workers = hier->topology.sizes[i];
        for (uint32_t j = 0; j < edge->workers; j++) {
            hier->edge_of[first++] = i;
        }
        status = take_inner(hier, spec, edge->workers, error, &edge->inner);
    }
    return status;
}

/* Into how many parts an outer part must be cut so that each edge's parts can
 * be cut into those of its inner code. */
static muster_status cut_parts(muster_hier *hier, muster_error *error)
{
    uint64_t pieces = 1;
    for (uint32_t i = 0; i < hier->topology.edges; i++) {
        uint32_t held = hier->outer->part_spans[i].count;
        uint32_t inner = hier->edges[i].inner->info.parts;
        uint64_t step = pieces;
        while (held * pieces % inner != 0 &&
               pieces * hier->outer->info.parts <= MUSTER_CODE_TERMS_MAX) {
            pieces += step;
        }
    }
    if (pieces * hier->outer->info.parts > MUSTER_CODE_TERMS_MAX) {
        return muster_error_set(error, MUSTER_ERR_UNSUPPORTED,
                                "hier: these edges need more than %u parts; "
                                "take edges of fewer different sizes",
                                MUSTER_CODE_TERMS_MAX);
    }
    hier->pieces = (uint32_t)pieces;
    return MUSTER_OK;
}

/* ---- encode terms -------------------------------------------------------- */

/* Terms of one layer that belong to one part: [first, last). */
typedef struct term_run {
    const muster_code_encode_term *first;
    const muster_code_encode_term *last;
} term_run;

/* The terms of the part that stands at `at`. */
static term_run run_at(const muster_code_encode_term *at,
                       const muster_code_encode_term *end)
{
    term_run run = {at, at};
    while (run.last < end && run.last->part == at->part) {
        run.last++;
    }
    return run;
}

/* One part of a worker: all products of its inner and outer terms. */
static bool add_part(muster_code *code, uint32_t part, term_run inner,
                     term_run outer)
{
    const muster_hier *hier = code->state;
    uint32_t blocks = hier->edges[0].inner->info.gradient_blocks;
    for (const muster_code_encode_term *i = inner.first; i < inner.last; i++) {
        for (const muster_code_encode_term *o = outer.first; o < outer.last;
             o++) {
            muster_code_encode_term term = {
                .message_block = i->message_block,
                .part = part,
                .gradient_block =
                    o->gradient_block * blocks + i->gradient_block,
                .coef = i->coef * o->coef,
            };
            if (!muster_code_add_term(code, term)) {
                return false;
            }
        }
    }
    return true;
}

/* The outer terms of an edge and where each of its outer parts starts. */
typedef struct edge_parts {
    const muster_code_encode_term *end;
    muster_vec starts; // const muster_code_encode_term *
    uint32_t run;      // parts of a part of the inner code
} edge_parts;

/* A worker's terms: its inner parts are runs of its edge's parts. */
static bool add_worker(muster_code *code, const muster_hier_edge *edge,
                       uint32_t member, const edge_parts *held)
{
    const muster_hier *hier = code->state;
    const muster_code *inner = edge->inner;
    const muster_code_encode_term *all = inner->terms.data;
    muster_code_span span = inner->term_spans[member];
    const muster_code_encode_term *at = all + span.first;
    const muster_code_encode_term *end = at + span.count;
    const muster_code_encode_term *const *starts = held->starts.data;
    while (at < end) {
        term_run own = run_at(at, end);
        for (uint32_t i = 0; i < held->run; i++) {
            uint32_t place = at->part * held->run + i; // among the edge's parts
            const muster_code_encode_term *outer = starts[place / hier->pieces];
            uint32_t part = outer->part * hier->pieces + place % hier->pieces;
            if (!add_part(code, part, own, run_at(outer, held->end))) {
                return false;
            }
        }
        at = own.last;
    }
    return true;
}

static bool add_members(muster_code *code, const muster_hier_edge *edge,
                        const edge_parts *held)
{
    const muster_code_span *spans = edge->inner->term_spans;
    for (uint32_t j = 0; j < edge->workers; j++) {
        uint32_t worker = edge->first + j;
        if (j > 0 && spans[j].count > 0 &&
            spans[j].first == spans[j - 1].first) {
            muster_code_share_worker(code, worker, worker - 1);
            continue;
        }
        muster_code_open_worker(code, worker);
        if (!add_worker(code, edge, j, held) ||
            !muster_code_close_worker(code, worker)) {
            return false;
        }
    }
    return true;
}

static bool add_edge(muster_code *code, uint32_t index)
{
    const muster_hier *hier = code->state;
    const muster_hier_edge *edge = &hier->edges[index];
    const muster_code_encode_term *all = hier->outer->terms.data;
    muster_code_span span = hier->outer->term_spans[index];
    const muster_code_encode_term *at = all + span.first;
    edge_parts held = {
        .end = at + span.count,
        .starts = muster_vec_make(sizeof(const muster_code_encode_term *)),
        .run = hier->outer->part_spans[index].count * hier->pieces /
               edge->inner->info.parts};
    bool done = true;
    while (done && at < held.end) {
        done = muster_vec_append(&held.starts, (const void *)&at, 1);
        at = run_at(at, held.end).last;
    }
    done = done && add_members(code, edge, &held);
    muster_vec_fini(&held.starts);
    return done;
}

/* At most this many terms: every inner term once for each part of its run and
 * each outer block. */
static double count_terms(const muster_hier *hier)
{
    double total = 0;
    for (uint32_t i = 0; i < hier->topology.edges; i++) {
        const muster_code *inner = hier->edges[i].inner;
        total += (double)inner->terms.count * hier->outer->part_spans[i].count *
                 hier->pieces / inner->info.parts * hier->edge_comm;
    }
    return total;
}

static muster_status fill(muster_code *code, muster_error *error)
{
    const muster_hier *hier = code->state;
    double terms = count_terms(hier);
    if (terms > MUSTER_CODE_TERMS_MAX) {
        return muster_error_set(error, MUSTER_ERR_UNSUPPORTED,
                                "hier: %.0f encode terms; at most %u fit, take "
                                "smaller se, sw or edges of one size",
                                terms, MUSTER_CODE_TERMS_MAX);
    }
    if (!muster_code_reserve(code, (size_t)terms)) {
        return MUSTER_ERR_NO_MEMORY;
    }
    for (uint32_t i = 0; i < hier->topology.edges; i++) {
        if (!add_edge(code, i)) {
            return MUSTER_ERR_NO_MEMORY;
        }
    }
    return MUSTER_OK;
}

/* ---- the whole ----------------------------------------------------------- */

/* An edge's message is off by what its inner code adds, and then rounded; the
 * outer code multiplies both. */
static muster_status judge(muster_code *code)
{
    const muster_hier *hier = code->state;
    muster_code_survey survey;
    double inner = 0.0;
    muster_status status =
        muster_code_survey_run(hier->outer, JUDGE_SETS, 1, 0.0, &survey);
    double outer = survey.error_worst + survey.residual_worst;
    for (uint32_t i = 0; status == MUSTER_OK && i < hier->inner_count; i++) {
        status =
            muster_code_survey_run(hier->inner[i], JUDGE_SETS, 1, 0.0, &survey);
        inner = fmax(inner, survey.error_worst + survey.residual_worst);
    }
    double worst = outer * hypot(1.0, inner / MUSTER_CODE_ROUNDING);
    if (status == MUSTER_OK && !(worst <= MUSTER_CODE_ERROR_LIMIT)) {
        snprintf(code->warning, sizeof(code->warning),
                 "hier with se = %u, sw = %u may be off by %.1e of the "
                 "gradient in float32; use a smaller se or sw",
                 hier->edge_stragglers, hier->worker_stragglers, worst);
    }
    return status;
}

static void set_info(muster_code *code)
{
    muster_hier *hier = code->state;
    const muster_code_info *inner = &hier->edges[0].inner->info;
    muster_code_info *info = &code->info;
    info->parts = hier->outer->info.parts * hier->pieces;
    // Fewer leave one edge more than s_e without s_w + 1 of its workers.
    info->stragglers =
        (hier->edge_stragglers + 1) * (hier->worker_stragglers + 1) - 1;
    info->gradient_blocks = hier->edge_comm * inner->gradient_blocks;
    info->message_blocks = inner->message_blocks;
    info->comm = hier->edge_comm * inner->comm;
}

static muster_status build(muster_code *code, const muster_code_spec *spec,
                           muster_error *error)
{
    muster_hier *hier = muster_mem_array(1, sizeof(*hier));
    code->state = hier;
    if (hier == NULL) {
        return MUSTER_ERR_NO_MEMORY;
    }
    muster_status status = read_numbers(spec, error, hier);
    if (status == MUSTER_OK) {
        status = read_topology(spec, error, &hier->topology);
    }
    if (status == MUSTER_OK) {
        status = check_numbers(hier, error);
    }
    if (status == MUSTER_OK) {
        status = build_layers(hier, spec, error);
    }
    if (status == MUSTER_OK) {
        status = cut_parts(hier, error);
    }
    if (status == MUSTER_OK) {
        set_info(code);
        muster_hier_place_progress(hier);
        status = fill(code, error);
    }
    if (status == MUSTER_OK) {
        hier->load = (double)code->info.load / code->info.parts;
        status = judge(code);
    }
    return status;
}

const muster_code_ops muster_code_hier = {
    .name = "hier",
    .build = build,
    .weights = muster_hier_weights,
    .free_state = free_state,
    .progress_bytes = muster_hier_progress_bytes,
    .progress_reset = muster_hier_progress_reset,
    .progress_add = muster_hier_progress_add,
    .needs = "a topology; m_i (se + me) <= n, sw + mw <= every m_i",
    .limits = "both layers within theirs",
};

/* ---- code/hier.h --------------------------------------------------------- */

bool muster_code_is_hier(const muster_code *code)
{
    return code->ops == &muster_code_hier;
}

muster_hier_numbers muster_hier_numbers_of(const muster_code *code)
{
    const muster_hier *hier = code->state;
    uint32_t n = code->info.workers;
    uint32_t edges = hier->topology.edges;
    uint32_t widest = 0;
    for (uint32_t i = 0; i < edges; i++) {
        uint32_t size = hier->topology.sizes[i];
        widest = size > widest ? size : widest;
    }
    muster_hier_numbers numbers = {
        .edges = edges,
        .edge_stragglers = hier->edge_stragglers,
        .worker_stragglers = hier->worker_stragglers,
        .edge_comm = hier->edge_comm,
        .worker_comm = hier->worker_comm,
        .load = hier->load,
        .load_bound = (double)(hier->edge_stragglers + hier->edge_comm) *
                      (double)(hier->worker_stragglers + hier->worker_comm) / n,
    };
    uint64_t flat =
        (uint64_t)hier->edge_stragglers * widest +
        (uint64_t)(edges - hier->edge_stragglers) * hier->worker_stragglers;
    numbers.flat_stragglers = flat < n ? (uint32_t)flat : n - 1;
    numbers.flat_load = (numbers.flat_stragglers + 1.0) / n;
    return numbers;
}

const muster_code *muster_hier_outer(const muster_code *code)
{
    const muster_hier *hier = code->state;
    return hier->outer;
}

const muster_code *muster_hier_inner(const muster_code *code, uint32_t edge)
{
    const muster_hier *hier = code->state;
    return hier->edges[edge].inner;
}

void muster_hier_name(const muster_hier_numbers *numbers, char *name_out,
                      size_t size)
{
    bool split = numbers->edge_comm * numbers->worker_comm > 1;
    int length = snprintf(name_out, size, "hier:se=%u,sw=%u",
                          numbers->edge_stragglers, numbers->worker_stragglers);
    if (split && length > 0 && (size_t)length < size) {
        (void)snprintf(name_out + length, size - (size_t)length, ",me=%u,mw=%u",
                       numbers->edge_comm, numbers->worker_comm);
    }
}

char *muster_hier_topology(const muster_code *code)
{
    const muster_hier *hier = code->state;
    return muster_topology_text(&hier->topology);
}

uint32_t muster_hier_first(const muster_code *code, uint32_t edge)
{
    const muster_hier *hier = code->state;
    return edge < hier->topology.edges ? hier->edges[edge].first
                                       : code->info.workers;
}

uint32_t muster_hier_edge_of(const muster_code *code, uint32_t worker)
{
    const muster_hier *hier = code->state;
    return hier->edge_of[worker];
}

size_t muster_hier_edge_length(const muster_code *code, size_t dim)
{
    const muster_hier *hier = code->state;
    return muster_code_block_length(code, dim) *
           hier->edges[0].inner->info.gradient_blocks;
}
