/* sparse_stall.c -- see sparse_stall.h. */
#define _POSIX_C_SOURCE 200809L
#include "run/sparse_stall.h"

#include <inttypes.h>
#include <pthread.h>
#include <time.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/mem.h"
#include "ps/node/inside.h"
#include "ps/node/loss.h"

/* A part of the limit: of a longer time between two looks the process may have
 * been paused, or had no processor, for what is beyond it. */
#define PAUSE_SHARE 4

muster_status muster_stall_init(muster_stall_watch *watch, const muster_ps *ps,
                                uint32_t threads)
{
    int64_t now_ns = muster_clock_ns();
    *watch = (muster_stall_watch){.ps = ps,
                                  .count = threads,
                                  .limit_ns = muster_ps_stall_ns(ps),
                                  .looked_ns = now_ns,
                                  .checked_ns = now_ns};
    watch->threads = muster_mem_array(threads, sizeof(*watch->threads));
    return watch->threads != NULL ? MUSTER_OK : MUSTER_ERR_NO_MEMORY;
}

void muster_stall_fini(muster_stall_watch *watch)
{
    muster_mem_free(watch->threads);
    *watch = (muster_stall_watch){0};
}

void muster_stall_begin(muster_stall_watch *watch, uint32_t thread,
                        const muster_ps_worker *worker)
{
    muster_stall_thread *mine = &watch->threads[thread];
    clockid_t cpu;
    if (pthread_getcpuclockid(pthread_self(), &cpu) != 0) {
        return; // not measured
    }
    atomic_store(&mine->slot, worker->slot);
    atomic_store(&mine->cpu, cpu);
    atomic_store(&mine->works, true);
}

void muster_stall_end(muster_stall_watch *watch, uint32_t thread)
{
    atomic_store(&watch->threads[thread].works, false);
}

/* The thread has work and waits for nobody; *cpu_out: the CPU time it used. */
static bool is_at_work(const muster_stall_watch *watch,
                       muster_stall_thread *thread, int64_t *cpu_out)
{
    struct timespec used;
    if (!atomic_load(&thread->works) ||
        atomic_load(&watch->ps->shared.waits_for[atomic_load(&thread->slot)]) !=
            NULL ||
        clock_gettime(atomic_load(&thread->cpu), &used) != 0) {
        return false; // the clock of a thread that has just ended is gone
    }
    *cpu_out = used.tv_sec * MUSTER_NS_PER_S + used.tv_nsec;
    return true;
}

static void name_thread(const muster_stall_watch *watch, uint32_t number)
{
    muster_stall_thread *thread = &watch->threads[number];
    if (thread->still_ns < watch->limit_ns || thread->told) {
        return;
    }
    thread->told = true;
    muster_log(MUSTER_LOG_WARN,
               "worker thread %" PRIu32 " of node %" PRIu32
               " stands still: it has work, and used no CPU time for %.1f s",
               number, watch->ps->opts.node, (double)thread->still_ns / 1e9);
}

/* The time since the last look that counts; *last becomes now. */
static int64_t count_time(const muster_stall_watch *watch, int64_t now_ns,
                          int64_t *last)
{
    int64_t passed_ns = now_ns - *last;
    int64_t max_ns = watch->limit_ns / PAUSE_SHARE;
    *last = now_ns;
    return passed_ns < max_ns ? passed_ns : max_ns;
}

uint64_t muster_stall_look(muster_stall_watch *watch, int64_t now_ns)
{
    int64_t passed_ns = count_time(watch, now_ns, &watch->looked_ns);
    int64_t worst_ns = 0;
    atomic_fetch_add(&watch->looks, 1);
    for (uint32_t i = 0; i < watch->count; i++) {
        muster_stall_thread *thread = &watch->threads[i];
        int64_t cpu_ns = 0;
        bool still =
            is_at_work(watch, thread, &cpu_ns) && cpu_ns == thread->cpu_ns;
        thread->cpu_ns = cpu_ns;
        thread->still_ns = still ? thread->still_ns + passed_ns : 0;
        thread->told = still && thread->told;
        name_thread(watch, i);
        worst_ns = thread->still_ns > worst_ns ? thread->still_ns : worst_ns;
    }
    return (uint64_t)(worst_ns / MUSTER_NS_PER_MS);
}

bool muster_stall_driver_stalls(muster_stall_watch *watch, int64_t now_ns)
{
    uint64_t looks = atomic_load(&watch->looks);
    int64_t passed_ns = count_time(watch, now_ns, &watch->checked_ns);
    watch->unseen_ns =
        looks == watch->looks_seen ? watch->unseen_ns + passed_ns : 0;
    watch->looks_seen = looks;
    return watch->unseen_ns >= watch->limit_ns;
}
