/*
 * drive.c -- the turns of a mesh: what workers left, what is due, what arrived;
 * and who takes them.
 *
 * Whoever holds `turn` drives the mesh: net, protocol and all that is not for
 * any thread are theirs. That is the network thread, which opens the lock only
 * while it sleeps, or a worker that has to wait for a call of its own and finds
 * the lock open: so neither its request nor the answer passes through another
 * thread. A worker that finds it locked leaves its call to who drives.
 *
 * Invariants
 *  1. Somebody sleeps on the net at all times, or holds the lock, or waits for
 *     it: a worker that drives sleeps in muster_net_poll(), and what comes then
 *     wakes it alone; before it opens the lock, muster_net_settle() turns what
 *     comes to the network thread again, which sleeps in muster_net_wait() or
 *     waits for the lock because its time was up.
 *  2. `asleep` is announced before the last look at what workers left, by
 *     whoever goes to sleep or lets go. So something left is seen by that look,
 *     or its writer finds the announcement and wakes who sleeps.
 *  3. The network thread never sleeps beyond what is due: `sleeps_until_ns` is
 *     for how long it does, and a worker that lets go wakes it if that is late.
 *  4. Calls that ended are told before a sleep, and by who opens the lock after
 *     that: a worker told before would find the lock closed for its next call,
 *     and so on for ever.
 *  5. A worker that waits, and so one that drives, holds no row in place: the
 *     protocol may wait for those.
 */
#include "base/clock.h"
#include "ps/node/localize_queue.h"
#include "ps/node/mesh_inside.h"

#define RETRY_NS    (20 * MUSTER_NS_PER_MS)
#define FAREWELL_NS (2 * MUSTER_NS_PER_S)
#define ROUND_NS    MUSTER_NS_PER_MS // between looks at workers' clocks
// about what a sleep and a wake-up cost
#define LINGER_NS (50 * INT64_C(1000))
#define VAIN_MAX  10u
#define REST_NS \
    (4 * MUSTER_NS_PER_MS) // between looks for tables not used since the last

static void take_requests(muster_mesh *mesh)
{
    bool barrier;
    (void)pthread_mutex_lock(&mesh->lock);
    muster_vec swap = mesh->requests;
    mesh->requests = mesh->taken;
    mesh->taken = swap;
    barrier = mesh->barrier_asked;
    mesh->barrier_asked = false;
    (void)pthread_mutex_unlock(&mesh->lock);
    mesh->at_barrier = mesh->at_barrier || barrier;
    (void)pthread_mutex_lock(&mesh->count_lock);
    mesh->counters = muster_protocol_count(mesh->node);
    (void)pthread_mutex_unlock(&mesh->count_lock);
    muster_ps_call **taken = mesh->taken.data;
    for (size_t i = 0; i < mesh->taken.count; i++) {
        if (mesh->lost != 0 || !muster_vec_append(&mesh->open, &taken[i], 1)) {
            muster_mesh_end_call(mesh, taken[i], MUSTER_ERR_PEER_LOST);
            continue;
        }
        muster_mesh_apply_step(
            mesh, muster_protocol_request(mesh->node, muster_clock_ns(),
                                          &taken[i]->request, &mesh->out));
    }
    muster_vec_clear(&mesh->taken);
    if (barrier && mesh->lost != 0) {
        muster_mesh_pass_barrier(mesh, MUSTER_ERR_PEER_LOST);
    } else if (barrier) {
        muster_mesh_apply_step(
            mesh,
            muster_protocol_barrier(mesh->node, muster_clock_ns(), &mesh->out));
    }
}

static void stepped(void *context, muster_status status)
{
    muster_mesh_apply_step(context, status);
}

/* Have all met who were to meet? Before, nobody's silence means anything. */
bool muster_mesh_all_met(const muster_mesh *mesh)
{
    return mesh->ps->loss.joins || muster_mesh_peers_missing(mesh) == 0;
}

/* Wishes, and intents that are due; true when there was something. */
static bool take_wishes(muster_mesh *mesh)
{
    muster_localize_reader host = {.node = mesh->lost == 0 ? mesh->node : NULL,
                                   .out = &mesh->out,
                                   .stepped = stepped,
                                   .context = mesh};
    if (!mesh->wished && mesh->lost == 0 && muster_mesh_all_met(mesh) &&
        (!mesh->ps->loss.joins || atomic_load(&mesh->entered) != 0)) {
        mesh->wished = true;
        muster_localize_set(&host, &mesh->ps->replicated);
    }
    bool any = false;
    bool intents = false;
    int64_t now = muster_clock_ns();
    bool round = now >= mesh->round_ns;
    (void)pthread_mutex_lock(&mesh->lock);
    muster_ps_worker **workers = mesh->workers.data;
    for (size_t i = 0; i < mesh->workers.count; i++) {
        any = muster_localize_queue_read(&host, workers[i]) || any;
        intents =
            muster_localize_run_intents(&host, workers[i], round) || intents;
    }
    muster_intents **orphans = mesh->orphans.data;
    for (size_t i = 0; i < mesh->orphans.count; i++) {
        muster_localize_end_intents(&host, orphans[i]);
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
static void take_in(muster_mesh *mesh)
{
    uint64_t asked = atomic_load(&mesh->admit);
    if (asked == 0 || mesh->lost != 0) {
        return;
    }
    uint16_t node = (uint16_t)((asked & UINT16_MAX) - 1);
    muster_status status =
        muster_protocol_admit(mesh->node, muster_clock_ns(), node,
                              (uint32_t)(asked >> 32), &mesh->out);
    if (status != MUSTER_ERR_AGAIN) {
        atomic_fetch_and(&mesh->ready, ~(1ull << node));
        muster_mesh_apply_step(mesh, status);
        atomic_store(&mesh->admit, 0);
    }
}

/* Tables that nobody else asks about are left to the only worker. Returns when
 * there is to be another look. */
static int64_t let_tables_rest(muster_mesh *mesh, int64_t now)
{
    bool look = now >= mesh->rest_ns;
    bool restless = false;
    for (uint32_t i = 0; i < mesh->ps->table_count; i++) {
        muster_ps_table *table = mesh->ps->tables[i];
        if (look) {
            muster_ps_table_return_bias(table);
        }
        restless = restless || muster_ps_table_revoked_by_mesh(table);
    }
    mesh->rest_ns = look ? now + REST_NS : mesh->rest_ns;
    return restless ? mesh->rest_ns : INT64_MAX;
}

/* A turn's first half: what workers left and what is due. Returns for how long
 * there will be nothing else, and has announced a sleep by then. */
static int64_t prepare(muster_mesh *mesh)
{
    muster_mesh_peers_connect(mesh);
    if (mesh->unsent.count > 0 || mesh->clogged != 0) {
        muster_mesh_peers_send_unsent(mesh);
    }
    take_requests(mesh);
    take_in(mesh);
    int64_t now = muster_clock_ns();
    bool ticks = mesh->lost == 0 && muster_mesh_all_met(mesh);
    if (ticks) {
        muster_mesh_apply_step(
            mesh, muster_protocol_tick(mesh->node, now, &mesh->out));
    }
    // Announce the sleep, then look once more: a wish made in between either
    // is seen here or finds the announcement and wakes us.
    atomic_store(&mesh->asleep, true);
    int64_t due = ticks ? muster_protocol_due_ns(mesh->node) : INT64_MAX;
    int64_t wait = due > now ? due - now : 0; // it may be INT64_MIN
    int64_t nap =
        atomic_load_explicit(&mesh->sleep_max_ns, memory_order_relaxed);
    wait = wait < nap ? wait : nap;
    bool restless = !muster_mesh_all_met(mesh) || atomic_load(&mesh->stop) ||
                    (mesh->ps->loss.joins && atomic_load(&mesh->entered) == 0);
    wait = restless && wait > RETRY_NS ? RETRY_NS : wait;
    bool busy = take_wishes(mesh);
    int64_t rest = let_tables_rest(mesh, now);
    wait = mesh->round_ns - now < wait ? mesh->round_ns - now : wait;
    wait = rest - now < wait ? rest - now : wait;
    return busy || wait < 0 ? 0 : wait;
}

/* The second half: what arrived, or arrives within `wait_ns`. */
static void receive(muster_mesh *mesh, int64_t wait_ns)
{
    muster_status status = muster_net_poll(mesh->net, wait_ns);
    atomic_store(&mesh->asleep, false);
    if (status < 0) {
        muster_mesh_apply_step(mesh, status);
    }
}

/* Where nobody of this node computes and sleeps were short of late, so that the
 * next may be: look for what comes without sleeping, for no longer than a sleep
 * would cost. True: something is there. Each time that this was in
 * failed_spins, twice as many short sleeps have to come before the next try. */
static bool linger(muster_mesh *mesh, int64_t wait_ns)
{
    uint64_t before = muster_net_count(mesh->net).messages_received;
    int64_t end = muster_clock_ns() + LINGER_NS;
    if (mesh->short_sleeps < 1u << mesh->failed_spins || wait_ns < LINGER_NS) {
        return false;
    }
    do {
        muster_status status = muster_net_poll(mesh->net, 0);
        if (status < 0) {
            muster_mesh_apply_step(mesh, status);
        }
        if (status < 0 || !atomic_load(&mesh->asleep) ||
            muster_net_count(mesh->net).messages_received != before) {
            atomic_store(&mesh->asleep, false);
            mesh->failed_spins = 0;
            return true;
        }
    } while (muster_clock_ns() < end);
    mesh->short_sleeps = 0;
    mesh->failed_spins += mesh->failed_spins < VAIN_MAX;
    return false;
}

static void note_sleep(muster_mesh *mesh, int64_t slept_ns)
{
    mesh->short_sleeps = slept_ns < LINGER_NS ? mesh->short_sleeps + 1 : 0;
}

/* The calls that have ended, to be told once the lock is open. */
static muster_ps_call *take_ended(muster_mesh *mesh)
{
    muster_ps_call *ended = mesh->ended;
    mesh->ended = NULL;
    return ended;
}

static void tell(muster_ps_call *ended)
{
    while (ended != NULL) {
        muster_ps_call *call = ended;
        ended = call->next; // told, it is its worker's again
        (void)sem_post(&call->finished);
    }
}

/* ---- the network thread -------------------------------------------------- */

/* One turn; the lock is open while there is nothing to do. */
static void turn(muster_mesh *mesh)
{
    int64_t wait = prepare(mesh);
    if (mesh->at_barrier && linger(mesh, wait)) {
        return;
    }
    wait = wait > 0 ? muster_net_settle(mesh->net, wait) : 0;
    muster_ps_call *ended = take_ended(mesh);
    if (wait > 0) {
        // Where workers drove of late, let them: what they take wakes us not.
        uint64_t driven = atomic_load(&mesh->driven);
        bool aside = driven != mesh->driven_before;
        mesh->driven_before = driven;
        mesh->sleeps_until_ns = muster_clock_ns() + wait;
        (void)pthread_mutex_unlock(&mesh->turn);
        tell(ended);
        int64_t start = muster_clock_ns();
        muster_status status = muster_net_wait(mesh->net, wait, aside);
        (void)pthread_mutex_lock(&mesh->turn);
        note_sleep(mesh, muster_clock_ns() - start);
        atomic_store(&mesh->asleep, false);
        if (status < 0) {
            muster_mesh_apply_step(mesh, status);
        }
    } else {
        tell(ended);
    }
    receive(mesh, 0);
}

/* Let the others know that our end is no loss, and serve them until they go as
 * well: one that is still between barrier and farewell may need our rows. In
 * the middle of the work nobody is waited for. */
static void take_leave(muster_mesh *mesh)
{
    int64_t end = muster_clock_ns() + FAREWELL_NS;
    muster_mesh_peers_send_leave(mesh);
    do {
        turn(mesh);
    } while (mesh->lost == 0 && !atomic_load(&mesh->quits) &&
             !muster_mesh_peers_all_left(mesh) && muster_clock_ns() < end);
}

void *muster_mesh_thread_run(void *argument)
{
    muster_mesh *mesh = argument;
    (void)pthread_mutex_lock(&mesh->turn);
    while (!atomic_load(&mesh->stop)) {
        turn(mesh);
    }
    take_leave(mesh);
    muster_ps_call *ended = take_ended(mesh);
    (void)pthread_mutex_unlock(&mesh->turn);
    tell(ended);
    return NULL;
}

/* ---- a worker that waits ------------------------------------------------- */

/* Take turns until the call has ended; how long nothing else is due then. */
static int64_t drive(muster_mesh *mesh, muster_ps_call *call)
{
    for (;;) {
        int64_t wait = prepare(mesh);
        if (call->ended) {
            return wait;
        }
        tell(take_ended(mesh));
        if (!linger(mesh, wait)) {
            int64_t start = muster_clock_ns();
            receive(mesh, wait);
            note_sleep(mesh, muster_clock_ns() - start);
        }
    }
}

bool muster_mesh_drive(muster_mesh *mesh, muster_ps_call *call)
{
    if (pthread_mutex_trylock(&mesh->turn) != 0) {
        return false;
    }
    // Nobody needs to be woken any more by those who leave us something.
    atomic_store(&mesh->asleep, false);
    atomic_fetch_add_explicit(&mesh->driven, 1, memory_order_relaxed);
    int64_t wait = drive(mesh, call);
    // From here on what comes wakes the thread, and the announcement stands
    // for its sleep; but for what is due earlier it must be woken now.
    wait = muster_net_settle(mesh->net, wait);
    if (wait == 0 || muster_clock_ns() + wait < mesh->sleeps_until_ns) {
        muster_net_wake(mesh->net);
    }
    muster_ps_call *ended = take_ended(mesh);
    (void)pthread_mutex_unlock(&mesh->turn);
    tell(ended);
    return true;
}
