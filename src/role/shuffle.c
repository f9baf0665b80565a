/*
 * shuffle.c -- what role/shuffle.h keeps and answers, and the policies but two:
 * `targeted` and `auto` are in shuffle_targeted.c.
 *
 * Kept for good: how often each part was missed, and the last step's view of
 * each worker.
 */
#include "role/shuffle.h"

#include "base/assert.h"
#include "base/error.h"
#include "base/mem.h"
#include "base/names.h"
#include "base/spec.h"
#include "base/suggest.h"
#include "base/value.h"
#include "code/numbers.h"
#include "role/shuffle_inside.h"
#include "wire/bytes.h"

#define FORMAT     2u
#define FORMAT_1   1u // without the last number
#define PERIOD_MAX 1000000000u
/* So many steps more may be taken to send the parts of a turn. */
#define AHEAD_MORE 6u
/* `auto` follows workers that are slow for a while after so many steps that
 * say so: at the start few observations make two classes look like chains. */
#define PASSING_STEPS 32u

/* By muster_shuffle_policy; rotate takes a period, as in rotate:30. */
static const char *const policies[] = {
    [MUSTER_SHUFFLE_NONE] = "none",
    [MUSTER_SHUFFLE_ROTATE] = "rotate",
    [MUSTER_SHUFFLE_TARGETED] = "targeted",
    [MUSTER_SHUFFLE_AUTO] = "auto",
    NULL,
};

static muster_status parse_policy(const char *text, muster_shuffle *shuffle,
                                  muster_error *error)
{
    const char *params;
    size_t length = muster_spec_name(text, &params);
    int policy = muster_name_index(policies, text);
    if (policy < 0) {
        muster_suggestion meant = muster_suggestion_make(text, length);
        muster_suggestion_add_list(&meant, "none,auto,targeted,rotate:30", ',');
        return muster_suggestion_fail(&meant, "--shuffle ", error);
    }
    uint64_t period = 0;
    bool rotates = policy == MUSTER_SHUFFLE_ROTATE;
    if (rotates ? !muster_value_uint(params, &period) || period < 1 ||
                      period > PERIOD_MAX
                : text[length] != '\0') {
        return muster_error_set(error, MUSTER_ERR_INVALID,
                                "--shuffle %.60s: expected none, auto, "
                                "targeted or rotate:PERIOD such as rotate:30",
                                text);
    }
    shuffle->policy = (muster_shuffle_policy)policy;
    shuffle->period = period;
    return MUSTER_OK;
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

/* Turns that the slot with most new parts takes at the mean pace. */
static uint64_t turns_to_send(const muster_shuffle *s)
{
    uint64_t max = 0;
    uint64_t sum = 0;
    for (uint32_t slot = 0; slot < s->slots; slot++) {
        uint32_t moves =
            muster_shuffle_moves(s, slot, (slot + 1) % s->slots, NULL);
        max = moves > max ? moves : max;
        sum += moves;
    }
    return sum > 0 ? (max * s->slots + sum - 1) / sum : 0;
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
        muster_code_info info = *muster_code_numbers(opts->code);
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
    shuffle->ahead = turns_to_send(shuffle);
    shuffle->ahead_max = shuffle->ahead + AHEAD_MORE;
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

void muster_shuffle_invert(muster_shuffle *s, const uint32_t *slot_of)
{
    for (uint32_t worker = 0; worker < s->slots; worker++) {
        MUSTER_ASSERT(slot_of[worker] < s->slots);
        s->worker_of[slot_of[worker]] = worker;
    }
}

void muster_shuffle_observe(muster_shuffle *s, const uint32_t *slot_of,
                            const muster_shuffle_seen *seen)
{
    bool passing = false;
    for (uint32_t worker = 0; worker < s->slots; worker++) {
        passing = passing || seen[worker].passing;
    }
    s->passing = passing ? s->passing + 1 : 0;
    s->follows =
        s->policy == MUSTER_SHUFFLE_AUTO && s->passing >= PASSING_STEPS;
    for (uint32_t worker = 0; worker < s->slots; worker++) {
        s->seen[worker] = seen[worker];
        s->seen[worker].slow =
            seen[worker].slow && (!seen[worker].passing || s->follows);
    }
    muster_shuffle_invert(s, slot_of);
    for (uint32_t part = 0; part < s->parts; part++) {
        bool missed = true;
        for (uint32_t i = s->holder_first[part];
             missed && i < s->holder_first[part + 1]; i++) {
            missed = seen[s->worker_of[s->holder[i]]].late;
        }
        s->misses[part] += missed;
    }
}

/* Turns that the map lacks in `step`. */
static uint32_t turns_lacking(const muster_shuffle *s, uint64_t step,
                              const uint32_t *slot_of)
{
    uint64_t turn = step / s->period % s->slots;
    return (uint32_t)((turn + s->slots - slot_of[0]) % s->slots);
}

bool muster_shuffle_next(muster_shuffle *s, uint64_t step,
                         const uint32_t *slot_of, uint32_t *slot_of_out)
{
    if (s->policy >= MUSTER_SHUFFLE_TARGETED) {
        return muster_shuffle_target(s, slot_of, slot_of_out);
    }
    bool turns = s->policy == MUSTER_SHUFFLE_ROTATE &&
                 turns_lacking(s, step, slot_of) > 0;
    for (uint32_t worker = 0; worker < s->slots; worker++) {
        slot_of_out[worker] = (slot_of[worker] + (turns ? 1 : 0)) % s->slots;
    }
    return turns;
}

uint32_t muster_shuffle_turns_ahead(const muster_shuffle *s, uint64_t step,
                                    uint64_t end, const uint32_t *slot_of)
{
    if (s->policy != MUSTER_SHUFFLE_ROTATE || step >= end) {
        return 0;
    }
    uint64_t last = end - step > s->ahead ? step + s->ahead : end - 1;
    uint64_t turns =
        turns_lacking(s, step, slot_of) + last / s->period - step / s->period;
    return (uint32_t)(turns < last - step ? turns : last - step);
}

void muster_shuffle_was_late(muster_shuffle *s)
{
    uint64_t ahead = 2 * s->ahead + 1; // few turns are late until it suffices
    s->ahead = ahead < s->ahead_max ? ahead : s->ahead_max;
}

uint32_t muster_shuffle_slot_ahead(const muster_shuffle *s, uint32_t slot,
                                   uint32_t turns)
{
    MUSTER_ASSERT(s->policy == MUSTER_SHUFFLE_ROTATE);
    return (uint32_t)(((uint64_t)slot + turns) % s->slots);
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

/* Layout: format, parts, the misses of each part, for how many steps workers
 * were slow for a while; 8 bytes each. */
bool muster_shuffle_save(const muster_shuffle *s, muster_vec *bytes)
{
    size_t size = 8 * (3 + (size_t)s->parts);
    uint8_t *out = muster_mem_array(size, 1);
    if (out == NULL) {
        return false;
    }
    muster_bytes_put(out, FORMAT, 8);
    muster_bytes_put(out + 8, s->parts, 8);
    for (uint32_t part = 0; part < s->parts; part++) {
        muster_bytes_put(out + 8 * (2 + (size_t)part), s->misses[part], 8);
    }
    muster_bytes_put(out + size - 8, s->passing, 8);
    bool ok = muster_vec_append(bytes, out, size);
    muster_mem_free(out);
    return ok;
}

muster_status muster_shuffle_load(muster_shuffle *s, const void *bytes,
                                  size_t size)
{
    const uint8_t *at = bytes;
    uint64_t format = size >= 16 ? muster_bytes_get(at, 8) : 0;
    size_t numbers = format == FORMAT_1 ? 2 : 3;
    if ((format != FORMAT && format != FORMAT_1) ||
        size != 8 * (numbers + (size_t)s->parts) ||
        muster_bytes_get(at + 8, 8) != s->parts) {
        return MUSTER_ERR_INPUT;
    }
    for (uint32_t part = 0; part < s->parts; part++) {
        s->misses[part] = muster_bytes_get(at + 8 * (2 + (size_t)part), 8);
    }
    s->passing = format == FORMAT ? muster_bytes_get(at + size - 8, 8) : 0;
    return MUSTER_OK;
}
