/*
 * drive.c -- the driver of a mesh: what it does in one round, which thread it
 * is, and how it sleeps.
 *
 * The driver is the thread that holds drive_lock. It alone touches the net, the
 * protocol and mesh->driver. The network thread is the driver unless it sleeps:
 * it releases the lock only for that. A worker that has to wait for a call of
 * its own becomes the driver if the lock is free, so that neither its request
 * nor the answer passes through another thread. If the lock is taken, the
 * worker leaves its call in the inbox for the driver.
 *
 * Invariants
 *  1. When a thread releases drive_lock, whatever arrives at the net wakes the
 *     network thread: muster_net_settle() was called after the last poll. A
 *     worker that drives sleeps in muster_net_poll(), and what arrives then
 *     wakes it alone.
 *  2. The driver sets `asleep` before its last look at the inbox and the
 *     queues, whether it then sleeps or releases the lock. So a request is seen
 *     by that look, or its writer finds `asleep` set and wakes the driver.
 *  3. The network thread never sleeps longer than until the next thing is due.
 *     thread_sleeps_until_ns says until when it sleeps; a worker that releases
 *     drive_lock wakes it if that is too late.
 *  4. Calls that have ended are posted before the driver sleeps, and after it
 *     has released drive_lock. A worker that is posted earlier would find the
 *     lock taken by its next call, and so on for ever.
 *  5. A worker that waits, and so one that drives, holds no row in place: the
 *     protocol may wait for such a row (asserted in call.c).
 */
#define _GNU_SOURCE
#include "base/assert.h"
#include "base/clock.h"
#include "ps/node/localize_queue.h"
#include "ps/node/mesh_inside.h"

#define RETRY_NS  (20 * MUSTER_NS_PER_MS)
#define LEAVE_NS  (2 * MUSTER_NS_PER_S) // for other nodes to leave as well
#define CLOCKS_NS MUSTER_NS_PER_MS      // between looks at workers' clocks
// About what a sleep and a wake-up cost.
#define SPIN_NS          (50 * INT64_C(1000))
#define FAILED_SPINS_MAX 10u
// Between looks for tables that the protocol has not used since the last one.
#define BIAS_NS (4 * MUSTER_NS_PER_MS)
// With its bias a worker saves about an eighth of its time. So it is worth a
// revocation when the driver sleeps for longer than this many of them take.
#define BIAS_SLEEPS 8
#define SLEEPS_OLD  7 // of 8: what earlier sleeps count in their mean

/* ---- one round ----------------------------------------------------------- */

/* Calls out of the inbox into driver.taken; true: the node's workers have
 * entered a barrier, of the kind `until_out`. */
static bool empty_inbox(muster_mesh *mesh, muster_ps_until *until_out)
{
    (void)pthread_mutex_lock(&mesh->inbox_lock);
    muster_vec swap = mesh->inbox.requests;
    mesh->inbox.requests = mesh->driver.taken;
    mesh->driver.taken = swap;
    bool barrier = mesh->inbox.barrier_entered;
    mesh->inbox.barrier_entered = false;
    *until_out = mesh->inbox.until;
    (void)pthread_mutex_unlock(&mesh->inbox_lock);
    return barrier;
}

static void publish_counters(muster_mesh *mesh)
{
    (void)pthread_mutex_lock(&mesh->count_lock);
    mesh->counters.protocol = muster_protocol_count(mesh->driver.protocol);
    mesh->counters.sent_bytes = muster_net_count(mesh->net).bytes_sent;
    (void)pthread_mutex_unlock(&mesh->count_lock);
}

static void take_requests(muster_mesh *mesh)
{
    muster_mesh_driver *driver = &mesh->driver;
    muster_ps_until until;
    bool barrier = empty_inbox(mesh, &until);
    driver->at_barrier = driver->at_barrier || barrier;
    publish_counters(mesh);
    muster_ps_call **taken = driver->taken.data;
    for (size_t i = 0; i < driver->taken.count; i++) {
        if (driver->failed_node != 0 ||
            !muster_vec_append(&driver->under_way, &taken[i], 1)) {
            muster_mesh_end_call(mesh, taken[i], MUSTER_ERR_PEER_LOST);
            continue;
        }
        muster_mesh_apply_step(
            mesh, muster_protocol_request(driver->protocol, muster_clock_ns(),
                                          &taken[i]->request, &driver->out));
    }
    muster_vec_clear(&driver->taken);
    if (barrier && driver->failed_node != 0) {
        muster_mesh_pass_barrier(mesh, MUSTER_ERR_PEER_LOST);
    } else if (barrier) {
        muster_mesh_apply_step(
            mesh, muster_protocol_barrier(driver->protocol, muster_clock_ns(),
                                          until, &driver->out));
    }
}

static void apply_step(void *context, muster_status status)
{
    muster_mesh_apply_step(context, status);
}

bool muster_mesh_all_met(const muster_mesh *mesh)
{
    return mesh->ps->loss.joins || muster_mesh_peers_missing(mesh) == 0;
}

/* This node takes the place of a lost one and is not admitted yet. */
static bool is_joining(const muster_mesh *mesh)
{
    return mesh->ps->loss.joins && !atomic_load(&mesh->shared.entered);
}

/* Read the queues of all workers and run their intents; true: there was
 * something new, in a queue or in the inbox. */
static bool read_queues(muster_mesh *mesh, const muster_localize_reader *reader,
                        bool clocks_due, bool *intents_out)
{
    bool any = false;
    bool intents = false;
    (void)pthread_mutex_lock(&mesh->inbox_lock);
    muster_ps_worker **workers = mesh->inbox.workers.data;
    for (size_t i = 0; i < mesh->inbox.workers.count; i++) {
        any = muster_localize_queue_read(reader, workers[i]) || any;
        intents = muster_localize_run_intents(reader, workers[i], clocks_due) ||
                  intents;
    }
    muster_intents **orphaned = mesh->inbox.orphaned_intents.data;
    for (size_t i = 0; i < mesh->inbox.orphaned_intents.count; i++) {
        muster_localize_end_intents(reader, orphaned[i]);
    }
    muster_vec_clear(&mesh->inbox.orphaned_intents);
    any = any || mesh->inbox.requests.count > 0 || mesh->inbox.barrier_entered;
    (void)pthread_mutex_unlock(&mesh->inbox_lock);
    *intents_out = intents;
    return any;
}

/* The last look before a sleep: localize requests, and intents that are due.
 * True: there is something to do. */
static bool take_localize_requests(muster_mesh *mesh)
{
    muster_mesh_driver *driver = &mesh->driver;
    bool works = driver->failed_node == 0;
    muster_localize_reader reader = {.protocol =
                                         works ? driver->protocol : NULL,
                                     .out = &driver->out,
                                     .apply_step = apply_step,
                                     .context = mesh};
    MUSTER_ASSERT(driver->announced); // invariant 2
    driver->announced = false;
    if (!driver->static_localized && works && muster_mesh_all_met(mesh) &&
        !is_joining(mesh)) {
        driver->static_localized = true;
        muster_localize_set(&reader, &mesh->ps->replicated);
    }
    int64_t now = muster_clock_ns();
    bool clocks_due = now >= driver->clocks_due_ns;
    bool intents;
    bool any = read_queues(mesh, &reader, clocks_due, &intents);
    if (!intents) {
        driver->clocks_due_ns = INT64_MAX;
    } else if (clocks_due || driver->clocks_due_ns == INT64_MAX) {
        driver->clocks_due_ns = now + CLOCKS_NS;
    }
    return any;
}

/* The lead: admit a node that muster_ps_admit() asks for. */
static void admit_node(muster_mesh *mesh)
{
    uint64_t asked = atomic_load(&mesh->shared.admit);
    if (asked == 0 || mesh->driver.failed_node != 0) {
        return;
    }
    uint16_t node = (uint16_t)((asked & UINT16_MAX) - 1);
    muster_status status =
        muster_protocol_admit(mesh->driver.protocol, muster_clock_ns(), node,
                              (uint32_t)(asked >> 32), &mesh->driver.out);
    if (status != MUSTER_ERR_AGAIN) {
        atomic_fetch_and(&mesh->shared.join_ready, ~(1ull << node));
        muster_mesh_apply_step(mesh, status);
        atomic_store(&mesh->shared.admit, 0);
    }
}

/* Return tables that the protocol has not used lately to the only worker, which
 * then uses them without latches. Returns when the next look is due. */
static int64_t return_bias(muster_mesh *mesh, int64_t now)
{
    bool look = now >= mesh->driver.bias_due_ns;
    bool any_revoked = false;
    for (uint32_t i = 0; i < mesh->ps->table_count; i++) {
        muster_ps_table *table = mesh->ps->tables[i];
        if (look) {
            muster_ps_table_return_bias(table);
        }
        any_revoked = any_revoked || muster_ps_table_revoked_by_mesh(table);
    }
    mesh->driver.bias_due_ns = look ? now + BIAS_NS : mesh->driver.bias_due_ns;
    return any_revoked ? mesh->driver.bias_due_ns : INT64_MAX;
}

/* The network thread is about to sleep: return at once those tables whose next
 * revocation costs less than the sleep brings, by what both took of late. Rows
 * that nodes use in turns are waited for: a revocation would delay them. */
static void return_bias_to_sleep(muster_mesh *mesh)
{
    for (uint32_t i = 0; i < mesh->ps->table_count; i++) {
        muster_ps_table *table = mesh->ps->tables[i];
        if (!table->in_turns &&
            mesh->driver.mean_sleep_ns >= BIAS_SLEEPS * table->revoke_ns) {
            muster_ps_table_return_bias_now(table);
        }
    }
}

static int64_t smaller(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

/* How long the protocol and the connections need nothing, from `now` on. */
static int64_t idle_ns(muster_mesh *mesh, bool ticks, int64_t now)
{
    int64_t due =
        ticks ? muster_protocol_due_ns(mesh->driver.protocol) : INT64_MAX;
    int64_t wait = due > now ? due - now : 0; // it may be INT64_MIN
    wait = smaller(wait, atomic_load_explicit(&mesh->shared.sleep_max_ns,
                                              memory_order_relaxed));
    bool retries = !muster_mesh_all_met(mesh) ||
                   atomic_load(&mesh->shared.stop) || is_joining(mesh);
    return retries ? smaller(wait, RETRY_NS) : wait;
}

/* A round's first half: what workers left and what is due. Returns for how long
 * there will be nothing else, with `asleep` set. */
static int64_t prepare(muster_mesh *mesh)
{
    muster_mesh_driver *driver = &mesh->driver;
    driver->settled = false;
    muster_mesh_peers_connect(mesh);
    if (driver->links.unsent.count > 0 || driver->links.overfull != 0) {
        muster_mesh_peers_send_unsent(mesh);
    }
    take_requests(mesh);
    admit_node(mesh);
    int64_t now = muster_clock_ns();
    bool ticks = driver->failed_node == 0 && muster_mesh_all_met(mesh);
    if (ticks) {
        muster_mesh_apply_step(
            mesh, muster_protocol_tick(driver->protocol, now, &driver->out));
    }
    atomic_store(&mesh->shared.asleep, true); // before the last look
    driver->announced = true;
    int64_t wait = idle_ns(mesh, ticks, now);
    bool busy = take_localize_requests(mesh);
    int64_t bias_due = return_bias(mesh, now);
    wait = smaller(wait, driver->clocks_due_ns - now);
    wait = smaller(wait, bias_due - now);
    return busy || wait < 0 ? 0 : wait;
}

/* The second half: what has arrived, or arrives within `wait_ns`. */
static void receive(muster_mesh *mesh, int64_t wait_ns)
{
    // Invariant 4. Without a wait the list may be of this very round.
    MUSTER_ASSERT(wait_ns == 0 || mesh->driver.ended_calls == NULL);
    muster_status status = muster_net_poll(mesh->net, wait_ns);
    atomic_store(&mesh->shared.asleep, false);
    if (status < 0) {
        muster_mesh_apply_step(mesh, status);
    }
}

/* ---- sleeping ------------------------------------------------------------ */

/* Poll without sleeping, for no longer than a sleep would cost. For a driver
 * whose node computes nothing meanwhile, after sleeps that were short. True:
 * something arrived. After each spin that failed, twice as many short sleeps
 * have to come before the next one. */
static bool spin(muster_mesh *mesh, int64_t wait_ns)
{
    muster_mesh_driver *driver = &mesh->driver;
    uint64_t before = muster_net_count(mesh->net).messages_received;
    const muster_ps_call *ended_before = driver->ended_calls;
    int64_t end = muster_clock_ns() + SPIN_NS;
    if (driver->short_sleeps < 1u << driver->failed_spins ||
        wait_ns < SPIN_NS) {
        return false;
    }
    do {
        muster_status status = muster_net_poll(mesh->net, 0);
        if (status < 0) {
            muster_mesh_apply_step(mesh, status);
        }
        // A connection that ended is no message, but may end calls.
        if (status < 0 || !atomic_load(&mesh->shared.asleep) ||
            driver->ended_calls != ended_before ||
            muster_net_count(mesh->net).messages_received != before) {
            atomic_store(&mesh->shared.asleep, false);
            driver->failed_spins = 0;
            return true;
        }
    } while (muster_clock_ns() < end);
    driver->short_sleeps = 0;
    driver->failed_spins += driver->failed_spins < FAILED_SPINS_MAX;
    return false;
}

static void count_sleep(muster_mesh *mesh, int64_t slept_ns)
{
    mesh->driver.short_sleeps =
        slept_ns < SPIN_NS ? mesh->driver.short_sleeps + 1 : 0;
}

/* From now on what arrives wakes the network thread. Returns how long nothing
 * is due: `wait_ns`, or 0 when something has arrived. */
static int64_t settle(muster_mesh *mesh, int64_t wait_ns)
{
    int64_t settled_ns = muster_net_settle(mesh->net, wait_ns);
    MUSTER_ASSERT(settled_ns >= 0 && settled_ns <= wait_ns); // invariant 3
    mesh->driver.settled = true;
    return settled_ns;
}

static muster_ps_call *take_ended(muster_mesh *mesh)
{
    muster_ps_call *ended = mesh->driver.ended_calls;
    mesh->driver.ended_calls = NULL;
    return ended;
}

/* Wake the workers of calls that have ended. */
static void post(muster_ps_call *ended)
{
    while (ended != NULL) {
        muster_ps_call *call = ended;
        ended = call->next; // once posted, the call is its worker's again
        muster_worker_end_wait(call->worker->ps, call->worker->slot, call);
        (void)sem_post(&call->finished);
    }
}

/* Release drive_lock, then post the calls that have ended. */
static void stop_driving(muster_mesh *mesh)
{
    MUSTER_ASSERT(mesh->driver.settled && !mesh->driver.announced); // 1 and 2
    muster_ps_call *ended = take_ended(mesh);
    (void)pthread_mutex_unlock(&mesh->drive_lock);
    post(ended);
}

/* ---- the network thread -------------------------------------------------- */

/* Sleep without drive_lock. */
static void sleep_aside(muster_mesh *mesh, int64_t wait_ns)
{
    // Where workers drove lately, they will again. A message handled by a
    // worker thread does not wake the network thread then.
    uint64_t drives = atomic_load(&mesh->shared.drives);
    bool workers_drive = drives != mesh->driver.drives_seen;
    mesh->driver.drives_seen = drives;
    mesh->driver.thread_sleeps_until_ns = muster_clock_ns() + wait_ns;
    return_bias_to_sleep(mesh);
    stop_driving(mesh);
    int64_t start = muster_clock_ns();
    muster_status status = muster_net_wait(mesh->net, wait_ns, workers_drive);
    int64_t late_ns = muster_clock_ns() - start - wait_ns;
    (void)pthread_mutex_lock(&mesh->drive_lock);
    int64_t slept_ns = muster_clock_ns() - start;
    count_sleep(mesh, slept_ns);
    // Nothing arrived before, and the wait was not rounded up.
    if (late_ns >= 0 && !muster_net_waits_in_ms(mesh->net)) {
        muster_protocol_note_wake(mesh->driver.protocol, late_ns);
    }
    mesh->driver.mean_sleep_ns =
        (mesh->driver.mean_sleep_ns * SLEEPS_OLD + slept_ns) / 8;
    atomic_store(&mesh->shared.asleep, false);
    if (status < 0) {
        muster_mesh_apply_step(mesh, status);
    }
}

static void network_round(muster_mesh *mesh)
{
    int64_t wait_ns = prepare(mesh);
    if (mesh->driver.at_barrier && spin(mesh, wait_ns)) {
        return;
    }
    wait_ns = wait_ns > 0 ? settle(mesh, wait_ns) : 0;
    if (wait_ns > 0) {
        sleep_aside(mesh, wait_ns);
    } else {
        post(take_ended(mesh));
    }
    receive(mesh, 0);
}

/* Tell the other nodes that this one leaves, and serve them until they leave as
 * well: a node between the last barrier and its leave may need our rows. A node
 * that ends in the middle of the work does not wait. */
static void leave(muster_mesh *mesh)
{
    int64_t end = muster_clock_ns() + LEAVE_NS;
    muster_mesh_peers_send_leave(mesh);
    do {
        network_round(mesh);
    } while (mesh->driver.failed_node == 0 &&
             !atomic_load(&mesh->shared.quits) &&
             !muster_mesh_peers_all_left(mesh) && muster_clock_ns() < end);
}

void *muster_mesh_thread_run(void *argument)
{
    muster_mesh *mesh = argument;
    (void)pthread_setname_np(pthread_self(), "ps-network");
    (void)pthread_mutex_lock(&mesh->drive_lock);
    while (!atomic_load(&mesh->shared.stop)) {
        network_round(mesh);
    }
    leave(mesh);
    muster_ps_call *ended = take_ended(mesh);
    (void)pthread_mutex_unlock(
        &mesh->drive_lock); // no thread drives after this
    post(ended);
    return NULL;
}

/* ---- a worker that waits ------------------------------------------------- */

/* Drive until the call has ended; returns how long nothing else is due. */
static int64_t drive(muster_mesh *mesh, const muster_ps_call *call)
{
    for (;;) {
        int64_t wait_ns = prepare(mesh);
        if (call->ended) {
            return wait_ns;
        }
        post(take_ended(mesh));
        if (!spin(mesh, wait_ns)) {
            int64_t start = muster_clock_ns();
            receive(mesh, wait_ns);
            count_sleep(mesh, muster_clock_ns() - start);
        }
    }
}

bool muster_mesh_drive(muster_mesh *mesh, muster_ps_call *call)
{
    if (pthread_mutex_trylock(&mesh->drive_lock) != 0) {
        return false;
    }
    // The driver is awake: a thread that leaves something need not wake it.
    atomic_store(&mesh->shared.asleep, false);
    atomic_fetch_add_explicit(&mesh->shared.drives, 1, memory_order_relaxed);
    int64_t wait_ns = drive(mesh, call);
    // `asleep` is set and stands for the network thread from here on. If
    // something is due before that thread wakes by itself, wake it now.
    wait_ns = settle(mesh, wait_ns);
    if (wait_ns == 0 ||
        muster_clock_ns() + wait_ns < mesh->driver.thread_sleeps_until_ns) {
        muster_net_wake(mesh->net);
    }
    stop_driving(mesh);
    return true;
}
