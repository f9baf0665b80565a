/*
 * shuffle_targeted.c -- the policies `targeted` and `auto` of role/shuffle.h.
 *
 * It builds a working copy of the map (worker_of, and per part the number of
 * active holders and the chance that all straggle) and exchanges a slow holder
 * of a part that is short of active ones with an active worker as long as that
 * helps.
 *
 * Why it ends: an exchange either lowers the number of parts that are short, or
 * keeps it and hands the place from a part missed more to one missed less; the
 * misses do not change meanwhile, and the number of exchanges is limited to
 * the number of slots anyway.
 */
#include <math.h>
#include <string.h>

#include "role/shuffle_inside.h"

#define MARGIN      1.5  // see shuffle.h
#define MARGIN_THIN 1.0  // likewise, for parts with one active holder
#define FOLLOWING   0.05 // of them, where slow workers change
#define RATE_MIN    1e-3 // nobody is trusted beyond this
#define PARTS_TRIED 8u   // short parts looked at for one exchange
#define LIKELY      1e-3 // to be missed in a step

static double rate_of(const muster_shuffle *s, uint32_t worker)
{
    return fmin(fmax(s->seen[worker].straggle_rate, RATE_MIN), 1);
}

/* What follows for `part` from worker_of. */
static void weigh_part(muster_shuffle *s, uint32_t part)
{
    s->active[part] = 0;
    s->lost[part] = 1;
    for (uint32_t i = s->holder_first[part]; i < s->holder_first[part + 1];
         i++) {
        uint32_t worker = s->worker_of[s->holder[i]];
        s->active[part] += !s->seen[worker].slow;
        s->lost[part] *= rate_of(s, worker);
    }
}

/* What exchanging a slow and an active worker would do. */
typedef struct trade {
    uint32_t slow_slot;
    uint32_t active_slot;
    double gain;        // expected misses a step, weighted by misses so far
    double balance;     // misses of the parts covered less of those uncovered
    double worst;       // most misses of a part covered
    uint32_t covered;   // parts that get an active holder they need
    uint32_t uncovered; // parts that lose one they need
    uint32_t moved;     // parts to be sent
    bool bares;         // a part that was short already loses one more
} trade;

/* `part` gets an active worker for a slow one, or the reverse; its chance to
 * be lost changes by `ratio`. */
static void trade_part(const muster_shuffle *s, uint32_t part, bool gets,
                       double ratio, trade *t)
{
    double misses = (double)s->misses[part];
    t->gain += (1 + misses) * s->lost[part] * (1 - ratio);
    t->moved++;
    if (gets && s->active[part] < s->need) {
        t->covered++;
        t->balance += misses;
        t->worst = fmax(t->worst, misses);
    } else if (!gets && s->active[part] <= s->need) {
        t->uncovered++;
        t->balance -= misses;
        t->bares = t->bares || s->active[part] < s->need;
    }
}

static trade weigh_trade(const muster_shuffle *s, uint32_t slow_slot,
                         uint32_t active_slot)
{
    trade t = {.slow_slot = slow_slot, .active_slot = active_slot};
    double ratio = rate_of(s, s->worker_of[active_slot]) /
                   rate_of(s, s->worker_of[slow_slot]);
    uint32_t i = s->first[slow_slot];
    uint32_t j = s->first[active_slot];
    uint32_t i_end = s->first[slow_slot + 1];
    uint32_t j_end = s->first[active_slot + 1];
    while (i < i_end || j < j_end) {
        if (j == j_end || (i < i_end && s->held[i] < s->held[j])) {
            trade_part(s, s->held[i++], true, ratio, &t);
        } else if (i == i_end || s->held[j] < s->held[i]) {
            trade_part(s, s->held[j++], false, 1 / ratio, &t);
        } else { // both slots hold it: nothing changes
            i++;
            j++;
        }
    }
    return t;
}

static bool is_worth_it(const muster_shuffle *s, const trade *t)
{
    if (t->covered == 0 || t->gain <= 0) {
        return false;
    }
    if (t->uncovered == 0) {
        return true;
    }
    double margin =
        (s->need == 1 ? MARGIN : MARGIN_THIN) * (s->follows ? FOLLOWING : 1);
    return !t->bares && t->uncovered <= t->covered &&
           t->balance >= margin * sqrt(1 + t->worst) * t->uncovered;
}

static bool is_better(const trade *t, const trade *than)
{
    if (than->covered == 0) {
        return true; // than is none yet
    }
    double tie = 1e-9 * fabs(than->gain);
    return t->gain > than->gain + tie ||
           (t->gain > than->gain - tie && t->moved < than->moved);
}

static trade best_trade_for(const muster_shuffle *s, uint32_t part)
{
    trade best = {0};
    for (uint32_t i = s->holder_first[part]; i < s->holder_first[part + 1];
         i++) {
        if (!s->seen[s->worker_of[s->holder[i]]].slow) {
            continue;
        }
        for (uint32_t slot = 0; slot < s->slots; slot++) {
            if (s->seen[s->worker_of[slot]].slow) {
                continue;
            }
            trade t = weigh_trade(s, s->holder[i], slot);
            if (is_worth_it(s, &t) && is_better(&t, &best)) {
                best = t;
            }
        }
    }
    return best;
}

/* Is a part short of active holders? One active holder does until the part is
 * missed in spite of it, or is likely to be. */
static bool is_short(const muster_shuffle *s, uint32_t part)
{
    return s->active[part] < s->need &&
           (s->active[part] == 0 || s->misses[part] > 0 ||
            s->lost[part] > LIKELY);
}

/* The short part with the most misses that was not tried; parts when there is
 * none. */
static uint32_t worst_short(const muster_shuffle *s)
{
    uint32_t worst = s->parts;
    for (uint32_t part = 0; part < s->parts; part++) {
        if (is_short(s, part) && !s->tried[part] &&
            (worst == s->parts || s->misses[part] > s->misses[worst])) {
            worst = part;
        }
    }
    return worst;
}

static bool all_are_covered(const muster_shuffle *s)
{
    for (uint32_t part = 0; part < s->parts; part++) {
        if (s->active[part] == 0) {
            return false;
        }
    }
    return true;
}

static trade find_trade(muster_shuffle *s)
{
    s->need = all_are_covered(s) ? 2 : 1;
    memset(s->tried, 0, s->parts * sizeof(bool));
    trade best = {0};
    for (uint32_t i = 0; i < PARTS_TRIED && best.covered == 0; i++) {
        uint32_t part = worst_short(s);
        if (part == s->parts) {
            break;
        }
        s->tried[part] = true;
        best = best_trade_for(s, part);
    }
    return best;
}

static void apply_trade(muster_shuffle *s, const trade *t)
{
    uint32_t worker = s->worker_of[t->slow_slot];
    s->worker_of[t->slow_slot] = s->worker_of[t->active_slot];
    s->worker_of[t->active_slot] = worker;
    const uint32_t slots[2] = {t->slow_slot, t->active_slot};
    for (int k = 0; k < 2; k++) {
        for (uint32_t i = s->first[slots[k]]; i < s->first[slots[k] + 1]; i++) {
            weigh_part(s, s->held[i]);
        }
    }
}

bool muster_shuffle_target(muster_shuffle *s, const uint32_t *slot_of,
                           uint32_t *slot_of_out)
{
    muster_shuffle_invert(s, slot_of);
    for (uint32_t part = 0; part < s->parts; part++) {
        weigh_part(s, part);
    }
    bool changed = false;
    for (uint32_t exchanges = 0; exchanges < s->slots; exchanges++) {
        trade t = find_trade(s);
        if (t.covered == 0) {
            break;
        }
        apply_trade(s, &t);
        changed = true;
    }
    for (uint32_t slot = 0; slot < s->slots; slot++) {
        slot_of_out[s->worker_of[slot]] = slot;
    }
    return changed;
}
