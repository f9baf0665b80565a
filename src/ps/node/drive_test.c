/*
 * drive_test.c -- workers that drive the mesh while they wait for calls of
 * their own: that they do, that nothing is lost when they start and stop
 * driving, and that the network thread drives when they do not.
 *
 * Sleeps and heartbeats last an hour where nothing else says so: what no thread
 * is woken for never happens, and the alarm ends the test.
 */
#define _GNU_SOURCE
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>

#include <cmocka.h>

#include "base/clock.h"
#include "ps/node/mesh_inside.h"

#include "ps/node/node_test.h"

enum {
    KEYS = 60,
    WIDTH = 4,
    ROUNDS = 300,
    BATCH = 5,
    WORKERS = 3,
    PULLS = 500
};
enum { MEETINGS = 8000, MEETING_NS = 120000 };

#define HOUR_NS   (3600 * MUSTER_NS_PER_S)
#define HOUR_MS   3600000u
#define ALARM_S   240
#define FLIGHTS   3
#define TELLING_S 3 // of silence that must not come, in windows of 1 s

static void nap(void)
{
    const struct timespec ms = {.tv_nsec = MUSTER_NS_PER_MS};
    (void)nanosleep(&ms, NULL);
}

static uint64_t drives(const muster_ps *ps)
{
    return atomic_load(&ps->mesh->shared.drives);
}

static void sleep_long(const muster_ps *ps)
{
    atomic_store(&ps->mesh->shared.sleep_max_ns, HOUR_NS);
}

/* ---- all at once --------------------------------------------------------- */

typedef struct worker_thread {
    test_node *of;
    muster_ps_worker *worker;
    uint32_t number;
    pthread_t thread;
    int faults;
    double pushed; // the sum of all that it added
} worker_thread;

typedef struct flight {
    uint64_t handle;
    uint32_t keys[BATCH];
    float ones[BATCH * WIDTH];
} flight;

#define WORKER_CHECK(h, condition)                                           \
    do {                                                                     \
        if (!(condition)) {                                                  \
            fprintf(stderr, "line %d: worker %u of node %u: %s\n", __LINE__, \
                    (unsigned)(h)->number, (unsigned)(h)->of->node,          \
                    #condition);                                             \
            (h)->faults++;                                                   \
        }                                                                    \
    } while (0)

/* Some way to touch rows, most of which are elsewhere. */
static void touch(worker_thread *h, flight *f, uint32_t way)
{
    muster_ps_worker *w = h->worker;
    float seen[BATCH * WIDTH];
    float *row;
    switch (way) {
    case 0:
        WORKER_CHECK(h,
                     muster_ps_pull(w, 0, f->keys, BATCH, seen) == MUSTER_OK);
        break;
    case 1:
        WORKER_CHECK(h, muster_ps_push(w, 0, f->keys, BATCH, f->ones) ==
                            MUSTER_OK);
        h->pushed += BATCH * WIDTH;
        break;
    case 2:
        WORKER_CHECK(h, muster_ps_fetch(w, 0, f->keys, BATCH) == MUSTER_OK);
        break;
    case 3:
        WORKER_CHECK(h, muster_ps_begin(w, 0, f->keys[0], &row) == MUSTER_OK);
        row[0] += 1;
        WORKER_CHECK(h, muster_ps_end(w, 0, f->keys[0]) == MUSTER_OK);
        h->pushed += 1;
        break;
    case 4:
        WORKER_CHECK(h, muster_ps_localize(w, 0, f->keys, BATCH) == MUSTER_OK);
        break;
    default:
        WORKER_CHECK(h, muster_ps_push_start(w, 0, f->keys, BATCH, f->ones,
                                             &f->handle) == MUSTER_OK);
        h->pushed += BATCH * WIDTH;
        break;
    }
}

static void *work_on_rows(void *argument)
{
    worker_thread *h = argument;
    flight flights[FLIGHTS] = {{0}};
    uint32_t state = 100 * h->of->node + h->number + 1;
    for (int i = 0; i < FLIGHTS * BATCH * WIDTH; i++) {
        flights[i / (BATCH * WIDTH)].ones[i % (BATCH * WIDTH)] = 1;
    }
    for (int round = 0; round < ROUNDS; round++) {
        flight *f = &flights[test_draw(&state) % FLIGHTS];
        WORKER_CHECK(h, muster_ps_wait(h->worker, f->handle) == MUSTER_OK);
        f->handle = MUSTER_PS_DONE;
        for (int i = 0; i < BATCH; i++) {
            f->keys[i] = test_draw(&state) % KEYS;
        }
        touch(h, f, test_draw(&state) % 6);
    }
    for (int i = 0; i < FLIGHTS; i++) {
        WORKER_CHECK(h,
                     muster_ps_wait(h->worker, flights[i].handle) == MUSTER_OK);
    }
    return NULL;
}

/* Workers beside the node's own, which waits at no barrier meanwhile. */
static void work_together(test_node *n)
{
    double *pushed = n->of->argument; // [nodes]
    worker_thread workers[WORKERS] = {{0}};
    sleep_long(n->ps);
    for (uint32_t i = 0; i < WORKERS; i++) {
        worker_thread *h = &workers[i];
        *h = (worker_thread){.of = n, .number = i};
        TEST_NODE_CHECK(n, muster_ps_worker_create(n->ps, NULL, &h->worker) ==
                               MUSTER_OK);
        if (pthread_create(&h->thread, NULL, work_on_rows, h) != 0) {
            abort();
        }
    }
    for (uint32_t i = 0; i < WORKERS; i++) {
        (void)pthread_join(workers[i].thread, NULL);
        n->faults += workers[i].faults;
        pushed[n->node] += workers[i].pushed;
        muster_ps_worker_free(workers[i].worker);
    }
    TEST_NODE_CHECK(n, muster_ps_barrier(n->worker) == MUSTER_OK);
    double all = 0;
    for (uint32_t i = 0; i < n->of->nodes; i++) {
        all += pushed[i];
    }
    double sum = test_node_sum(n);
    TEST_NODE_CHECK(n, sum == all);
    TEST_NODE_CHECK(n, drives(n->ps) > 0);
}

static void many_workers_wait_at_once_and_none_for_ever(void **state)
{
    (void)state;
    for (uint32_t manage = 0; manage <= MUSTER_PS_CLASSIC; manage++) {
        double pushed[TEST_NODES_MAX] = {0};
        test_mesh mesh = {.nodes = 2 + manage % 2,
                          .manage = manage,
                          .keys = KEYS,
                          .width = WIDTH,
                          .heartbeat_ms = HOUR_MS,
                          .argument = pushed,
                          .life = work_together};
        assert_int_equal(test_mesh_run(&mesh), 0);
    }
}

/* ---- that a worker drives ------------------------------------------------ */

/* Synchronous calls, calls waited for later, and one that comes while a row is
 * held in place: the worker does not wait then. */
static void ask_alone(test_node *n)
{
    uint32_t far = 1 - n->node; // homes alternate between two nodes
    float seen[WIDTH];
    uint64_t handle;
    float *copy;
    float *row;
    if (n->node == 0) {
        TEST_NODE_CHECK(n, muster_ps_barrier(n->worker) == MUSTER_OK);
        return; // serves by its network thread alone
    }
    uint64_t before = drives(n->ps);
    TEST_NODE_CHECK(n, before == 0);
    for (int i = 0; i < PULLS; i++) {
        TEST_NODE_CHECK(n, muster_ps_pull(n->worker, 0, &far, 1, seen) ==
                               MUSTER_OK);
    }
    TEST_NODE_CHECK(n,
                    drives(n->ps) > before && drives(n->ps) <= before + PULLS);
    before = drives(n->ps);
    for (int i = 0; i < PULLS; i++) {
        TEST_NODE_CHECK(n, muster_ps_pull_start(n->worker, 0, &far, 1, seen,
                                                &handle) == MUSTER_OK);
        TEST_NODE_CHECK(n, muster_ps_wait(n->worker, handle) == MUSTER_OK);
    }
    TEST_NODE_CHECK(n, drives(n->ps) > before);
    TEST_NODE_CHECK(n, muster_ps_begin(n->worker, 0, far, &copy) == MUSTER_OK);
    TEST_NODE_CHECK(n, muster_ps_begin(n->worker, 0, n->node + 2, &row) ==
                           MUSTER_OK);
    before = drives(n->ps);
    TEST_NODE_CHECK(n, muster_ps_end(n->worker, 0, far) == MUSTER_ERR_AGAIN);
    TEST_NODE_CHECK(n, drives(n->ps) == before); // it holds a row
    TEST_NODE_CHECK(n, muster_ps_end(n->worker, 0, n->node + 2) == MUSTER_OK);
    TEST_NODE_CHECK(n, muster_ps_end(n->worker, 0, far) == MUSTER_OK);
    TEST_NODE_CHECK(n, muster_ps_barrier(n->worker) == MUSTER_OK);
}

static void a_worker_drives_when_it_waits(void **state)
{
    (void)state;
    test_mesh mesh = {.nodes = 2,
                      .manage = MUSTER_PS_CLASSIC,
                      .keys = KEYS,
                      .width = WIDTH,
                      .life = ask_alone};
    assert_int_equal(test_mesh_run(&mesh), 0);
}

/* Calls that come while the network thread, woken for nothing, is about to go
 * to sleep again: no other traffic would wake it for them. */
static void ask_while_the_thread_falls_asleep(test_node *n)
{
    uint32_t far = 1 - n->node;
    uint32_t state = 1;
    float seen[WIDTH];
    sleep_long(n->ps);
    TEST_NODE_CHECK(n, muster_ps_barrier(n->worker) == MUSTER_OK);
    for (int i = 0; i < MEETINGS && n->node == 1; i++) {
        int64_t end = muster_clock_ns() + test_draw(&state) % MEETING_NS;
        muster_net_wake(n->ps->mesh->net);
        while (muster_clock_ns() < end) {
        }
        TEST_NODE_CHECK(n, muster_ps_pull(n->worker, 0, &far, 1, seen) ==
                               MUSTER_OK);
    }
}

static void calls_that_meet_the_thread_at_work_are_seen(void **state)
{
    (void)state;
    test_mesh mesh = {.nodes = 2,
                      .manage = MUSTER_PS_CLASSIC,
                      .keys = KEYS,
                      .width = WIDTH,
                      .heartbeat_ms = HOUR_MS,
                      .life = ask_while_the_thread_falls_asleep};
    assert_int_equal(test_mesh_run(&mesh), 0);
}

/* ---- that the driver does not spin for long ------------------------------ */

enum { IDLE_MS = 300, IDLE_CALLS = 200 };

typedef struct resting {
    muster_ps *_Atomic waiting;
} resting;

/* System calls that the mesh of a node has made. */
static uint64_t calls_of(muster_ps *ps)
{
    (void)pthread_mutex_lock(&ps->mesh->drive_lock);
    uint64_t calls = muster_net_count(ps->mesh->net).syscalls;
    (void)pthread_mutex_unlock(&ps->mesh->drive_lock);
    return calls;
}

/* Node 0 waits at the barrier: first it is asked for rows all the time, then
 * for nothing. */
static void ask_then_rest(test_node *n)
{
    resting *r = n->of->argument;
    uint32_t far = 0;
    float seen[WIDTH];
    sleep_long(n->ps);
    if (n->node == 0) {
        atomic_store(&r->waiting, n->ps);
        return; // to the barrier that all meet at last
    }
    for (int i = 0; i < PULLS || atomic_load(&r->waiting) == NULL; i++) {
        TEST_NODE_CHECK(n, muster_ps_pull(n->worker, 0, &far, 1, seen) ==
                               MUSTER_OK);
    }
    uint64_t before = calls_of(atomic_load(&r->waiting));
    for (int i = 0; i < IDLE_MS; i++) {
        nap();
    }
    TEST_NODE_CHECK(n,
                    calls_of(atomic_load(&r->waiting)) - before < IDLE_CALLS);
}

static void a_driver_with_nothing_to_do_sleeps(void **state)
{
    (void)state;
    resting r = {NULL};
    test_mesh mesh = {.nodes = 2,
                      .manage = MUSTER_PS_CLASSIC,
                      .keys = KEYS,
                      .width = WIDTH,
                      .heartbeat_ms = HOUR_MS,
                      .argument = &r,
                      .life = ask_then_rest};
    assert_int_equal(test_mesh_run(&mesh), 0);
}

/* ---- what a driving worker leaves behind --------------------------------- */

/* Node 1 gets a replica while its worker drives, writes it, and does nothing
 * more; node 0, the owner, sees the change: the network thread sent it. */
static void change_a_copy(test_node *n)
{
    _Atomic uint32_t *seen_by_owner = n->of->argument;
    uint32_t key = 0;
    float row[WIDTH] = {1, 1, 1, 1};
    sleep_long(n->ps);
    // Its sleep of before was shorter: after this, it sleeps long.
    TEST_NODE_CHECK(n, muster_ps_barrier(n->worker) == MUSTER_OK);
    if (n->node == 1) {
        TEST_NODE_CHECK(n, muster_ps_fetch(n->worker, 0, &key, 1) == MUSTER_OK);
        TEST_NODE_CHECK(n, muster_ps_push(n->worker, 0, &key, 1, row) ==
                               MUSTER_OK);
    }
    while (n->node == 1 && atomic_load(seen_by_owner) == 0) {
        nap();
    }
    while (n->node == 0 && atomic_load(seen_by_owner) == 0) {
        TEST_NODE_CHECK(n, muster_ps_pull(n->worker, 0, &key, 1, row) ==
                               MUSTER_OK);
        atomic_store(seen_by_owner, row[0] > 0);
        nap();
    }
}

static void what_falls_due_after_a_worker_drove_is_done(void **state)
{
    (void)state;
    for (int i = 0; i < 20; i++) {
        _Atomic uint32_t seen_by_owner = 0;
        test_mesh mesh = {.nodes = 2,
                          .manage = MUSTER_PS_REPLICATE,
                          .keys = KEYS,
                          .width = WIDTH,
                          .heartbeat_ms = HOUR_MS,
                          .argument = &seen_by_owner,
                          .life = change_a_copy};
        assert_int_equal(test_mesh_run(&mesh), 0);
    }
}

/* Node 1's worker drives, then does something else for longer than the
 * heartbeat's window. */
static void drive_and_compute(test_node *n)
{
    uint32_t far = 1 - n->node;
    float seen[WIDTH];
    sleep_long(n->ps);
    for (int i = 0; i < PULLS; i++) {
        TEST_NODE_CHECK(n, muster_ps_pull(n->worker, 0, &far, 1, seen) ==
                               MUSTER_OK);
    }
    TEST_NODE_CHECK(n, drives(n->ps) > 0);
    int64_t end = muster_clock_ns() + TELLING_S * MUSTER_NS_PER_S;
    while (muster_clock_ns() < end) {
        nap();
        TEST_NODE_CHECK(n, muster_ps_lost_nodes(n->ps) == 0);
    }
}

static void a_node_is_heard_while_its_worker_computes(void **state)
{
    (void)state;
    test_mesh mesh = {.nodes = 2,
                      .manage = MUSTER_PS_CLASSIC,
                      .keys = KEYS,
                      .width = WIDTH,
                      .heartbeat_ms = 1000,
                      .survive = true,
                      .life = drive_and_compute};
    assert_int_equal(test_mesh_run(&mesh), 0);
}

/* ---- losses -------------------------------------------------------------- */

/* A process that is a node and nothing else, until the pipe's other end is
 * closed; made before this one has threads. */
static pid_t fork_node(test_mesh *mesh, uint32_t node, const int *lifeline)
{
    pid_t child = fork();
    assert_true(child >= 0);
    if (child > 0) {
        return child;
    }
    char byte;
    (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
    (void)alarm(ALARM_S);
    (void)close(lifeline[1]);
    test_node *n = &mesh->all[node];
    test_node_meet(n);
    if (n->faults > 0 || muster_ps_barrier(n->worker) != MUSTER_OK) {
        _exit(1);
    }
    ssize_t got = read(lifeline[0], &byte, 1);
    test_node_close(n);
    _exit(got == 0 ? 0 : 1);
}

typedef struct killing {
    const muster_ps *ps;
    uint64_t driven;
    pid_t victim;
} killing;

/* Kill once the worker drives, or after a while if it never does. */
static void *kill_it(void *argument)
{
    const killing *k = argument;
    for (int i = 0; i < 1000 && drives(k->ps) == k->driven; i++) {
        nap();
    }
    (void)kill(k->victim, SIGKILL);
    return NULL;
}

/* Node 0 asks the last node, which stands still, for a row; that one is killed
 * while the worker drives. Returns how the call ended. */
static muster_status ask_the_dying(test_mesh *mesh, float *seen)
{
    pid_t others[TEST_NODES_MAX] = {0};
    int lifeline[2];
    uint32_t last = mesh->nodes - 1;
    test_node *n = &mesh->all[0];
    pthread_t killer;
    assert_int_equal(test_mesh_place(mesh), 0);
    assert_int_equal(pipe(lifeline), 0);
    for (uint32_t i = 1; i < mesh->nodes; i++) {
        others[i] = fork_node(mesh, i, lifeline);
    }
    assert_int_equal(test_node_open(n), MUSTER_OK);
    assert_int_equal(muster_ps_barrier(n->worker), MUSTER_OK); // all have met
    for (int i = 0; i < PULLS; i++) {
        assert_int_equal(muster_ps_pull(n->worker, 0, &last, 1, seen),
                         MUSTER_OK);
    }
    assert_int_equal(kill(others[last], SIGSTOP), 0);
    assert_int_equal(waitpid(others[last], NULL, WUNTRACED), others[last]);
    killing k = {n->ps, drives(n->ps), others[last]};
    assert_true(k.driven > 0);
    assert_int_equal(pthread_create(&killer, NULL, kill_it, &k), 0);
    muster_status status = muster_ps_pull(n->worker, 0, &last, 1, seen);
    assert_int_equal(pthread_join(killer, NULL), 0);
    (void)close(lifeline[1]);
    test_node_close(n);
    for (uint32_t i = 1; i < mesh->nodes; i++) {
        int how = 0;
        assert_int_equal(waitpid(others[i], &how, 0), others[i]);
        assert_true(i == last ? WIFSIGNALED(how) : how == 0);
    }
    (void)close(lifeline[0]);
    assert_int_equal(test_mesh_clear(mesh), 0);
    return status;
}

static void a_driving_worker_learns_of_a_loss(void **state)
{
    (void)state;
    test_mesh mesh = {.nodes = 2,
                      .manage = MUSTER_PS_CLASSIC,
                      .keys = KEYS,
                      .width = WIDTH,
                      .heartbeat_ms = HOUR_MS};
    float seen[WIDTH];
    assert_int_equal(ask_the_dying(&mesh, seen), MUSTER_ERR_PEER_LOST);
}

static void a_driving_worker_waits_through_a_loss(void **state)
{
    (void)state;
    test_mesh mesh = {.nodes = 3,
                      .manage = MUSTER_PS_CLASSIC,
                      .keys = KEYS,
                      .width = WIDTH,
                      .survive = true};
    float seen[WIDTH] = {7, 7, 7, 7};
    assert_int_equal(ask_the_dying(&mesh, seen), MUSTER_OK);
    assert_true(seen[0] == 0); // the row began anew
}

int main(void)
{
    // Those that fork come first: they need a process without threads.
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_driving_worker_learns_of_a_loss),
        cmocka_unit_test(a_driving_worker_waits_through_a_loss),
        cmocka_unit_test(a_worker_drives_when_it_waits),
        cmocka_unit_test(calls_that_meet_the_thread_at_work_are_seen),
        cmocka_unit_test(a_driver_with_nothing_to_do_sleeps),
        cmocka_unit_test(many_workers_wait_at_once_and_none_for_ever),
        cmocka_unit_test(what_falls_due_after_a_worker_drove_is_done),
        cmocka_unit_test(a_node_is_heard_while_its_worker_computes),
    };
    (void)alarm(ALARM_S); // a hang is a failure
    return cmocka_run_group_tests(tests, NULL, NULL);
}
