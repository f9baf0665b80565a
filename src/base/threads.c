/*
 * threads.c -- see threads.h.
 *
 * One word, the gate, says whether a run is open and how many threads are in
 * it. A run is open from its start until the caller finds no number left; a
 * thread that wakes later finds it closed and sleeps on, so that nobody waits
 * for it. Threads join and leave by changing the gate, without a lock: sixteen
 * that take turns at one would need as long as a product of a small layer.
 * Threads look for a new run for a while before they sleep: runs come one right
 * after another, and waking up takes longer still. In a run that is under way
 * they look for longer: threads do not end together, and the next run follows
 * the last of them. But a task may take minutes, so both have an end; the
 * caller, too, then sleeps, until the last thread has left its run. A run of
 * short parts is for those who are awake.
 *
 *     gate:  runs so far (24 bits) | open (1) | threads in the run (7)
 *
 * Invariants
 *   1. `task`, `context` and `count` change only while no run is open and
 *      nobody is in it.
 *   2. A thread joins each run at most once. It may miss one.
 *   3. Who is about to sleep says so before the system looks at the gate; who
 *      opens the gate, or leaves a run as the last one, looks for sleepers
 *      afterwards.
 */
#define _GNU_SOURCE
#include "base/threads.h"

#include <limits.h>
#include <linux/futex.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/assert.h"
#include "base/clock.h"
#include "base/mem.h"

/* How long a thread looks before it sleeps: at first it does nothing else, for
 * the time of a loop that one thread does alone; then it lets others have the
 * processor each time, for as long as a system may need to wake sixteen. */
#define LOOKS_UNTIMED 16u // without a clock
#define LOOK_FAST_NS  50000
#define LOOK_NS       1000000
/* And in a run that is under way: a piece of a job takes 5 to 10 ms. */
#define LOOK_RUN_NS 10000000
/* Who gives way has about a tenth of a processor that others want too. */
#define YIELD_NICE 10
/* Work of a part: less is not worth a thread that is awake, or its waking. Work
 * is told for data in the thread's own cache; what another thread has left in
 * its cache takes three to five times as long. */
#define PART_US 2.5
#define WAKE_US 40.0

#define GATE_ACTIVE 0x7fu // threads in the run
#define GATE_OPEN   0x80u
#define GATE_RUN    0x100u // one run more

_Static_assert(MUSTER_THREADS_MAX <= GATE_ACTIVE, "threads fit the gate");

struct muster_threads {
    pthread_t threads[MUSTER_THREADS_MAX];
    uint32_t started;  // of them: all but the caller
    bool yields;       // threads but the caller give way to others
    cpu_set_t allowed; // processors of the program
    uint32_t processors;
    bool is_placed; // each thread on a group of them; see keep_apart()
    uint32_t caller_group;
    uint32_t groups[MUSTER_THREADS_MAX];
    muster_threads_task task;
    void *context;
    uint32_t count;
    _Atomic bool is_ending;
    _Atomic uint32_t sleepers; // threads that wait for a run
    _Alignas(64) _Atomic uint32_t gate;
    _Atomic bool is_caller_asleep; // beside the gate: who leaves has that line
    _Alignas(64) _Atomic uint32_t next; // the number to take
};

uint32_t muster_threads_here(void)
{
    cpu_set_t here;
    int count = 0;
    if (sched_getaffinity(0, sizeof(here), &here) == 0) {
        count = CPU_COUNT(&here);
    }
    uint32_t some = count > 0 ? (uint32_t)count : 1;
    return some < MUSTER_THREADS_MAX ? some : MUSTER_THREADS_MAX;
}

static void work(muster_threads *pool)
{
    for (;;) {
        uint32_t index =
            atomic_fetch_add_explicit(&pool->next, 1, memory_order_relaxed);
        if (index >= pool->count) {
            return;
        }
        pool->task(pool->context, index);
    }
}

/* Somebody who looks for a change. */
typedef struct watcher {
    uint32_t looks;
    int64_t since_ns;
    int64_t run_ns; // looked in runs, which since_ns leaves out
} watcher;

/* Between two looks; false: it has been long enough. Time in a run that is
 * under way does not count, up to LOOK_RUN_NS. */
static bool look_on(watcher *w, bool is_in_run)
{
#if defined(__x86_64__)
    __builtin_ia32_pause();
#endif
    if (++w->looks % LOOKS_UNTIMED != 0) {
        return true;
    }
    int64_t now_ns = muster_clock_ns();
    w->since_ns = w->since_ns != 0 ? w->since_ns : now_ns;
    int64_t beyond_ns = now_ns - w->since_ns - LOOK_FAST_NS;
    if (is_in_run && beyond_ns > 0 && w->run_ns < LOOK_RUN_NS) {
        w->run_ns += beyond_ns;
        w->since_ns += beyond_ns;
    }
    if (now_ns - w->since_ns >= LOOK_FAST_NS) {
        w->looks--; // the clock each time from now on
        (void)sched_yield();
    }
    return now_ns - w->since_ns < LOOK_NS;
}

/* What a sleeper waits for; bits. */
typedef enum waking { A_RUN = 1, END_OF_RUN = 2 } waking;

/* Sleep while the gate is `seen`; may return at any time. */
static void sleep_while(muster_threads *pool, uint32_t seen, waking what)
{
    (void)syscall(SYS_futex, &pool->gate, FUTEX_WAIT_BITSET_PRIVATE, seen, NULL,
                  NULL, what);
}

static void wake(muster_threads *pool, int count, waking what)
{
    (void)syscall(SYS_futex, &pool->gate, FUTEX_WAKE_BITSET_PRIVATE, count,
                  NULL, NULL, what);
}

static bool is_running(uint32_t gate)
{
    return (gate & (GATE_OPEN | GATE_ACTIVE)) != 0;
}

static bool is_new(uint32_t gate, uint32_t seen)
{
    return (gate & GATE_OPEN) != 0 && gate / GATE_RUN != seen;
}

/* Wait for a run after run `seen`; true: joined, *seen_inout is its number. */
static bool join(muster_threads *pool, uint32_t *seen_inout)
{
    watcher self = {0};
    uint32_t gate = atomic_load(&pool->gate);
    while (!atomic_load(&pool->is_ending)) {
        if (is_new(gate, *seen_inout)) {
            if (atomic_compare_exchange_weak(&pool->gate, &gate, gate + 1)) {
                *seen_inout = gate / GATE_RUN;
                return true;
            }
            continue;
        }
        if (!look_on(&self, is_running(gate))) {
            atomic_fetch_add(&pool->sleepers, 1);
            sleep_while(pool, gate, A_RUN);
            atomic_fetch_sub(&pool->sleepers, 1);
        }
        gate = atomic_load(&pool->gate);
    }
    return false;
}

static void leave(muster_threads *pool)
{
    uint32_t gate = atomic_fetch_sub(&pool->gate, 1) - 1;
    if (!is_running(gate) && atomic_load(&pool->is_caller_asleep)) {
        wake(pool, 1, END_OF_RUN);
    }
}

/* On Linux a priority is a thread's own. A thread that may not have a lower
 * one does its work all the same. */
void muster_threads_give_way(void)
{
    int now = getpriority(PRIO_PROCESS, 0);
    (void)setpriority(PRIO_PROCESS, 0, now + YIELD_NICE);
}

static void *serve(void *argument)
{
    muster_threads *pool = argument;
    uint32_t seen = 0;
    if (pool->yields) {
        muster_threads_give_way();
    }
    while (join(pool, &seen)) {
        work(pool);
        leave(pool);
    }
    return NULL;
}

/* Signals are the program's own threads' business. */
static bool start_thread(muster_threads *pool)
{
    sigset_t all;
    sigset_t before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    bool is_started =
        pthread_create(&pool->threads[pool->started], NULL, serve, pool) == 0;
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    pool->started += is_started;
    return is_started;
}

static muster_status make(uint32_t threads, bool yields,
                          muster_threads **pool_out)
{
    MUSTER_ASSERT(threads > 0 && threads <= MUSTER_THREADS_MAX);
    muster_threads *pool = muster_mem_raw_aligned(1, sizeof(*pool));
    if (pool == NULL) {
        return MUSTER_ERR_NO_MEMORY;
    }
    memset(pool, 0, sizeof(*pool));
    pool->yields = yields;
    if (sched_getaffinity(0, sizeof(pool->allowed), &pool->allowed) == 0) {
        pool->processors = (uint32_t)CPU_COUNT(&pool->allowed);
    }
    while (pool->started + 1 < threads) {
        if (!start_thread(pool)) {
            muster_threads_free(pool);
            return MUSTER_ERR_NO_MEMORY;
        }
    }
    *pool_out = pool;
    return MUSTER_OK;
}

muster_status muster_threads_create(uint32_t threads, muster_threads **pool_out)
{
    return make(threads, false, pool_out);
}

muster_status muster_threads_create_yielding(uint32_t threads,
                                             muster_threads **pool_out)
{
    return make(threads, true, pool_out);
}

void muster_threads_free(muster_threads *pool)
{
    if (pool == NULL) {
        return;
    }
    atomic_store(&pool->is_ending, true);
    atomic_fetch_add(&pool->gate, GATE_RUN);
    wake(pool, INT_MAX, A_RUN);
    for (uint32_t i = 0; i < pool->started; i++) {
        pthread_join(pool->threads[i], NULL);
    }
    muster_mem_free(pool);
}

uint32_t muster_threads_count(const muster_threads *pool)
{
    return pool != NULL ? pool->started + 1 : 1;
}

/* Wait until nobody is in the run, which is closed. */
static void wait_idle(muster_threads *pool)
{
    watcher self = {0};
    uint32_t gate = atomic_load(&pool->gate);
    while (is_running(gate)) {
        if (!look_on(&self, true)) {
            atomic_store(&pool->is_caller_asleep, true);
            sleep_while(pool, gate, END_OF_RUN);
            atomic_store(&pool->is_caller_asleep, false);
        }
        gate = atomic_load(&pool->gate);
    }
}

/* The group of a processor: as many as there are threads, of neighbours. */
static uint32_t group_of(const muster_threads *pool, int processor)
{
    uint32_t before = 0;
    for (int i = 0; i < processor; i++) {
        before += CPU_ISSET((size_t)i, &pool->allowed) ? 1 : 0;
    }
    return before * (pool->started + 1) / pool->processors;
}

/* Let a thread run on the processors of a group alone. */
static void place(muster_threads *pool, uint32_t thread, uint32_t group)
{
    cpu_set_t some;
    CPU_ZERO(&some);
    for (int i = 0; i < CPU_SETSIZE; i++) {
        if (CPU_ISSET((size_t)i, &pool->allowed) &&
            group_of(pool, i) == group) {
            CPU_SET((size_t)i, &some);
        }
    }
    pool->groups[thread] = group;
    (void)pthread_setaffinity_np(pool->threads[thread], sizeof(some), &some);
}

/*
 * Each thread has processors of its own, and none where the caller runs. A
 * system may put a thread that wakes on the processor of who woke it, where it
 * gets its turn when the caller has done all the work; or two of them on one.
 * Linux does so in a virtual machine, whose idle processors it takes for busy
 * ones. When the caller has moved, it changes places with one thread.
 */
static void keep_apart(muster_threads *pool)
{
    int here = sched_getcpu();
    if (pool->processors <= pool->started || here < 0 || here >= CPU_SETSIZE ||
        !CPU_ISSET((size_t)here, &pool->allowed)) {
        return;
    }
    uint32_t group = group_of(pool, here);
    uint32_t left = pool->is_placed ? pool->caller_group : UINT32_MAX;
    for (uint32_t i = 0; i < pool->started && group != left; i++) {
        if (!pool->is_placed) {
            place(pool, i, i < group ? i : i + 1);
        } else if (pool->groups[i] == group) {
            place(pool, i, left);
        }
    }
    pool->is_placed = true;
    pool->caller_group = group;
}

static void run(muster_threads *pool, uint32_t count, bool is_waking,
                muster_threads_task task, void *context)
{
    if (pool == NULL || pool->started == 0 || count < 2) {
        for (uint32_t i = 0; i < count; i++) {
            task(context, i);
        }
        return;
    }
    MUSTER_ASSERT(!is_running(atomic_load(&pool->gate)));
    pool->task = task;
    pool->context = context;
    pool->count = count;
    atomic_store(&pool->next, 0);
    atomic_fetch_add(&pool->gate, GATE_RUN | GATE_OPEN);
    if (is_waking && atomic_load(&pool->sleepers) > 0) {
        keep_apart(pool);
        wake(pool, (int)count - 1, A_RUN);
    }
    work(pool);
    atomic_fetch_and(&pool->gate, ~GATE_OPEN);
    wait_idle(pool);
}

void muster_threads_run(muster_threads *pool, uint32_t count,
                        muster_threads_task task, void *context)
{
    run(pool, count, true, task, context);
}

uint32_t muster_threads_parts(const muster_threads *pool, double work_us)
{
    uint32_t threads = muster_threads_count(pool);
    double parts = work_us / PART_US;
    return parts < 1 ? 1 : parts < threads ? (uint32_t)parts : threads;
}

void muster_threads_run_some(muster_threads *pool, uint32_t count,
                             double work_us, muster_threads_task task,
                             void *context)
{
    run(pool, count, work_us >= WAKE_US * count, task, context);
}

uint64_t muster_threads_part(uint64_t size, uint32_t parts, uint32_t index)
{
    uint64_t groups = (size + 15) / 16;
    uint64_t begin = groups * index / parts * 16;
    return begin < size ? begin : size;
}
