/*
 * gossip.c -- see gossip.h.
 *
 * Invariants:
 *   1. At most one job, GRADIENT or MIX, is under way.
 *   2. `half`, where GRADIENT of step `step` has led, goes to each neighbour
 *      once its connection stands, at once or when it comes up. So of two
 *      neighbours that see each other both have the other's.
 *   3. The coordinator begins no step before all that take part have answered
 *      the last, so a model that comes is of the step at hand or of the next.
 *      One of each worker is kept, the newest.
 */
#include "role/gossip.h"

#include <string.h>

#include "base/mem.h"
#include "base/rng.h"
#include "role/act.h"

#define NEIGHBOURS_MAX (MUSTER_PARTNERS_MAX > 2 ? MUSTER_PARTNERS_MAX : 2u)

typedef enum gossip_phase {
    PHASE_IDLE,
    PHASE_GRADIENT,
    PHASE_EXCHANGE,
    PHASE_MIX,
} gossip_phase;

/* What came from another worker. */
typedef struct received_model {
    muster_blob *blob; // or NULL
    uint64_t step;
} received_model;

struct muster_gossip {
    muster_gossip_host host;
    gossip_phase phase;
    bool seen; // a PEERS in this life
    bool warm; // the optimiser has a state that belongs to `model`
    uint64_t step;
    uint32_t plan;
    muster_peers peers;
    uint32_t neighbours[NEIGHBOURS_MAX]; // worker numbers
    bool fresh[NEIGHBOURS_MAX];
    uint32_t neighbour_count;
    muster_vec order;      // scratch, uint32_t
    muster_vec received;   // received_model, by worker number
    muster_blob *model;    // before the step; NULL: none yet
    muster_blob *half;     // after its GRADIENT; NULL: none
    uint64_t job;          // under way, or 0
    int64_t busy_ns;       // of this step
    double share, loss;    // of its GRADIENT
    muster_job_list *list; // of the last MIX
};

static void drop(muster_blob **blob)
{
    muster_blob_unref(*blob);
    *blob = NULL;
}

static void drop_received(muster_gossip *g)
{
    received_model *received = g->received.data;
    for (size_t i = 0; i < g->received.count; i++) {
        drop(&received[i].blob);
    }
}

muster_status muster_gossip_create(const muster_gossip_host *host,
                                   muster_gossip **gossip_out)
{
    muster_gossip *g = muster_mem_array(1, sizeof(*g));
    if (g == NULL) {
        return MUSTER_ERR_NO_MEMORY;
    }
    g->host = *host;
    g->peers.members = muster_vec_make(sizeof(muster_peers_member));
    g->order = muster_vec_make(sizeof(uint32_t));
    g->received = muster_vec_make(sizeof(received_model));
    *gossip_out = g;
    return MUSTER_OK;
}

void muster_gossip_free(muster_gossip *g)
{
    if (g == NULL) {
        return;
    }
    drop_received(g);
    drop(&g->model);
    drop(&g->half);
    muster_job_list_unref(g->list);
    muster_vec_fini(&g->peers.members);
    muster_vec_fini(&g->order);
    muster_vec_fini(&g->received);
    muster_mem_free(g);
}

void muster_gossip_reset(muster_gossip *g, muster_actions *actions)
{
    if (g->job != 0) {
        muster_act_cancel(actions, g->job);
        g->job = 0;
    }
    drop_received(g);
    drop(&g->model);
    drop(&g->half);
    g->phase = PHASE_IDLE;
    g->seen = g->warm = false;
    g->neighbour_count = 0;
}

static void take_model(muster_gossip *g, muster_blob *model)
{
    muster_blob *kept = muster_blob_ref(model);
    drop(&g->model);
    g->model = kept;
}

void muster_gossip_start(muster_gossip *g, muster_blob *model)
{
    take_model(g, model);
    g->warm = true;
}

/* The partner of position `at` in a random matching, or `at`. */
static uint32_t partner(muster_rng *rng, uint32_t count, uint32_t at,
                        uint32_t *order)
{
    uint32_t place = 0;
    for (uint32_t i = 0; i < count; i++) {
        order[i] = i;
    }
    for (uint32_t i = 0; i < count; i++) {
        uint32_t j = i + (uint32_t)muster_rng_below(rng, count - i);
        uint32_t other = order[j];
        order[j] = order[i];
        order[i] = other;
        place = other == at ? i : place;
    }
    uint32_t beside = place ^ 1u;
    return beside < count ? order[beside] : at;
}

uint32_t muster_gossip_neighbours(const muster_peers *peers, uint64_t step,
                                  uint32_t at, uint32_t *order,
                                  uint32_t *neighbours_out)
{
    uint32_t count = (uint32_t)peers->members.count;
    uint32_t found = 0;
    if (peers->partners == 0) {
        if (count > 1) {
            neighbours_out[found++] = (at + 1) % count;
        }
        if (count > 2) {
            neighbours_out[found++] = (at + count - 1) % count;
        }
        return found;
    }
    muster_rng rng = muster_rng_make(peers->seed, step);
    for (uint32_t i = 0; i < peers->partners; i++) {
        uint32_t other = partner(&rng, count, at, order);
        if (other != at) {
            neighbours_out[found++] = other;
        }
    }
    return found;
}

static received_model *received_of(muster_gossip *g, uint32_t id)
{
    while (g->received.count <= id) {
        if (muster_vec_push(&g->received) == NULL) {
            return NULL;
        }
    }
    return (received_model *)g->received.data + id;
}

/* The model that `id` has sent for this step, or NULL. */
static muster_blob *model_of(const muster_gossip *g, uint32_t id)
{
    const received_model *received = g->received.data;
    bool here = id < g->received.count && received[id].blob != NULL &&
                received[id].step == g->step;
    return here ? received[id].blob : NULL;
}

static void send_half(muster_gossip *g, uint32_t id, muster_actions *actions)
{
    muster_member_mail mail = {
        .message = {.kind = MUSTER_MSG_MODEL, .plan = g->plan, .step = g->step},
        .payload = muster_blob_ref(g->half)};
    muster_member_send(g->host.member, id, &mail, actions);
}

static muster_job *compute(muster_gossip *g, muster_job_kind kind,
                           muster_actions *actions)
{
    (*g->host.jobs)++;
    muster_job *job = muster_act_compute(actions, kind, ++*g->host.job_ids);
    job->step = g->step;
    job->plan = g->plan;
    g->job = job->id;
    return job;
}

/* What the coordinator counts: the model, or its loss alone; without a model,
 * nothing. NULL also when out of memory: the worker then stays fresh. */
static muster_blob *answer_payload(const muster_gossip *g)
{
    if (g->model == NULL || g->peers.wants_model) {
        return muster_blob_ref(g->model);
    }
    muster_blob *blob = muster_blob_create(2 * sizeof(float));
    if (blob != NULL) {
        const float numbers[2] = {(float)(g->share * g->loss), (float)g->share};
        memcpy(blob->data, numbers, sizeof(numbers));
    }
    return blob;
}

static void finish(muster_gossip *g, muster_actions *actions)
{
    muster_member_mail mail = {.message = {.kind = MUSTER_MSG_GRADIENT,
                                           .plan = g->plan,
                                           .step = g->step},
                               .payload = answer_payload(g)};
    mail.message.as.gradient.compute_ns = (uint64_t)g->busy_ns;
    g->phase = PHASE_IDLE;
    muster_member_send(g->host.member, MUSTER_ID_LEADER, &mail, actions);
}

/* Is a neighbour's model still to come? */
static bool is_awaited(const muster_gossip *g, uint32_t index)
{
    uint32_t id = g->neighbours[index];
    return !g->fresh[index] && model_of(g, id) == NULL &&
           muster_member_link(g->host.member, id) != NULL;
}

/* List the models of the mean; returns how many came from others. */
static uint32_t list_models(muster_gossip *g, uint32_t *count_out)
{
    uint32_t count = 0;
    uint32_t others = 0;
    if (g->half != NULL) {
        g->list->blobs[count++] = muster_blob_ref(g->half);
    }
    for (uint32_t i = 0; i < g->neighbour_count; i++) {
        muster_blob *model = model_of(g, g->neighbours[i]);
        others += model != NULL;
        model = model != NULL ? model : g->half;
        if (model != NULL) {
            g->list->blobs[count++] = muster_blob_ref(model);
        }
    }
    *count_out = count;
    return others;
}

static bool has_list(muster_gossip *g)
{
    if (g->list == NULL || !muster_job_list_is_free(g->list)) {
        muster_job_list_unref(g->list);
        g->list = muster_job_list_create(NEIGHBOURS_MAX + 1);
    }
    return g->list != NULL;
}

static void mix(muster_gossip *g, muster_actions *actions)
{
    uint32_t count = 0;
    if (list_models(g, &count) == 0) { // nothing to mix with
        for (uint32_t i = 0; i < count; i++) {
            drop(&g->list->blobs[i]);
        }
        if (g->half != NULL) {
            take_model(g, g->half);
        }
        finish(g, actions);
        return;
    }
    g->phase = PHASE_MIX;
    muster_job *job = compute(g, MUSTER_JOB_MIX, actions);
    job->partial = g->half == NULL;
    job->list = muster_job_list_ref(g->list);
    job->messages = g->list->blobs;
    job->message_count = count;
}

static void try_mix(muster_gossip *g, muster_actions *actions)
{
    if (g->phase != PHASE_EXCHANGE) {
        return;
    }
    for (uint32_t i = 0; i < g->neighbour_count; i++) {
        if (is_awaited(g, i)) {
            return;
        }
    }
    if (has_list(g)) {
        mix(g, actions);
    } else if (g->half != NULL) { // no memory: as if no neighbour were there
        take_model(g, g->half);
        finish(g, actions);
    }
}

/* Note the neighbours of the step; false: the worker does not take part. */
static bool find_neighbours(muster_gossip *g)
{
    const muster_peers_member *members = g->peers.members.data;
    uint32_t count = (uint32_t)g->peers.members.count;
    uint32_t at = muster_peers_find(&g->peers, g->host.member->id);
    if (at == count || !muster_vec_reserve(&g->order, count)) {
        return false;
    }
    g->neighbour_count = muster_gossip_neighbours(&g->peers, g->step, at,
                                                  g->order.data, g->neighbours);
    for (uint32_t i = 0; i < g->neighbour_count; i++) {
        g->fresh[i] = members[g->neighbours[i]].fresh;
        g->neighbours[i] = members[g->neighbours[i]].id;
    }
    if (members[at].fresh) {
        drop(&g->model);
        g->warm = false;
    }
    return true;
}

void muster_gossip_begin(muster_gossip *g, const muster_event *event,
                         muster_actions *actions)
{
    const muster_message *message = event->as.message.message;
    bool newer = !g->seen || message->step > g->step;
    if (!newer || g->phase != PHASE_IDLE || g->job != 0 ||
        !muster_peers_read(event->as.message.payload, &g->peers)) {
        return;
    }
    g->seen = true;
    g->step = message->step;
    g->plan = message->plan;
    g->busy_ns = 0;
    g->share = g->loss = 0;
    drop(&g->half);
    if (!find_neighbours(g)) {
        return;
    }
    if (g->model != NULL) {
        g->phase = PHASE_GRADIENT;
        muster_job *job = compute(g, MUSTER_JOB_GRADIENT, actions);
        job->input = muster_blob_ref(g->model);
        job->partial = g->warm;
        g->warm = true;
    } else {
        g->phase = PHASE_EXCHANGE;
        try_mix(g, actions);
    }
}

static bool is_neighbour(const muster_gossip *g, uint32_t id)
{
    bool found = false;
    for (uint32_t i = 0; i < g->neighbour_count; i++) {
        found = found || g->neighbours[i] == id;
    }
    return found;
}

void muster_gossip_peer_up(muster_gossip *g, uint32_t id,
                           muster_actions *actions)
{
    if (g->half != NULL && is_neighbour(g, id)) {
        send_half(g, id, actions);
    }
}

void muster_gossip_peer_down(muster_gossip *g, uint32_t id,
                             muster_actions *actions)
{
    (void)id;
    try_mix(g, actions);
}

void muster_gossip_message(muster_gossip *g, uint32_t id,
                           const muster_event *event, muster_actions *actions)
{
    const muster_message *message = event->as.message.message;
    bool late = g->seen && message->step < g->step;
    if (message->kind != MUSTER_MSG_MODEL || late ||
        event->as.message.payload == NULL) {
        return;
    }
    received_model *received = received_of(g, id);
    if (received == NULL) {
        return; // no memory: as if it had not come
    }
    drop(&received->blob);
    received->blob = muster_blob_ref(event->as.message.payload);
    received->step = message->step;
    try_mix(g, actions);
}

static void on_gradient(muster_gossip *g, const muster_job_result *result,
                        muster_actions *actions)
{
    g->share = result->share;
    g->loss = result->loss;
    g->half = muster_blob_ref(result->output);
    g->phase = PHASE_EXCHANGE;
    for (uint32_t i = 0; i < g->neighbour_count; i++) {
        bool again = false; // a partner of two matchings
        for (uint32_t j = 0; j < i; j++) {
            again = again || g->neighbours[j] == g->neighbours[i];
        }
        if (!again) {
            send_half(g, g->neighbours[i], actions);
        }
    }
    try_mix(g, actions);
}

bool muster_gossip_computed(muster_gossip *g, const muster_job_result *result,
                            muster_actions *actions)
{
    if (result->id != g->job) {
        return result->kind == MUSTER_JOB_MIX; // one that was given up
    }
    g->job = 0;
    g->busy_ns += result->busy_ns;
    if (result->kind == MUSTER_JOB_GRADIENT) {
        on_gradient(g, result, actions);
    } else {
        take_model(g, result->output);
        finish(g, actions);
    }
    return true;
}
