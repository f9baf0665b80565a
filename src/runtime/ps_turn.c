/*
 * ps_turn.c -- the turns of a mesh: what workers left, what is due, what arrived;
 * and the thread that takes them.
 */
#define _GNU_SOURCE
#include "base/clock.h"
#include "runtime/ps_mesh_inside.h"
#include "runtime/ps_wishes.h"

#define POLL_MAX_NS (200 * MUSTER_NS_PER_MS)
#define RETRY_NS    (20 * MUSTER_NS_PER_MS)
#define FAREWELL_NS (2 * MUSTER_NS_PER_S)
#define ROUND_NS    MUSTER_NS_PER_MS // between looks at workers' clocks

static void take_requests(muster_psmesh *mesh)
{
    bool barrier;
    (void)pthread_mutex_lock(&mesh->lock);
    muster_vec swap = mesh->requests;
    mesh->requests = mesh->taken;
    mesh->taken = swap;
    barrier = mesh->barrier_asked;
    mesh->barrier_asked = false;
    mesh->counters = muster_psnode_count(mesh->node);
    (void)pthread_mutex_unlock(&mesh->lock);
    muster_ps_call **taken = mesh->taken.data;
    for (size_t i = 0; i < mesh->taken.count; i++) {
        if (mesh->lost != 0 || !muster_vec_append(&mesh->open, &taken[i], 1)) {
            muster_psmesh_finish(taken[i], MUSTER_ERR_PEER_LOST);
            continue;
        }
        muster_psmesh_stepped(
            mesh, muster_psnode_request(mesh->node, muster_clock_ns(),
                                        &taken[i]->request, &mesh->out));
    }
    muster_vec_clear(&mesh->taken);
    if (barrier && mesh->lost != 0) {
        muster_psmesh_pass(mesh, MUSTER_ERR_PEER_LOST);
    } else if (barrier) {
        muster_psmesh_stepped(
            mesh,
            muster_psnode_barrier(mesh->node, muster_clock_ns(), &mesh->out));
    }
}

static void stepped(void *context, muster_status status)
{
    muster_psmesh_stepped(context, status);
}

/* Have all met who were to meet? Before, nobody's silence means anything. */
bool muster_psmesh_met_all(const muster_psmesh *mesh)
{
    return mesh->ps->loss.joins ||
           atomic_load(&mesh->connected) + 1u >= mesh->nodes;
}

/* Wishes, and intents that are due; true when there was something. */
static bool take_wishes(muster_psmesh *mesh)
{
    muster_ps_reader_host host = {.node = mesh->lost == 0 ? mesh->node : NULL,
                                  .out = &mesh->out,
                                  .stepped = stepped,
                                  .context = mesh};
    if (!mesh->wished && mesh->lost == 0 && muster_psmesh_met_all(mesh) &&
        (!mesh->ps->loss.joins || atomic_load(&mesh->entered) != 0)) {
        mesh->wished = true;
        muster_ps_wish_all(&host, &mesh->ps->replicated);
    }
    bool any = false;
    bool intents = false;
    int64_t now = muster_clock_ns();
    bool round = now >= mesh->round_ns;
    (void)pthread_mutex_lock(&mesh->lock);
    muster_ps_worker **workers = mesh->workers.data;
    for (size_t i = 0; i < mesh->workers.count; i++) {
        any = muster_ps_wishes_read(&host, workers[i]) || any;
        intents = muster_ps_intents_act(&host, workers[i], round) || intents;
    }
    muster_intents **orphans = mesh->orphans.data;
    for (size_t i = 0; i < mesh->orphans.count; i++) {
        muster_ps_intents_end(&host, orphans[i]);
    }
    muster_vec_clear(&mesh->orphans);
    any = any || mesh->requests.count > 0 || mesh->barrier_asked;
    (void)pthread_mutex_unlock(&mesh->lock);
    if (!intents) {
        mesh->round_ns = INT64_MAX;
    } else if (round || mesh->round_ns == INT64_MAX) {
        mesh->round_ns = now + ROUND_NS;
    }
    return any;
}

/* The lead's host asks to take a node in. */
static void take_in(muster_psmesh *mesh)
{
    uint64_t asked = atomic_load(&mesh->admit);
    if (asked == 0 || mesh->lost != 0) {
        return;
    }
    uint16_t node = (uint16_t)((asked & UINT16_MAX) - 1);
    muster_status status =
        muster_psnode_admit(mesh->node, muster_clock_ns(), node,
                            (uint32_t)(asked >> 32), &mesh->out);
    if (status != MUSTER_ERR_AGAIN) {
        atomic_fetch_and(&mesh->ready, ~(1ull << node));
        muster_psmesh_stepped(mesh, status);
        atomic_store(&mesh->admit, 0);
    }
}

/* One turn of the thread: what workers left, what is due, what arrived. */
static void turn(muster_psmesh *mesh)
{
    muster_pspeers_connect(mesh);
    if (mesh->unsent.count > 0 || mesh->clogged != 0) {
        muster_pspeers_send_unsent(mesh);
    }
    take_requests(mesh);
    take_in(mesh);
    int64_t now = muster_clock_ns();
    if (mesh->lost == 0 && muster_psmesh_met_all(mesh)) {
        muster_psmesh_stepped(mesh,
                              muster_psnode_tick(mesh->node, now, &mesh->out));
    }
    // Announce the sleep, then look once more: a wish made in between either
    // is seen here or finds the announcement and wakes us.
    atomic_store(&mesh->asleep, true);
    int64_t due = muster_psnode_due_ns(mesh->node);
    int64_t wait = due > now ? due - now : 0; // it may be INT64_MIN
    wait = wait < POLL_MAX_NS ? wait : POLL_MAX_NS;
    bool restless = !muster_psmesh_met_all(mesh) || atomic_load(&mesh->stop) ||
                    (mesh->ps->loss.joins && atomic_load(&mesh->entered) == 0);
    wait = restless && wait > RETRY_NS ? RETRY_NS : wait;
    bool busy = take_wishes(mesh);
    wait = mesh->round_ns - now < wait ? mesh->round_ns - now : wait;
    wait = busy || wait < 0 ? 0 : wait;
    muster_status status = muster_net_poll(mesh->net, wait);
    atomic_store(&mesh->asleep, false);
    if (status < 0) {
        muster_psmesh_stepped(mesh, status);
    }
}

/* Let the others know that our end is no loss, and serve them until they go as
 * well: one that is still between barrier and farewell may need our rows. In
 * the middle of the work nobody is waited for. */
static void take_leave(muster_psmesh *mesh)
{
    int64_t end = muster_clock_ns() + FAREWELL_NS;
    muster_pspeers_part(mesh);
    do {
        turn(mesh);
    } while (mesh->lost == 0 && !atomic_load(&mesh->quits) &&
             !muster_pspeers_parted(mesh) && muster_clock_ns() < end);
}

void *muster_psmesh_serve(void *argument)
{
    muster_psmesh *mesh = argument;
    while (!atomic_load(&mesh->stop)) {
        turn(mesh);
    }
    take_leave(mesh);
    return NULL;
}
