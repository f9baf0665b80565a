/*
 * sim_nic.c -- messages, and the NICs that they pass.
 *
 * A machine has one NIC, each way of which its connections share in equal
 * parts, as TCP's streams do. A message passes the sender's way out and the
 * receiver's way in at the same time, and has arrived when it has passed
 * both and the latency is over. The messages of one side of a connection pass
 * one after another; one that waits may be replaced by a newer one of its slot.
 * A message without a payload is a packet that waits for none: it only delays
 * those that pass.
 *
 * Sharing costs O(log n) a message: `served` grows by rate / flows, the same
 * for every flow, and a flow of b bytes has passed when `served` has grown by b
 * since it came. So flows that are there keep their order when others come.
 *
 * Invariants
 *   1. `served` and the flows of a way are those of `at_ns`; flows that ended
 *      before are found by advance(), each at its own time, so a way needs no
 *      item for each.
 *   2. Of a parcel that has not passed, one way at least has an item that is
 *   due
 *      no later than the parcel passes that way; when that way is the first of
 *      the two, the other one gets one then.
 */
#include <string.h>

#include "base/assert.h"
#include "base/clock.h"
#include "sim/sim_inside.h"

/* How often a role hears that a long message is still coming. */
#define HEARD_NS (2 * MUSTER_NS_PER_S)
/* Bytes that may be missing through rounding. */
#define SLACK_BYTES 1e-3
#define NEVER       INT64_MAX

static double rate_of(const muster_sim *sim, uint32_t host)
{
    return sim->processes[host].link->bytes_per_s * 1e-9; // bytes a ns
}

static bool before(const muster_sim_flow *a, const muster_sim_flow *b)
{
    return a->end != b->end ? a->end < b->end : a->order < b->order;
}

static void push_flow(muster_vec *flows, muster_sim_flow flow)
{
    MUSTER_ASSERT(muster_vec_push(flows) != NULL);
    muster_sim_flow *heap = flows->data;
    size_t i = flows->count - 1;
    while (i > 0 && before(&flow, &heap[(i - 1) / 2])) {
        heap[i] = heap[(i - 1) / 2];
        i = (i - 1) / 2;
    }
    heap[i] = flow;
}

static muster_sim_parcel *pop_flow(muster_vec *flows)
{
    muster_sim_flow *heap = flows->data;
    muster_sim_parcel *parcel = heap[0].parcel;
    muster_sim_flow flow = heap[--flows->count];
    size_t i = 0;
    for (size_t child = 1; child < flows->count; child = 2 * i + 1) {
        child +=
            child + 1 < flows->count && before(&heap[child + 1], &heap[child]);
        if (!before(&heap[child], &flow)) {
            break;
        }
        heap[i] = heap[child];
        i = child;
    }
    heap[i] = flow;
    return parcel;
}

/* The time when the first flow of a way has passed. */
static int64_t first_end_ns(const muster_sim_way *way, double rate)
{
    const muster_sim_flow *heap = way->flows.data;
    double left = heap[0].end - way->served;
    double ns =
        left > 0 && rate > 0 ? left * (double)way->flows.count / rate : 0;
    return way->at_ns + (int64_t)(ns + 0.999);
}

static void schedule(muster_sim *sim, uint32_t host, uint32_t which)
{
    muster_sim_way *way = &sim->processes[host].ways[which];
    if (way->flows.count == 0) {
        return;
    }
    int64_t at_ns = first_end_ns(way, rate_of(sim, host));
    at_ns = at_ns > sim->now_ns ? at_ns : sim->now_ns;
    int64_t heard_ns = sim->now_ns + HEARD_NS;
    if (which == MUSTER_SIM_IN && heard_ns < at_ns) {
        at_ns = heard_ns;
    }
    if (at_ns < way->due_ns) {
        way->due_ns = at_ns;
        muster_sim_item item = {.kind = MUSTER_SIM_NIC,
                                .at_ns = at_ns,
                                .host = host,
                                .from = host,
                                .as.way = which};
        muster_sim_push(sim, &item);
    }
}

/* Something that happens to a parcel at its receiver's. */
static void push_parcel(muster_sim *sim, muster_sim_parcel *parcel,
                        muster_event_kind event, int64_t at_ns)
{
    muster_sim_item item = {.kind = MUSTER_SIM_ROLE,
                            .event = event,
                            .at_ns = at_ns,
                            .host = parcel->to,
                            .from = parcel->from,
                            .life = parcel->life,
                            .peer = parcel->peer,
                            .parcel = parcel};
    parcel->references++;
    muster_sim_push(sim, &item);
}

/* It will be whole at whole_ns, and begins to arrive before. */
static void begin_to_arrive(muster_sim *sim, muster_sim_parcel *parcel,
                            int64_t whole_ns)
{
    const muster_blob *payload = parcel->payload;
    if (sim->opts.begun_bytes == 0 || parcel->coming != NULL ||
        payload == NULL || payload->data == NULL ||
        payload->bytes < sim->opts.begun_bytes) {
        return;
    }
    parcel->coming = muster_blob_create(payload->bytes);
    MUSTER_ASSERT(parcel->coming != NULL);
    memset(parcel->coming->data, 0xff, payload->bytes); // no number
    muster_blob_set_missing(parcel->coming, payload->bytes);
    uint64_t ns = (uint64_t)(whole_ns - sim->now_ns);
    push_parcel(sim, parcel, MUSTER_EVENT_BEGUN,
                sim->now_ns + (int64_t)muster_rng_below(&sim->rng, ns + 1));
}

static void arrive(muster_sim *sim, muster_sim_parcel *parcel, int64_t at_ns)
{
    for (uint32_t copy = 0; copy < parcel->copies; copy++) {
        int64_t whole_ns =
            at_ns + muster_sim_delay_ns(sim, parcel->from, parcel->to);
        begin_to_arrive(sim, parcel, whole_ns);
        push_parcel(sim, parcel, MUSTER_EVENT_MESSAGE, whole_ns);
    }
    muster_sim_parcel_unref(sim, parcel);
}

static void push_sent(muster_sim *sim, const muster_sim_parcel *parcel,
                      muster_status status)
{
    if (parcel->token == 0) {
        return;
    }
    muster_sim_item item = {.kind = MUSTER_SIM_ROLE,
                            .event = MUSTER_EVENT_SENT,
                            .at_ns = sim->now_ns,
                            .host = parcel->from,
                            .from = parcel->from,
                            .life = parcel->from_life,
                            // The sender's side of the receiver's connection.
                            .peer = ((parcel->peer - 1) ^ 1) + 1,
                            .as.sent = {parcel->token, status}};
    muster_sim_push(sim, &item);
}

static void begin(muster_sim *sim, muster_sim_parcel *parcel);

/* It has passed both NICs: the next of its connection begins. */
static void passed(muster_sim *sim, muster_sim_parcel *parcel)
{
    unsigned side = 0;
    muster_sim_connection *connection =
        muster_sim_connection_of(sim, parcel->peer, &side);
    muster_sim_lane *lane = &connection->lanes[1 - side];
    MUSTER_ASSERT(lane->first == parcel);
    lane->first = parcel->next;
    if (lane->first != NULL) {
        begin(sim, lane->first);
    } else {
        lane->last = NULL;
    }
    push_sent(sim, parcel, MUSTER_OK);
    arrive(sim, parcel, sim->now_ns);
}

static void advance(muster_sim *sim, uint32_t host, uint32_t which);

/* It has passed one way. Perhaps it has passed the other one before. */
static void leave(muster_sim *sim, muster_sim_parcel *parcel, uint32_t which)
{
    uint32_t other = which == MUSTER_SIM_OUT ? parcel->to : parcel->from;
    parcel->ways = (uint8_t)(parcel->ways & ~(1u << which));
    if (parcel->ways == 0) {
        passed(sim, parcel);
        return;
    }
    parcel->references++;
    advance(sim, other, 1 - which);
    if (parcel->ways != 0) {
        schedule(sim, other, 1 - which);
    }
    muster_sim_parcel_unref(sim, parcel);
}

/* Bring a way up to now, and let go of what has passed it. That may begin what
 * comes next, here too: each turn of the loop looks at the way anew. */
static void advance(muster_sim *sim, uint32_t host, uint32_t which)
{
    muster_sim_way *way = &sim->processes[host].ways[which];
    double rate = rate_of(sim, host);
    while (way->flows.count > 0 && rate <= 0) { // the limit was taken away
        leave(sim, pop_flow(&way->flows), which);
    }
    while (way->flows.count > 0) {
        const muster_sim_flow *heap = way->flows.data;
        double share = rate / (double)way->flows.count;
        double grown = (double)(sim->now_ns - way->at_ns) * share;
        if (heap[0].end > way->served + grown + SLACK_BYTES) {
            way->served += grown;
            break;
        }
        double left = heap[0].end - way->served;
        way->at_ns += left > 0 ? (int64_t)(left / share) : 0;
        way->served = heap[0].end;
        leave(sim, pop_flow(&way->flows), which);
    }
    way->at_ns = sim->now_ns;
    if (way->flows.count == 0) {
        way->served = 0;
    }
}

/* A way takes a flow; false when it has no limit. */
static bool enter(muster_sim *sim, uint32_t host, uint32_t which,
                  muster_sim_parcel *parcel)
{
    if (rate_of(sim, host) <= 0) {
        return false;
    }
    advance(sim, host, which);
    muster_sim_way *way = &sim->processes[host].ways[which];
    if (way->flows.count == 0) {
        way->told_ns = sim->now_ns;
    }
    parcel->ways = (uint8_t)(parcel->ways | 1u << which);
    push_flow(&way->flows,
              (muster_sim_flow){.end = way->served + (double)parcel->bytes,
                                .order = sim->flows++,
                                .parcel = parcel});
    return true;
}

/* How many flows a host's way has. */
static size_t flows_of(const muster_sim *sim, uint32_t host, uint32_t which)
{
    return sim->processes[host].ways[which].flows.count;
}

/* The first of its lane begins to pass. */
static void begin(muster_sim *sim, muster_sim_parcel *parcel)
{
    parcel->references++;
    parcel->ways = 0;
    bool limited = enter(sim, parcel->from, MUSTER_SIM_OUT, parcel);
    limited |= enter(sim, parcel->to, MUSTER_SIM_IN, parcel);
    if (!limited) { // the limits were taken away while it waited
        passed(sim, parcel);
        muster_sim_parcel_unref(sim, parcel);
        return;
    }
    // Where more flows share it, it takes longer.
    bool in = (parcel->ways & 1u << MUSTER_SIM_IN) != 0 &&
              ((parcel->ways & 1u << MUSTER_SIM_OUT) == 0 ||
               flows_of(sim, parcel->to, MUSTER_SIM_IN) >=
                   flows_of(sim, parcel->from, MUSTER_SIM_OUT));
    schedule(sim, in ? parcel->to : parcel->from,
             in ? MUSTER_SIM_IN : MUSTER_SIM_OUT);
    muster_sim_parcel_unref(sim, parcel);
}

/* No payload: its bytes go between those of the flows, which wait for it. */
static int64_t slip_through(muster_sim *sim, uint32_t host, uint32_t which,
                            size_t bytes)
{
    double rate = rate_of(sim, host);
    if (rate <= 0) {
        return 0;
    }
    muster_sim_way *way = &sim->processes[host].ways[which];
    advance(sim, host, which);
    if (way->flows.count > 0) {
        way->served -= (double)bytes / (double)way->flows.count;
    }
    return (int64_t)((double)bytes / rate);
}

/* Behind what the lane has, or in the place of what waits with its slot. */
static void line_up(muster_sim *sim, muster_sim_lane *lane,
                    muster_sim_parcel *parcel)
{
    parcel->next = NULL;
    if (lane->first == NULL) {
        lane->first = lane->last = parcel;
        begin(sim, parcel);
        return;
    }
    muster_sim_parcel *before_it = lane->first;
    while (before_it->next != NULL &&
           (parcel->slot == 0 || before_it->next->slot != parcel->slot)) {
        before_it = before_it->next;
    }
    muster_sim_parcel *replaced = before_it->next;
    before_it->next = parcel;
    if (replaced != NULL) {
        parcel->next = replaced->next;
        push_sent(sim, replaced, MUSTER_ERR_CANCELLED);
        muster_sim_parcel_unref(sim, replaced);
    }
    lane->last = parcel->next == NULL ? parcel : lane->last;
}

void muster_sim_nic_send(muster_sim *sim, muster_sim_connection *connection,
                         unsigned side, const muster_action *action)
{
    muster_blob *payload = action->as.send.payload;
    muster_sim_parcel *parcel = muster_sim_parcel_make(
        sim, &action->as.send.message, muster_blob_ref(payload));
    size_t index =
        (size_t)(connection - (muster_sim_connection *)sim->connections.data);
    parcel->from = connection->host[side];
    parcel->to = connection->host[1 - side];
    parcel->peer = 2 * index + (1 - side) + 1;
    parcel->life = sim->processes[parcel->to].life;
    parcel->from_life = sim->processes[parcel->from].life;
    parcel->slot = (uint16_t)action->as.send.replace_slot;
    parcel->token = action->as.send.token;
    parcel->bytes = muster_message_bytes(&action->as.send.message) +
                    (payload != NULL ? payload->bytes : 0);
    bool twice = sim->opts.duplicate > 0 &&
                 muster_rng_uniform(&sim->rng) < sim->opts.duplicate;
    parcel->copies = twice ? 2 : 1;
    bool limited =
        rate_of(sim, parcel->from) > 0 || rate_of(sim, parcel->to) > 0;
    if (limited && payload != NULL) {
        line_up(sim, &connection->lanes[side], parcel);
        return;
    }
    int64_t out_ns =
        slip_through(sim, parcel->from, MUSTER_SIM_OUT, parcel->bytes);
    int64_t in_ns = slip_through(sim, parcel->to, MUSTER_SIM_IN, parcel->bytes);
    if (parcel->token != 0) {
        muster_sim_sent sent = {action->as.send.peer, parcel->token};
        MUSTER_ASSERT(muster_vec_append(&sim->sent, &sent, 1));
    }
    arrive(sim, parcel, sim->now_ns + (out_ns > in_ns ? out_ns : in_ns));
}

/* The peers of all that is still coming in are heard. */
static void tell_coming(muster_sim *sim, uint32_t host, muster_sim_way *way)
{
    way->told_ns = sim->now_ns;
    const muster_sim_flow *flows = way->flows.data;
    for (size_t i = 0; i < way->flows.count; i++) {
        muster_sim_item item = {.kind = MUSTER_SIM_ROLE,
                                .event = MUSTER_EVENT_HEARD,
                                .at_ns = sim->now_ns,
                                .host = host,
                                .from = flows[i].parcel->from,
                                .life = flows[i].parcel->life,
                                .peer = flows[i].parcel->peer};
        muster_sim_push(sim, &item);
    }
}

void muster_sim_nic_due(muster_sim *sim, const muster_sim_item *item)
{
    uint32_t which = item->as.way;
    muster_sim_way *way = &sim->processes[item->host].ways[which];
    if (way->due_ns != item->at_ns) {
        return; // another one is due earlier, and was not when this was made
    }
    way->due_ns = NEVER;
    advance(sim, item->host, which);
    if (which == MUSTER_SIM_IN && sim->now_ns - way->told_ns >= HEARD_NS) {
        tell_coming(sim, item->host, way);
    }
    schedule(sim, item->host, which);
}
