/*
 * sparse_survive.c -- what a training run does about lost nodes: rows from its
 * last checkpoint, a word about what was lost, new processes in their place.
 *
 * The thread that drives the mesh asks for rows and brings news. The thread of
 * the run starts processes, because a process ends with the thread that started
 * it.
 */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/assert.h"
#include "base/clock.h"
#include "base/log.h"
#include "config/config.h"
#include "proc/signals.h"
#include "ps/node/inside.h"
#include "record/run_folder.h"
#include "run/sparse_run.h"

#define RESPAWNS_MAX 16u

/* Where checkpoints are; false: nowhere. MUSTER_RECORD_PATH_MAX bytes. */
static bool find_folder(const muster_task_run *run, char *folder)
{
    const char *dir = muster_config_string(run->config, MUSTER_OPT_RUN);
    if (dir != NULL) {
        (void)snprintf(folder, MUSTER_RECORD_PATH_MAX, "%s/%s", dir,
                       MUSTER_RUN_CHECKPOINT);
    }
    return dir != NULL;
}

static bool prepared(void *context)
{
    muster_task_run *run = context;
    char folder[MUSTER_RECORD_PATH_MAX];
    return !find_folder(run, folder) ||
           muster_last_checkpoint_prepare(&run->loss.checkpoint, folder);
}

static bool restore(void *context, uint32_t table, uint32_t key, float *row)
{
    muster_task_run *run = context;
    char folder[MUSTER_RECORD_PATH_MAX];
    if (!find_folder(run, folder)) {
        return false;
    }
    if (table >= run->tables) {
        // Sums last for one phase, and node 0, which is never restored, owns
        // the rows that are read. What tasks keep in tables of theirs (how far
        // parts are) is told anew in each epoch.
        memset(row, 0, run->ps->tables[table]->floats * sizeof(float));
        return true;
    }
    return muster_last_checkpoint_row(&run->loss.checkpoint, folder,
                                      run->ps->tables[table], table, key, row);
}

static uint64_t updates(void *context)
{
    muster_task_run *run = context;
    return atomic_load(&run->loss.since) + atomic_load(&run->phase.done);
}

static uint64_t stalled_ms(void *context)
{
    muster_task_run *run = context;
    return muster_stall_look(&run->stall, muster_clock_ns());
}

static uint64_t largest_share(const muster_task_run *run)
{
    uint64_t largest = 0;
    for (uint32_t node = 0; node < run->nodes; node++) {
        uint64_t units = muster_task_node_units(run, node);
        largest = units > largest ? units : largest;
    }
    return largest;
}

/* Node 0: what it cost. A lost node told at its last barrier or heartbeat what
 * it had done. Since then it may have done its parts of one round: those of its
 * own threads, and as many for each node that was not there
 * (sparse_phase.c). */
static void tell_cost(muster_task_run *run, const muster_membership_news *news)
{
    uint32_t left = (uint32_t)__builtin_popcountll(news->members);
    uint64_t share = largest_share(run);
    MUSTER_ASSERT(left > 0); // this node is a member
    uint64_t shares = (run->nodes + left - 1) / left;
    uint64_t updates_max = news->updates + run->loss.lost * shares * share;
    bool kept = muster_config_string(run->config, MUSTER_OPT_RUN) != NULL;
    muster_log(MUSTER_LOG_WARN,
               "going on with %" PRIu32 " of %" PRIu32 " nodes: %" PRIu64
               " rows came from copies, %" PRIu64
               " from the checkpoint, %" PRIu64
               " began anew; lost are at most the updates of %" PRIu64
               " %s, and %" PRIu64 " that were under way%s",
               left, run->nodes, news->copied, news->restored, news->fresh,
               updates_max, run->ops->unit, news->unanswered,
               kept && news->fresh > 0
                   ? ", and all that the rows that began anew had learnt"
                   : "");
}

static void hear(void *context, const muster_membership_news *news)
{
    muster_task_run *run = context;
    if (news->kind == MUSTER_NEWS_LOST) {
        run->loss.lost++;
    } else if (news->kind == MUSTER_NEWS_RESUMED) {
        if (run->loss.lost > 0 && run->node == 0) {
            tell_cost(run, news);
        }
        run->loss.lost = 0;
        muster_last_checkpoint_close(&run->loss.checkpoint);
    }
}

static uint32_t ended(void *context)
{
    muster_task_run *run = context;
    return muster_local_nodes_first_ended(&run->others);
}

void muster_task_on_loss(muster_task_run *run)
{
    muster_loss_hooks loss = {.joins = run->joins,
                              .prepared = prepared,
                              .restore = restore,
                              .updates = updates,
                              .stalled_ms = stalled_ms,
                              .news = hear,
                              .stopped = muster_signals_stop_asked,
                              .ended = ended,
                              .context = run};
    muster_ps_set_loss_hooks(run->ps, &loss);
}

/* Start another process in the place of a node that is lost, once: again when
 * that one has ended as well. */
static void replace_one(muster_task_run *run, uint16_t node)
{
    muster_error error = {.text = ""};
    uint64_t bit = 1ull << node;
    bool ended = muster_local_nodes_ended(&run->others, node);
    bool wanted = strcmp(muster_config_string(run->config, MUSTER_OPT_ON_LOSS),
                         "wait") == 0;
    if (!wanted || run->loss.respawns >= RESPAWNS_MAX ||
        ((run->loss.replaced & bit) != 0 && !ended)) {
        return;
    }
    run->loss.respawns++;
    run->loss.replaced |= bit;
    if (muster_local_nodes_replace(&run->others, run->config, node, &error) !=
        MUSTER_OK) {
        muster_log(MUSTER_LOG_WARN, "node %u is not replaced: %s", node,
                   error.text);
    }
}

void muster_task_replace(muster_task_run *run)
{
    uint64_t lost =
        run->others.group == NULL ? 0 : muster_ps_lost_nodes(run->ps);
    run->loss.replaced &= lost;
    for (uint16_t i = 1; i < run->nodes && lost != 0; i++) {
        if (lost >> i & 1) {
            replace_one(run, i);
        }
    }
}

/* The note: how many epochs are done, and which set of sums is next. */
void muster_task_admit(muster_task_run *run, uint32_t epochs)
{
    while (epochs < run->epochs &&
           muster_ps_admit(run->ps, epochs << 1 | run->phase.count % 2)) {
    }
}

void muster_task_catch_up(muster_task_run *run)
{
    uint32_t note = muster_ps_admit_note(run->ps);
    run->next_epoch = note >> 1;
    run->phase.count = note & 1;
}
