/*
 * coordinator_edges.c -- what is other where those that a coordinator leads are
 * edges: lengths, plans, and shards that they ask for.
 *
 * An edge makes the hier code itself. Its plan says which, how long messages
 * are, and has a sum over the coefficients of its workers: an edge that made
 * another code ends rather than send a message that decodes to something wrong.
 * An edge keeps no shard. It asks for one (WANT) when a worker of its lacks it,
 * and passes it on.
 */
#include "base/mem.h"
#include "code/hier.h"
#include "role/coordinator_inside.h"
#include "wire/edge_answers.h"
#include "wire/edge_terms.h"

/* Weights of the check: terms that change places change it. */
#define CHECK_WEIGHTS 7u
/* WANTs of an edge that are told apart: it has two under way. */
#define STAMPS_SEEN 64u

bool muster_coordinator_leads_edges(const muster_coordinator *c)
{
    return c->opts.edges;
}

muster_layer muster_coordinator_layer(const muster_coordinator *c,
                                      const muster_code *code)
{
    if (muster_coordinator_leads_edges(c)) {
        const muster_code *outer = muster_hier_outer(code);
        return (muster_layer){.code = outer, .terms = outer, .hier = code};
    }
    if (c->edge != NULL) {
        uint32_t edge = muster_hier_edge_of(code, c->layer.first);
        return (muster_layer){.code = muster_hier_inner(code, edge),
                              .terms = code,
                              .first = c->layer.first,
                              .hier = code};
    }
    return (muster_layer){.code = code, .terms = code};
}

const muster_code *muster_coordinator_code(const muster_coordinator *c)
{
    return muster_coordinator_leads_edges(c) ? c->plan.hier : c->plan.code;
}

const char *muster_coordinator_noun(const muster_coordinator *c)
{
    return muster_coordinator_leads_edges(c) ? "edge" : "worker";
}

size_t muster_coordinator_answer_floats(const muster_coordinator *c)
{
    return muster_coordinator_leads_edges(c)
               ? muster_hier_edge_length(c->plan.hier, c->opts.message_dim)
               : muster_code_message_length(c->plan.code, c->opts.message_dim);
}

size_t muster_coordinator_block_floats(const muster_coordinator *c)
{
    return muster_coordinator_answer_floats(c) / c->plan.info.message_blocks;
}

double muster_edges_check(const muster_code *hier, uint32_t edge)
{
    double sum = 0;
    uint32_t end = muster_hier_first(hier, edge + 1);
    for (uint32_t w = muster_hier_first(hier, edge); w < end; w++) {
        const muster_code_encode_term *terms = NULL;
        uint32_t count = 0;
        if (muster_code_encode_terms(hier, w, &terms, &count) != MUSTER_OK) {
            continue;
        }
        for (uint32_t i = 0; i < count; i++) {
            sum += terms[i].coef * (1 + (w + terms[i].part) % CHECK_WEIGHTS);
        }
    }
    return sum;
}

muster_blob *muster_edges_plan(const muster_coordinator *c,
                               const muster_assignment *plan, uint32_t edge)
{
    muster_hier_numbers numbers = muster_hier_numbers_of(plan->hier);
    muster_edge_terms terms = {.message_dim = c->opts.message_dim,
                               .message_tail = (uint32_t)c->opts.message_tail,
                               .shards = plan->shards,
                               .check = muster_edges_check(plan->hier, edge),
                               .edge_stragglers = numbers.edge_stragglers,
                               .worker_stragglers = numbers.worker_stragglers,
                               .edge_comm = numbers.edge_comm,
                               .worker_comm = numbers.worker_comm};
    muster_blob *blob = muster_blob_create(MUSTER_EDGE_TERMS_BYTES);
    if (blob != NULL) {
        muster_edge_terms_write(&terms, blob->data);
    }
    return blob;
}

/* The first message with this stamp? They may overtake each other a little. */
static bool is_fresh(muster_worker_record *edge, uint64_t stamp)
{
    if (stamp > edge->want_stamp) {
        uint64_t ahead = stamp - edge->want_stamp;
        edge->want_seen = ahead < STAMPS_SEEN ? edge->want_seen << ahead : 0;
        edge->want_stamp = stamp;
    }
    uint64_t behind = edge->want_stamp - stamp;
    bool fresh = stamp > 0 && behind < STAMPS_SEEN &&
                 (edge->want_seen >> behind & 1u) == 0;
    edge->want_seen |= behind < STAMPS_SEEN ? (uint64_t)1 << behind : 0;
    return fresh;
}

bool muster_edges_want(muster_worker_record *edge, uint32_t shard,
                       uint64_t stamp)
{
    if (!is_fresh(edge, stamp)) {
        return false;
    }
    for (uint32_t i = 0; i < edge->want_count; i++) {
        if (edge->wants[i] == shard) {
            return false; // asked for already
        }
    }
    if (edge->want_count == MUSTER_WANTS_MAX) {
        return false;
    }
    edge->wants[edge->want_count++] = shard;
    return true;
}

uint32_t muster_edges_lacking(const muster_worker_record *edge)
{
    for (uint32_t i = 0; i < edge->want_count; i++) {
        bool being_made = false;
        for (uint32_t j = 0; j < edge->under_way_count; j++) {
            being_made =
                being_made || edge->under_way[j].shard == edge->wants[i];
        }
        if (!being_made) {
            return edge->wants[i];
        }
    }
    return MUSTER_ID_ANY;
}

void muster_edges_sent(muster_worker_record *edge, uint32_t shard)
{
    for (uint32_t i = 0; i < edge->want_count; i++) {
        if (edge->wants[i] == shard) {
            edge->wants[i] = edge->wants[--edge->want_count];
            return;
        }
    }
}

static void report_below(const muster_coordinator *c, uint32_t edge,
                         uint32_t plan, const muster_edge_answer *answer,
                         muster_actions *actions)
{
    double arrive_ms = answer->arrive_us * 1e-3;
    // The time of the links is not known: as if the edge began with the step.
    int64_t came_ns =
        muster_step_begun_ns(c, answer->step) + (int64_t)(arrive_ms * 1e6);
    muster_report *report =
        muster_act_report(actions, MUSTER_REPORT_BELOW, came_ns);
    report->step = answer->step;
    report->as.below.edge = edge;
    report->as.below.worker = answer->worker;
    report->as.below.late = answer->late;
    report->as.below.slow = answer->slow;
    report->as.below.compute_ms = answer->compute_us * 1e-3;
    report->as.below.arrive_ms = arrive_ms;
    report->as.below.code = plan == c->plan.number ? c->plan.hier : NULL;
}

void muster_edges_answers(muster_coordinator *c, uint32_t edge,
                          const muster_event *event, muster_actions *actions)
{
    const muster_blob *payload = event->as.message.payload;
    if (!muster_coordinator_leads_edges(c) || payload == NULL ||
        payload->data == NULL) {
        return;
    }
    const uint8_t *at = payload->data;
    const muster_code *hier = c->plan.hier;
    uint32_t plan = event->as.message.message->plan;
    for (size_t left = payload->bytes / MUSTER_EDGE_ANSWER_BYTES; left > 0;
         left--, at += MUSTER_EDGE_ANSWER_BYTES) {
        muster_edge_answer answer = muster_edge_answer_read(at);
        // An edge speaks of itself, of its own workers, and of steps that there
        // were.
        bool worker = answer.worker >= muster_hier_first(hier, edge) &&
                      answer.worker < muster_hier_first(hier, edge + 1);
        if (answer.step > c->step ||
            (!worker && answer.worker != MUSTER_ID_ANY)) {
            continue;
        }
        muster_replan_below(c, edge, plan, &answer);
        if (worker) {
            report_below(c, edge, plan, &answer, actions);
        }
    }
    muster_replan_told(c, edge);
}
