/*
 * ps_mesh.c -- see ps_mesh.h: the thread, what workers leave for it, and what
 * the protocol tells it. It is made and ended in ps_mesh_open.c, connections are
 * in ps_peers.c.
 *
 * Requests wait through the loss of other nodes when the run is to survive it
 * (ps_loss.h); otherwise, and when the lead is lost, every request under way or
 * yet to come ends with MUSTER_ERR_PEER_LOST.
 */
#define _GNU_SOURCE
#include "runtime/ps_mesh.h"

#include <string.h>
#include <time.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/log.h"
#include "base/mem.h"
#include "runtime/ps_mesh_inside.h"
#include "runtime/ps_wishes.h"

#define POLL_MAX_NS (200 * MUSTER_NS_PER_MS)
#define RETRY_NS    (20 * MUSTER_NS_PER_MS)
#define FAREWELL_NS (2 * MUSTER_NS_PER_S)
#define ROUND_NS    MUSTER_NS_PER_MS // between looks at workers' clocks

static void finish(muster_ps_call *call, muster_status status)
{
    call->outcome = status;
    (void)sem_post(&call->finished);
}

static void pass_barrier(muster_psmesh *mesh, muster_status status)
{
    muster_ps *ps = mesh->ps;
    (void)pthread_mutex_lock(&ps->barrier_lock);
    ps->barrier_passed++;
    ps->barrier_status = status;
    (void)pthread_cond_broadcast(&ps->barrier_cond);
    (void)pthread_mutex_unlock(&ps->barrier_lock);
}

void muster_psmesh_lose(muster_psmesh *mesh, uint16_t node, const char *reason)
{
    if (mesh->lost != 0) {
        return;
    }
    mesh->lost = (uint16_t)(node + 1);
    atomic_store(&mesh->over, true);
    if (reason != NULL) {
        muster_log(MUSTER_LOG_ERROR, "node %u is lost: %s", node, reason);
    }
    muster_ps_call **open = mesh->open.data;
    for (size_t i = 0; i < mesh->open.count; i++) {
        finish(open[i], MUSTER_ERR_PEER_LOST);
    }
    muster_vec_clear(&mesh->open);
    pass_barrier(mesh, MUSTER_ERR_PEER_LOST);
}

/* News of the members: tell, act. */
static void hear(muster_psmesh *mesh, const muster_psnews *news)
{
    const muster_psloss *loss = &mesh->ps->loss;
    const char *why = news->cause == MUSTER_PSCAUSE_SILENT
                          ? "nothing was heard of it for too long"
                          : "its connection ended";
    atomic_store(&mesh->members, muster_psnode_members(mesh->node));
    switch (news->kind) {
    case MUSTER_PSNEWS_LOST:
        muster_pspeers_forget(mesh, news->node, true);
        if (!loss->survive) {
            muster_psmesh_lose(mesh, news->node, why);
            return;
        }
        if (!atomic_load(&mesh->stop)) {
            muster_log(MUSTER_LOG_WARN, "node %u is lost: %s", news->node, why);
        }
        break;
    case MUSTER_PSNEWS_JOINED:
        muster_log(MUSTER_LOG_INFO, "node %u takes its place", news->node);
        break;
    case MUSTER_PSNEWS_RESUMED:
        muster_pspeers_tell_members(mesh);
        atomic_store(&mesh->entered, 1);
        break;
    case MUSTER_PSNEWS_LEADLESS:
        muster_psmesh_lose(mesh, 0, why);
        return;
    case MUSTER_PSNEWS_EXPELLED:
        muster_psmesh_lose(mesh, mesh->self,
                           "the others gave this node up after it stood "
                           "still; it ends");
        return;
    }
    if (loss->news != NULL && !atomic_load(&mesh->stop)) {
        loss->news(loss->context, news);
    }
}

static void take_out(muster_psmesh *mesh)
{
    const muster_psnode_send *sends = mesh->out.sends.data;
    for (size_t i = 0; i < mesh->out.sends.count; i++) {
        muster_pspeers_send(mesh, &sends[i]);
    }
    muster_vec_clear(&mesh->out.sends);
    muster_psreq **done = mesh->out.done.data;
    for (size_t i = 0; i < mesh->out.done.count; i++) {
        muster_ps_call *call = done[i]->context;
        muster_ps_call **open = mesh->open.data;
        for (size_t j = 0; j < mesh->open.count; j++) {
            if (open[j] == call) {
                open[j] = open[--mesh->open.count];
                finish(call, MUSTER_OK);
                break;
            }
        }
    }
    muster_vec_clear(&mesh->out.done);
    for (; mesh->released < mesh->out.released; mesh->released++) {
        atomic_store(&mesh->met, mesh->out.met);
        pass_barrier(mesh, MUSTER_OK);
    }
    for (size_t i = 0; i < mesh->out.news.count; i++) {
        muster_psnews news = ((muster_psnews *)mesh->out.news.data)[i];
        hear(mesh, &news);
    }
    muster_vec_clear(&mesh->out.news);
    atomic_store(&mesh->changing, muster_psnode_changing(mesh->node));
}

void muster_psmesh_stepped(muster_psmesh *mesh, muster_status status)
{
    if (status != MUSTER_OK) {
        muster_log(MUSTER_LOG_ERROR, "parameter server: %s",
                   muster_status_text(status));
        muster_psmesh_lose(mesh, mesh->self, muster_status_text(status));
    }
    take_out(mesh);
}

/* ---- workers ------------------------------------------------------------- */

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
            finish(taken[i], MUSTER_ERR_PEER_LOST);
            continue;
        }
        muster_psmesh_stepped(
            mesh, muster_psnode_request(mesh->node, muster_clock_ns(),
                                        &taken[i]->request, &mesh->out));
    }
    muster_vec_clear(&mesh->taken);
    if (barrier && mesh->lost != 0) {
        pass_barrier(mesh, MUSTER_ERR_PEER_LOST);
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

/* ---- for workers --------------------------------------------------------- */

void muster_psmesh_wake(muster_psmesh *mesh)
{
    if (atomic_exchange(&mesh->asleep, false)) {
        muster_net_wake(mesh->net);
    }
}

void muster_psmesh_submit(muster_psmesh *mesh, muster_ps_call *call)
{
    (void)pthread_mutex_lock(&mesh->lock);
    bool kept = muster_vec_append(&mesh->requests, &call, 1);
    (void)pthread_mutex_unlock(&mesh->lock);
    if (!kept) {
        finish(call, MUSTER_ERR_NO_MEMORY);
        return;
    }
    muster_psmesh_wake(mesh);
}

void muster_psmesh_barrier(muster_psmesh *mesh)
{
    (void)pthread_mutex_lock(&mesh->lock);
    mesh->barrier_asked = true;
    (void)pthread_mutex_unlock(&mesh->lock);
    muster_psmesh_wake(mesh);
}

bool muster_psmesh_is_over(const muster_psmesh *mesh)
{
    return atomic_load(&mesh->over);
}

muster_status muster_psmesh_join(muster_psmesh *mesh, muster_ps_worker *worker)
{
    (void)pthread_mutex_lock(&mesh->lock);
    bool kept = muster_vec_append(&mesh->workers, &worker, 1);
    (void)pthread_mutex_unlock(&mesh->lock);
    return kept ? MUSTER_OK : MUSTER_ERR_NO_MEMORY;
}

void muster_psmesh_leave(muster_psmesh *mesh, muster_ps_worker *worker)
{
    (void)pthread_mutex_lock(&mesh->lock);
    muster_ps_worker **workers = mesh->workers.data;
    for (size_t i = 0; i < mesh->workers.count; i++) {
        if (workers[i] == worker) {
            workers[i] = workers[--mesh->workers.count];
            break;
        }
    }
    if (worker->intents != NULL &&
        !muster_vec_append(&mesh->orphans, &worker->intents, 1)) {
        muster_intents_free(worker->intents); // rows stay; nobody is misled
    }
    worker->intents = NULL;
    (void)pthread_mutex_unlock(&mesh->lock);
    muster_psmesh_wake(mesh);
}

muster_psnode_counters muster_psmesh_count(muster_psmesh *mesh)
{
    (void)pthread_mutex_lock(&mesh->lock);
    muster_psnode_counters counters = mesh->counters;
    (void)pthread_mutex_unlock(&mesh->lock);
    return counters;
}

/* ---- losses -------------------------------------------------------------- */

void muster_ps_on_loss(muster_ps *ps, const muster_psloss *loss)
{
    ps->loss = *loss;
}

uint64_t muster_ps_met(const muster_ps *ps)
{
    return ps->mesh == NULL ? 1 : atomic_load(&ps->mesh->met);
}

uint64_t muster_ps_lost(const muster_ps *ps)
{
    uint64_t all =
        ps->opts.nodes == 64 ? UINT64_MAX : (1ull << ps->opts.nodes) - 1;
    return ps->mesh == NULL ? 0 : all & ~atomic_load(&ps->mesh->members);
}

bool muster_ps_admit(muster_ps *ps, uint32_t note)
{
    muster_psmesh *mesh = ps->mesh;
    uint64_t ready = mesh == NULL ? 0 : atomic_load(&mesh->ready);
    if (ready == 0) {
        return false;
    }
    uint32_t node = (uint32_t)__builtin_ctzll(ready);
    uint64_t asked = (uint64_t)note << 32 | (node + 1);
    const struct timespec nap = {.tv_nsec = MUSTER_NS_PER_MS};
    atomic_store(&mesh->admit, asked);
    muster_net_wake(mesh->net);
    // Once asked for it happens, or the node is lost: no waiting in between
    // may end with a node that comes in at the wrong moment.
    while (!atomic_load(&mesh->over) &&
           (atomic_load(&mesh->admit) != 0 || atomic_load(&mesh->changing))) {
        (void)nanosleep(&nap, NULL);
    }
    return (atomic_load(&mesh->members) >> node & 1) != 0;
}

uint32_t muster_ps_loss_note(const muster_ps *ps)
{
    return muster_psnode_note(ps->mesh->node);
}

void muster_ps_abandon(muster_ps *ps)
{
    if (ps->mesh != NULL) {
        atomic_store(&ps->mesh->quits, true);
    }
}
