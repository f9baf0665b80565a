/*
 * balance.c -- see balance.h.
 */
#include "role/balance.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/assert.h"
#include "base/clock.h"
#include "base/mem.h"

#define ANSWERS_SKIPPED 1u
#define ANSWERS_LONG    2u // when they took LONG_NS together
#define LONG_NS         (MUSTER_NS_PER_S / 2)
#define ANSWERS_MANY    16u // when they took MANY_NS together
#define MANY_NS         (80 * MUSTER_NS_PER_MS)
#define ANSWERS_FIRST   4u // for the first map, when they took FIRST_NS
#define FIRST_NS        (20 * MUSTER_NS_PER_MS)
#define WINDOW          32u
#define MOVES_FIRST     3u
#define GAIN_FIRST      1.07
#define GAIN_LATER      1.10
/* After the first moves a step may take this much longer than the shortest
 * where that leaves shards where they are. */
#define SLACK_LATER 1.02
/* Two sizes tell the fixed cost when they differ by this much: nearer ones tell
 * the noise of two measurements. */
#define SIZES_APART 1.5

typedef struct worker_times {
    int64_t window_ns[WINDOW]; // the newest answers
    uint32_t skipped;
    uint32_t count;      // answers, also those that left the window
    int64_t together_ns; // of all counted
    double size_before;  // shards, under an earlier map; 0: none
    double time_before;  // ns, likewise
    bool is_fitted;      // fixed_ns was told by two sizes
    double fixed_ns;
    double shard_ns; // 0: not known
} worker_times;

struct muster_balance {
    uint32_t workers;
    uint32_t shards;
    bool waits;     // for the map that it has given
    bool suspects;  // that speeds have changed: the last measurement said so
    uint32_t moves; // maps given
    worker_times *times;
    uint32_t *size_max; // scratch: shards that each can do in a given time
};

muster_status muster_balance_create(uint32_t workers, uint32_t shards,
                                    muster_balance **balance_out)
{
    MUSTER_ASSERT(workers > 0 && shards >= workers);
    muster_balance *balance = muster_mem_array(1, sizeof(*balance));
    if (balance == NULL) {
        return MUSTER_ERR_NO_MEMORY;
    }
    balance->workers = workers;
    balance->shards = shards;
    balance->times = muster_mem_array(workers, sizeof(*balance->times));
    balance->size_max = muster_mem_array(workers, sizeof(*balance->size_max));
    if (balance->times == NULL || balance->size_max == NULL) {
        muster_balance_free(balance);
        return MUSTER_ERR_NO_MEMORY;
    }
    *balance_out = balance;
    return MUSTER_OK;
}

void muster_balance_free(muster_balance *balance)
{
    if (balance != NULL) {
        muster_mem_free(balance->times);
        muster_mem_free(balance->size_max);
        muster_mem_free(balance);
    }
}

void muster_balance_time(muster_balance *balance, uint32_t worker,
                         int64_t compute_ns)
{
    worker_times *times = &balance->times[worker];
    if (balance->waits || compute_ns <= 0) {
        return;
    }
    if (times->skipped < ANSWERS_SKIPPED) {
        times->skipped++;
        return;
    }
    times->window_ns[times->count++ % WINDOW] = compute_ns;
    times->together_ns += compute_ns;
}

static bool is_enough(const muster_balance *balance)
{
    for (uint32_t i = 0; i < balance->workers; i++) {
        const worker_times *times = &balance->times[i];
        bool is_long =
            times->count >= ANSWERS_LONG && times->together_ns >= LONG_NS;
        bool are_many =
            times->count >= ANSWERS_MANY && times->together_ns >= MANY_NS;
        // The first map is a rough one, and others follow.
        bool are_some = balance->moves == 0 && times->count >= ANSWERS_FIRST &&
                        times->together_ns >= FIRST_NS;
        if (!is_long && !are_many && !are_some) {
            return false;
        }
    }
    return true;
}

static int compare_ns(const void *left, const void *right)
{
    int64_t a = *(const int64_t *)left;
    int64_t b = *(const int64_t *)right;
    return a < b ? -1 : a > b;
}

static double median_ns(const worker_times *times)
{
    int64_t sorted[WINDOW];
    uint32_t count = times->count < WINDOW ? times->count : WINDOW;
    memcpy(sorted, times->window_ns, count * sizeof(*sorted));
    qsort(sorted, count, sizeof(*sorted), compare_ns);
    uint32_t low = (count - 1) / 2;
    uint32_t high = count / 2;
    return ((double)sorted[low] + (double)sorted[high]) / 2;
}

/* Time by size: a line through two sizes, or through one and zero. */
static void fit(worker_times *times, double size, double time)
{
    double before = times->size_before;
    bool apart = before > 0 &&
                 (size > before * SIZES_APART || before > size * SIZES_APART);
    double slope =
        apart ? (time - times->time_before) / (size - before) : time / size;
    // More than in proportion, or less than nothing, is noise.
    slope = slope > time / size ? time / size : slope;
    slope = slope < time / size / 2 ? time / size / 2 : slope;
    if (apart || times->shard_ns <= 0) {
        times->shard_ns = slope;
    } else { // the fixed cost stays; the speed is what it is now
        double rest = time - times->fixed_ns;
        times->shard_ns = rest > time / 2 ? rest / size : time / 2 / size;
    }
    times->is_fitted = times->is_fitted || apart;
    times->fixed_ns = time - times->shard_ns * size;
}

/* Whole shards that each worker can do in a time, at least one; their sum. */
static uint64_t sizes_at(muster_balance *balance, double level_ns)
{
    uint64_t sum = 0;
    for (uint32_t i = 0; i < balance->workers; i++) {
        const worker_times *times = &balance->times[i];
        double size = (level_ns - times->fixed_ns) / times->shard_ns;
        double max = balance->shards;
        size = size < max ? size : max;
        balance->size_max[i] = size > 1 ? (uint32_t)size : 1;
        sum += balance->size_max[i];
    }
    return sum;
}

/* The shortest time in which the workers can do all shards together. */
static double level_of(muster_balance *balance)
{
    double low = 0, high = 0;
    for (uint32_t i = 0; i < balance->workers; i++) {
        const worker_times *times = &balance->times[i];
        // One more than there are: enough whatever rounding does.
        double all = times->fixed_ns + times->shard_ns * (balance->shards + 1);
        high = all > high ? all : high;
    }
    for (int i = 0; i < 100; i++) {
        double middle = (low + high) / 2;
        if (sizes_at(balance, middle) < balance->shards) {
            low = middle;
        } else {
            high = middle;
        }
    }
    return high;
}

/* Each worker's shards end as near to where they ended as the sizes allow. */
static void move_ends(const muster_balance *balance, const uint32_t *first,
                      uint32_t *first_out)
{
    uint64_t after = 0; // shards that the workers from i + 1 on can do
    for (uint32_t i = 0; i < balance->workers; i++) {
        after += balance->size_max[i];
    }
    first_out[0] = 0;
    for (uint32_t i = 0; i < balance->workers; i++) {
        uint32_t begin = first_out[i];
        uint32_t left = balance->workers - 1 - i; // each of them keeps one
        uint32_t max = begin + balance->size_max[i];
        max = max < balance->shards - left ? max : balance->shards - left;
        after -= balance->size_max[i];
        uint32_t min =
            after < balance->shards ? balance->shards - (uint32_t)after : 0;
        min = min > begin ? min : begin + 1;
        uint32_t end = first[i + 1];
        first_out[i + 1] = end < min ? min : end > max ? max : end;
    }
}

static double slowest_ns(const muster_balance *balance, const uint32_t *first)
{
    double slowest = 0;
    for (uint32_t i = 0; i < balance->workers; i++) {
        const worker_times *times = &balance->times[i];
        double time =
            times->fixed_ns + times->shard_ns * (first[i + 1] - first[i]);
        slowest = time > slowest ? time : slowest;
    }
    return slowest;
}

static void forget_times(muster_balance *balance)
{
    for (uint32_t i = 0; i < balance->workers; i++) {
        worker_times *times = &balance->times[i];
        times->count = 0;
        times->together_ns = 0;
    }
}

static bool is_worth_it(muster_balance *balance, double gain)
{
    if (balance->moves < MOVES_FIRST) {
        return gain >= GAIN_FIRST;
    }
    bool again = balance->suspects;
    balance->suspects = gain >= GAIN_LATER;
    return balance->suspects && again;
}

bool muster_balance_next(muster_balance *balance, const uint32_t *first,
                         uint32_t *first_out)
{
    if (balance->waits || !is_enough(balance)) {
        return false;
    }
    for (uint32_t i = 0; i < balance->workers; i++) {
        uint32_t size = first[i + 1] - first[i];
        fit(&balance->times[i], size > 0 ? size : 1,
            median_ns(&balance->times[i]));
    }
    double slack = balance->moves < MOVES_FIRST ? 1 : SLACK_LATER;
    (void)sizes_at(balance, level_of(balance) * slack);
    move_ends(balance, first, first_out);
    double gain = slowest_ns(balance, first) / slowest_ns(balance, first_out);
    if (!is_worth_it(balance, gain)) {
        forget_times(balance); // and look again later
        return false;
    }
    for (uint32_t i = 0; i < balance->workers; i++) {
        worker_times *times = &balance->times[i];
        times->size_before = first[i + 1] - first[i];
        times->time_before =
            times->fixed_ns + times->shard_ns * times->size_before;
    }
    balance->waits = true;
    balance->moves++;
    return true;
}

void muster_balance_adopted(muster_balance *balance)
{
    balance->waits = false;
    forget_times(balance);
    for (uint32_t i = 0; i < balance->workers; i++) {
        balance->times[i].skipped = 0;
    }
}

void muster_balance_resume(muster_balance *balance)
{
    balance->moves = MOVES_FIRST;
}

double muster_balance_speed(const muster_balance *balance, uint32_t worker)
{
    double shard_ns = balance->times[worker].shard_ns;
    return shard_ns > 0 ? (double)MUSTER_NS_PER_S / shard_ns : 0;
}
