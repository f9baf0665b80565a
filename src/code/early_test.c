/*
 * early_test.c -- `ready` of codes that solve, against a slow oracle: do the
 * answers span the sum? In every order of few workers, in every set of up to
 * ten, in random orders of more.
 */
#include "code/code_test.h"
#include "code/family.h"

#define WORKERS_MAX 26u
#define ENTRIES_MAX ((size_t)(2 * WORKERS_MAX + 1) * 2 * WORKERS_MAX)

/* Make `row` orthogonal to `rank` unit rows, twice for accuracy; returns what
 * is left of its length. */
static double reduce(const double *basis, uint32_t rank, size_t width,
                     double *row)
{
    for (uint32_t i = 0; i < 2 * rank; i++) {
        const double *known = basis + (i % rank) * width;
        double along = 0.0;
        for (size_t c = 0; c < width; c++) {
            along += known[c] * row[c];
        }
        for (size_t c = 0; c < width; c++) {
            row[c] -= along * known[c];
        }
    }
    double left = 0.0;
    for (size_t c = 0; c < width; c++) {
        left += row[c] * row[c];
    }
    return sqrt(left);
}

/* Row (worker, block) of the encoding: parts x gradient blocks wide. */
static void fill_row(const muster_code *code, uint32_t worker, uint32_t block,
                     double *row, size_t width)
{
    const muster_code_encode_term *terms;
    uint32_t count;
    memset(row, 0, width * sizeof(double));
    assert_int_equal(muster_code_encode_terms(code, worker, &terms, &count),
                     MUSTER_OK);
    for (uint32_t i = 0; i < count; i++) {
        if (terms[i].message_block == block) {
            row[(size_t)terms[i].part * code->info.gradient_blocks +
                terms[i].gradient_block] = terms[i].coef;
        }
    }
}

/* The oracle: is the sum of the first gradient blocks in the span of what these
 * workers send? (The other blocks of a complex code follow.) */
static bool spans_the_sum(const muster_code *code, const uint32_t *responders,
                          uint32_t count)
{
    static double basis[ENTRIES_MAX];
    uint32_t blocks = code->info.gradient_blocks;
    size_t width = (size_t)code->info.parts * blocks;
    uint32_t rank = 0;
    for (uint32_t r = 0; r < count * code->info.message_blocks; r++) {
        double *row = basis + rank * width;
        fill_row(code, responders[r / code->info.message_blocks],
                 r % code->info.message_blocks, row, width);
        double before = reduce(NULL, 0, width, row);
        double left = reduce(basis, rank, width, row);
        if (left > 1e-9 * before) {
            for (size_t c = 0; c < width; c++) {
                row[c] /= left;
            }
            rank++;
        }
    }
    double *target = basis + rank * width;
    for (size_t c = 0; c < width; c++) {
        target[c] = c % blocks == 0 ? 1.0 : 0.0;
    }
    return reduce(basis, rank, width, target) < 1e-7 * sqrt((double)width);
}

/* ---- every order --------------------------------------------------------- */

typedef struct walk {
    muster_code *code;
    muster_code_progress *progress;
    bool spans[1u << 10]; // by set
    uint32_t order[10];
} walk;

static void walk_init(walk *w, const char *name, uint32_t n, uint32_t s)
{
    w->code = build_code(name, n, s, 0);
    assert_int_equal(muster_code_progress_create(w->code, &w->progress),
                     MUSTER_OK);
    for (uint32_t mask = 0; mask < 1u << n; mask++) {
        uint32_t responders[32];
        uint32_t count = members(mask, n, responders);
        w->spans[mask] = spans_the_sum(w->code, responders, count);
    }
}

static void walk_fini(walk *w)
{
    muster_code_progress_free(w->progress);
    muster_code_free(w->code);
}

/* Answers in this order: ready from the first set that spans the sum on. */
static void check_order(const walk *w, uint32_t count)
{
    uint32_t mask = 0;
    muster_code_progress_reset(w->progress);
    for (uint32_t i = 0; i < count; i++) {
        mask |= 1u << w->order[i];
        bool ready = muster_code_progress_add(w->progress, w->order[i]);
        if (ready != w->spans[mask]) {
            fail_msg("%s n=%u s=%u: ready %d for the set %x",
                     w->code->info.name, w->code->info.workers,
                     w->code->info.stragglers, ready, mask);
        }
    }
}

/* All orders that begin with the first `fixed` of w->order. */
static void check_orders(walk *w, uint32_t n, uint32_t fixed)
{
    if (fixed == n) {
        check_order(w, n);
        return;
    }
    for (uint32_t i = fixed; i < n; i++) {
        uint32_t next = w->order[i];
        w->order[i] = w->order[fixed];
        w->order[fixed] = next;
        check_orders(w, n, fixed + 1);
        w->order[fixed] = w->order[i];
        w->order[i] = next;
    }
}

static void every_order_of_seven_is_ready_at_once(void **state)
{
    (void)state;
    for (uint32_t n = 1; n <= 7; n++) {
        for (uint32_t s = 0; s < n; s++) {
            walk w;
            walk_init(&w, "cyclic-mds", n, s);
            for (uint32_t i = 0; i < n; i++) {
                w.order[i] = i;
            }
            check_orders(&w, n, 0);
            walk_fini(&w);
        }
    }
}

/* ---- every set ----------------------------------------------------------- */

/* A set that spans the sum is ready, in both directions, and decodes. Returns
 * whether that took fewer than n - s answers. */
static bool check_set(walk *w, uint32_t mask)
{
    uint32_t n = w->code->info.workers;
    uint32_t responders[32];
    uint32_t count = members(mask, n, responders);
    for (uint32_t i = 0; i < count; i++) {
        w->order[i] = responders[i];
    }
    check_order(w, count);
    for (uint32_t i = 0; i < count; i++) {
        w->order[i] = responders[count - 1 - i];
    }
    check_order(w, count);
    muster_code_decode_term terms[4 * 10];
    size_t term_count;
    muster_code_fit fit = MUSTER_CODE_FIT_INIT;
    muster_status status = muster_code_weights(w->code, responders, count,
                                               terms, &term_count, &fit);
    assert_int_equal(status, w->spans[mask] ? MUSTER_OK : MUSTER_INEXACT);
    return w->spans[mask] && count + w->code->info.stragglers < n;
}

static void every_set_of_ten_is_ready_when_it_decodes(void **state)
{
    (void)state;
    static const char *const names[] = {"cyclic-mds", "rs", "crc"};
    for (size_t c = 0; c < 3; c++) {
        uint32_t early = 0;
        for (uint32_t n = 8; n <= 10; n++) {
            for (uint32_t s = 0; s < n; s++) {
                walk w;
                walk_init(&w, names[c], n, s);
                for (uint32_t mask = 1; mask < 1u << n; mask++) {
                    early += check_set(&w, mask);
                }
                walk_fini(&w);
            }
        }
        // The others are ready with n - s answers, never before.
        assert_true((early > 0) == (c == 0));
    }
}

/* ---- random orders ------------------------------------------------------- */

/* Worker i of random order number `round`. */
static void shuffle(muster_rng *rng, uint32_t n, uint32_t *order)
{
    for (uint32_t i = 0; i < n; i++) {
        uint32_t j = (uint32_t)muster_rng_below(rng, i + 1);
        order[i] = order[j];
        order[j] = i;
    }
}

/* The oracle says no before `ready` does, and yes with it. */
static void check_long_order(const muster_code *code,
                             muster_code_progress *progress,
                             const uint32_t *order)
{
    uint32_t n = code->info.workers;
    muster_code_progress_reset(progress);
    for (uint32_t i = 0; i < n; i++) {
        bool ready = muster_code_progress_add(progress, order[i]);
        assert_int_equal(ready, spans_the_sum(code, order, i + 1));
        if (ready) {
            return;
        }
    }
    fail_msg("%s n=%u never ready", code->info.name, n);
}

static void random_orders_are_ready_when_they_decode(void **state)
{
    (void)state;
    static const uint32_t cases[][2] = {{12, 1}, {12, 3}, {15, 2}, {15, 4},
                                        {16, 1}, {16, 4}, {20, 5}, {21, 6},
                                        {24, 1}, {24, 3}, {26, 4}};
    muster_rng rng = muster_rng_make(23, 1);
    for (size_t c = 0; c < sizeof(cases) / sizeof(cases[0]); c++) {
        uint32_t n = cases[c][0];
        muster_code *code = build_code("cyclic-mds", n, cases[c][1], 0);
        muster_code_progress *progress = NULL;
        assert_int_equal(muster_code_progress_create(code, &progress),
                         MUSTER_OK);
        for (int round = 0; round < 20; round++) {
            uint32_t order[WORKERS_MAX];
            shuffle(&rng, n, order);
            check_long_order(code, progress, order);
        }
        muster_code_progress_free(progress);
        muster_code_free(code);
    }
}

/* Larger than the oracle likes: every second worker of 1,000 is enough. */
static void half_of_a_thousand_is_enough_for_one_straggler(void **state)
{
    (void)state;
    muster_code *code = build_code("cyclic-mds", 1000, 1, 0);
    muster_code_progress *progress = NULL;
    uint32_t odd[500];
    muster_code_decode_term terms[1000];
    size_t count;
    muster_code_fit fit = MUSTER_CODE_FIT_INIT;
    assert_int_equal(muster_code_progress_create(code, &progress), MUSTER_OK);
    for (uint32_t i = 0; i < 500; i++) {
        odd[i] = 2 * i + 1;
        assert_int_equal(muster_code_progress_add(progress, odd[i]), i == 499);
    }
    assert_int_equal(muster_code_weights(code, odd, 500, terms, &count, &fit),
                     MUSTER_OK);
    assert_int_equal(count, 500);
    assert_true(fit.residual < 1e-12);
    muster_code_progress_free(progress);
    muster_code_free(code);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_order_of_seven_is_ready_at_once),
        cmocka_unit_test(every_set_of_ten_is_ready_when_it_decodes),
        cmocka_unit_test(random_orders_are_ready_when_they_decode),
        cmocka_unit_test(half_of_a_thousand_is_enough_for_one_straggler),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
