/*
 * shuffle.c -- the policies of role/shuffle.h.
 *
 * Kept for good: how often each part was missed, and the last step's view of
 * each worker. `targeted` builds a working copy of the map (worker_of, and per
 * part the number of active holders and the chance that all straggle) and
 * exchanges a slow holder of a part that is short of active ones with an active
 * worker as long as that helps.
 *
 * Why it ends: an exchange either lowers the number of parts that are short, or
 * keeps it and hands the place from a part missed more to one missed less; the
 * misses do not change meanwhile, and the number of exchanges is limited to
 * the number of slots anyway.
 */
#include "role/shuffle.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/assert.h"
#include "base/error.h"
#include "base/mem.h"
#include "wire/bytes.h"

#define FORMAT      1u
#define MARGIN      1.5  // see the header
#define MARGIN_THIN 1.0  // likewise, for parts with one active holder
#define RATE_MIN    1e-3 // nobody is trusted beyond this
#define PARTS_TRIED 8u   // short parts looked at for one exchange
#define LIKELY      1e-3 // to be missed in a step
#define PERIOD_MAX  1000000000ul

typedef enum policy { NONE, ROTATE, TARGETED } policy;

struct muster_shuffle {
    policy policy;
    uint64_t period;
    uint32_t slots;
    uint32_t parts;
    uint32_t *first; // slot -> parts, as in the layout
    uint32_t *held;
    uint32_t *holder_first; // part -> slots, likewise
    uint32_t *holder;
    uint64_t *misses;
    muster_shuffle_seen *seen;
    uint32_t *worker_of; // working copy, with what follows from it
    uint32_t *active;    // per part: holders that are not slow
    double *lost;        // per part: chance that all holders straggle
    bool *tried;
    uint32_t need; // active holders that a part should have, at present
};

static muster_status parse_policy(const char *text, muster_shuffle *shuffle,
                                  muster_error *error)
{
    if (strcmp(text, "none") == 0) {
        shuffle->policy = NONE;
        return MUSTER_OK;
    }
    if (strcmp(text, "targeted") == 0) {
        shuffle->policy = TARGETED;
        return MUSTER_OK;
    }
    if (strncmp(text, "rotate:", 7) == 0 && text[7] >= '0' && text[7] <= '9') {
        char *end = NULL;
        errno = 0;
        unsigned long period = strtoul(text + 7, &end, 10);
        if (errno == 0 && *end == 0 && period >= 1 && period <= PERIOD_MAX) {
            shuffle->policy = ROTATE;
            shuffle->period = period;
            return MUSTER_OK;
        }
    }
    return muster_error_set(error, MUSTER_ERR_INVALID,
                            "--shuffle %s: expected none, targeted or "
                            "rotate:PERIOD such as rotate:30",
                            text);
}

static uint32_t parts_of_slot(const muster_shuffle_opts *opts, uint32_t slot,
                              const uint32_t **parts_out)
{
    if (opts->layout != NULL) {
        const muster_shuffle_layout *layout = opts->layout;
        *parts_out = layout->held + layout->first[slot];
        return layout->first[slot + 1] - layout->first[slot];
    }
    uint32_t count = 0;
    muster_status status =
        muster_code_parts(opts->code, slot, parts_out, &count);
    MUSTER_ASSERT(status == MUSTER_OK);
    return count;
}

static bool allocate(muster_shuffle *s, uint32_t total)
{
    s->first = muster_mem_array((size_t)s->slots + 1, sizeof(uint32_t));
    s->held = muster_mem_array(total, sizeof(uint32_t));
    s->holder_first = muster_mem_array((size_t)s->parts + 2, sizeof(uint32_t));
    s->holder = muster_mem_array(total, sizeof(uint32_t));
    s->misses = muster_mem_array(s->parts, sizeof(uint64_t));
    s->seen = muster_mem_array(s->slots, sizeof(*s->seen));
    s->worker_of = muster_mem_array(s->slots, sizeof(uint32_t));
    s->active = muster_mem_array(s->parts, sizeof(uint32_t));
    s->lost = muster_mem_array(s->parts, sizeof(double));
    s->tried = muster_mem_array(s->parts, sizeof(bool));
    return s->first != NULL && s->held != NULL && s->holder_first != NULL &&
           s->holder != NULL && s->misses != NULL && s->seen != NULL &&
           s->worker_of != NULL && s->active != NULL && s->lost != NULL &&
           s->tried != NULL;
}

static void fill_tables(muster_shuffle *s, const muster_shuffle_opts *opts)
{
    // Counted two places ahead, so that filling leaves the starts in place.
    for (uint32_t slot = 0; slot < s->slots; slot++) {
        const uint32_t *parts;
        uint32_t count = parts_of_slot(opts, slot, &parts);
        s->first[slot + 1] = s->first[slot] + count;
        for (uint32_t i = 0; i < count; i++) {
            s->held[s->first[slot] + i] = parts[i];
            s->holder_first[parts[i] + 2]++;
        }
    }
    for (uint32_t part = 0; part < s->parts; part++) {
        s->holder_first[part + 2] += s->holder_first[part + 1];
    }
    for (uint32_t slot = 0; slot < s->slots; slot++) {
        for (uint32_t i = s->first[slot]; i < s->first[slot + 1]; i++) {
            s->holder[s->holder_first[s->held[i] + 1]++] = slot;
        }
    }
}

muster_status muster_shuffle_create(const muster_shuffle_opts *opts,
                                    muster_error *error_out,
                                    muster_shuffle **shuffle_out)
{
    MUSTER_ASSERT((opts->code != NULL) != (opts->layout != NULL));
    muster_shuffle parsed = {0};
    muster_status status = parse_policy(opts->policy, &parsed, error_out);
    if (status != MUSTER_OK) {
        return status;
    }
    if (opts->layout != NULL) {
        parsed.slots = opts->layout->slots;
        parsed.parts = opts->layout->parts;
    } else {
        muster_code_info info = muster_code_describe(opts->code);
        parsed.slots = info.workers;
        parsed.parts = info.parts;
    }
    uint32_t total = 0;
    for (uint32_t slot = 0; slot < parsed.slots; slot++) {
        const uint32_t *parts;
        total += parts_of_slot(opts, slot, &parts);
    }
    muster_shuffle *shuffle = muster_mem_array(1, sizeof(*shuffle));
    if (shuffle != NULL) {
        *shuffle = parsed;
    }
    if (shuffle == NULL || !allocate(shuffle, total)) {
        muster_shuffle_free(shuffle);
        return muster_error_set(error_out, MUSTER_ERR_NO_MEMORY,
                                "no memory to shuffle %u workers",
                                parsed.slots);
    }
    fill_tables(shuffle, opts);
    *shuffle_out = shuffle;
    return MUSTER_OK;
}

void muster_shuffle_free(muster_shuffle *shuffle)
{
    if (shuffle == NULL) {
        return;
    }
    muster_mem_free(shuffle->first);
    muster_mem_free(shuffle->held);
    muster_mem_free(shuffle->holder_first);
    muster_mem_free(shuffle->holder);
    muster_mem_free(shuffle->misses);
    muster_mem_free(shuffle->seen);
    muster_mem_free(shuffle->worker_of);
    muster_mem_free(shuffle->active);
    muster_mem_free(shuffle->lost);
    muster_mem_free(shuffle->tried);
    muster_mem_free(shuffle);
}

static void invert(muster_shuffle *s, const uint32_t *slot_of)
{
    for (uint32_t worker = 0; worker < s->slots; worker++) {
        MUSTER_ASSERT(slot_of[worker] < s->slots);
        s->worker_of[slot_of[worker]] = worker;
    }
}

void muster_shuffle_observe(muster_shuffle *s, const uint32_t *slot_of,
                            const muster_shuffle_seen *seen)
{
    memcpy(s->seen, seen, s->slots * sizeof(*seen));
    invert(s, slot_of);
    for (uint32_t part = 0; part < s->parts; part++) {
        bool missed = true;
        for (uint32_t i = s->holder_first[part];
             missed && i < s->holder_first[part + 1]; i++) {
            missed = seen[s->worker_of[s->holder[i]]].late;
        }
        s->misses[part] += missed;
    }
}

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
    double margin = s->need == 1 ? MARGIN : MARGIN_THIN;
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

static bool next_targeted(muster_shuffle *s, const uint32_t *slot_of,
                          uint32_t *slot_of_out)
{
    invert(s, slot_of);
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

bool muster_shuffle_next(muster_shuffle *s, uint64_t step,
                         const uint32_t *slot_of, uint32_t *slot_of_out)
{
    if (s->policy == TARGETED) {
        return next_targeted(s, slot_of, slot_of_out);
    }
    memcpy(slot_of_out, slot_of, s->slots * sizeof(*slot_of));
    if (s->policy == NONE) {
        return false;
    }
    uint64_t turn = step / s->period % s->slots;
    for (uint32_t worker = 0; worker < s->slots; worker++) {
        slot_of_out[worker] = (uint32_t)((worker + turn) % s->slots);
    }
    return memcmp(slot_of_out, slot_of, s->slots * sizeof(*slot_of)) != 0;
}

uint32_t muster_shuffle_moves(const muster_shuffle *s, uint32_t from,
                              uint32_t to, uint32_t *parts_out)
{
    MUSTER_ASSERT(from < s->slots && to < s->slots);
    uint32_t count = 0;
    uint32_t has = s->first[from];
    for (uint32_t i = s->first[to]; i < s->first[to + 1]; i++) {
        while (has < s->first[from + 1] && s->held[has] < s->held[i]) {
            has++;
        }
        if (has < s->first[from + 1] && s->held[has] == s->held[i]) {
            continue;
        }
        if (parts_out != NULL) {
            parts_out[count] = s->held[i];
        }
        count++;
    }
    return count;
}

uint64_t muster_shuffle_misses(const muster_shuffle *s, uint32_t part)
{
    MUSTER_ASSERT(part < s->parts);
    return s->misses[part];
}

/* Layout: format, parts, then the misses of each part, 8 bytes each. */
bool muster_shuffle_save(const muster_shuffle *s, muster_vec *bytes)
{
    size_t size = 8 * (2 + (size_t)s->parts);
    uint8_t *out = muster_mem_array(size, 1);
    if (out == NULL) {
        return false;
    }
    muster_bytes_put(out, FORMAT, 8);
    muster_bytes_put(out + 8, s->parts, 8);
    for (uint32_t part = 0; part < s->parts; part++) {
        muster_bytes_put(out + 8 * (2 + (size_t)part), s->misses[part], 8);
    }
    bool ok = muster_vec_append(bytes, out, size);
    muster_mem_free(out);
    return ok;
}

muster_status muster_shuffle_load(muster_shuffle *s, const void *bytes,
                                  size_t size)
{
    const uint8_t *at = bytes;
    if (size != 8 * (2 + (size_t)s->parts) ||
        muster_bytes_get(at, 8) != FORMAT ||
        muster_bytes_get(at + 8, 8) != s->parts) {
        return MUSTER_ERR_INPUT;
    }
    for (uint32_t part = 0; part < s->parts; part++) {
        s->misses[part] = muster_bytes_get(at + 8 * (2 + (size_t)part), 8);
    }
    return MUSTER_OK;
}
