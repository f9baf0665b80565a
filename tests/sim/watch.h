/*
 * watch.h -- who must count, and who may be missed: the workers that have been
 * well for long enough to be back.
 *
 * A worker is settled when neither it nor the coordinator has had any trouble
 * for as long as it takes to notice, to connect again and to be given a plan
 * and its parts. Then it must be ready; and as long as the settled ones
 * suffice, the coordinator must not give up.
 */
#ifndef MUSTER_TESTS_SIM_WATCH_H
#define MUSTER_TESTS_SIM_WATCH_H

#include "role/coordinator_inside.h"
#include "toy.h"

typedef struct watch {
    int64_t settle_ns;
    uint32_t hosts; // of workers and spares: 1 to this
} watch;

static bool watch_is_settled(const watch *w, const toy *t, uint32_t host)
{
    int64_t own_ns = muster_sim_well_since(t->sim, host);
    int64_t lead_ns = muster_sim_well_since(t->sim, 0);
    int64_t since_ns = own_ns > lead_ns ? own_ns : lead_ns;
    return own_ns >= 0 && lead_ns >= 0 &&
           muster_sim_now(t->sim) - since_ns > w->settle_ns;
}

/* One whose number another process has just taken is on its way out, and will
 * know when the word has reached it. */
static bool watch_is_ousted(const toy *t, uint32_t host)
{
    for (uint32_t id = 0; id < t->workers; id++) {
        if (t->here[id] && t->host_of[id] == host) {
            return false;
        }
    }
    return t->lost > 0 && muster_sim_now(t->sim) - t->lost_ns < 1000000000;
}

/* Settled workers, up to the number of places that others do not hold, must be
 * ready. Where spares wait for a place, it must have been free for a while. */
static bool watch_all_are_back(const watch *w, const toy *t)
{
    uint32_t settled = 0;
    uint32_t ready = 0;
    uint32_t places = t->workers;
    for (uint32_t host = 1; host <= w->hosts; host++) {
        settled += watch_is_settled(w, t, host) && !watch_is_ousted(t, host);
    }
    for (uint32_t id = 0; id < t->workers; id++) {
        bool is_settled = t->here[id] && watch_is_settled(w, t, t->host_of[id]);
        ready += is_settled && t->is_ready[id];
        places -= t->here[id] && !is_settled;
    }
    if (w->hosts > t->workers && t->lost > 0 &&
        muster_sim_now(t->sim) - t->lost_ns < w->settle_ns) {
        return true;
    }
    return ready >= (settled < places ? settled : places);
}

/* Could the settled workers train on their own? */
static bool watch_enough_are_settled(const watch *w, const toy *t)
{
    const muster_coordinator *c = muster_sim_role(t->sim, 0).state;
    muster_code_progress *progress = NULL;
    muster_status status = muster_code_progress_create(t->code, &progress);
    MUSTER_ASSERT(status == MUSTER_OK);
    uint32_t hosts = 0;
    uint32_t count = 0;
    for (uint32_t host = 1; host <= w->hosts; host++) {
        hosts += watch_is_settled(w, t, host);
    }
    for (uint32_t id = 0; id < t->workers; id++) {
        uint32_t host = t->host_of[id]; // also of one that is not here
        if (host != 0 && t->id_of[host] == id && watch_is_settled(w, t, host)) {
            muster_staging_add_all(&c->staging, progress, c->plan.slot_of[id]);
            count++;
        }
    }
    bool enough = muster_code_progress_ready(progress);
    muster_code_progress_free(progress);
    bool any = t->degrade || !t->info.exact;
    return enough || (any && count > 0) ||
           (t->info.exact && hosts + t->info.stragglers >= t->workers);
}

#endif // MUSTER_TESTS_SIM_WATCH_H
