/*
 * Consistent subsets against exhaustive small cases: every set of responders,
 * every liar and every pair of liars of some codes. Nobody honest is called
 * wrong; a liar is, wherever the code and the answers can tell.
 */
#include "code/consistent.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "base/rng.h"
#include "code/numbers.h"

#define WORKERS_MAX 9u
#define BLOCKS_MAX  4u
#define PARTS_MAX   36u
#define PROBES      3u
#define NOISE       1e-6

typedef struct scene {
    muster_code *code;
    muster_code_info info;
    double honest[WORKERS_MAX * BLOCKS_MAX * PROBES]; // by worker
    uint32_t responders[WORKERS_MAX];
    uint32_t count;
    muster_agreement agreement[WORKERS_MAX]; // by worker
} scene;

static void open_scene(scene *s, const char *name, uint32_t workers)
{
    muster_code_opts opts = MUSTER_CODE_OPTS_INIT;
    muster_error error = {MUSTER_OK, ""};
    muster_rng rng = muster_rng_make(5, workers);
    double parts[PARTS_MAX * BLOCKS_MAX * PROBES];
    *s = (scene){.count = 0};
    opts.name = name;
    opts.workers = workers;
    if (muster_code_create(&opts, &error, &s->code) != MUSTER_OK) {
        fail_msg("%s", error.text);
    }
    s->info = *muster_code_numbers(s->code);
    assert_true(s->info.parts <= PARTS_MAX && workers <= WORKERS_MAX);
    assert_true(s->info.gradient_blocks <= BLOCKS_MAX);
    for (size_t i = 0; i < PARTS_MAX * BLOCKS_MAX * PROBES; i++) {
        parts[i] = muster_rng_normal(&rng);
    }
    for (uint32_t w = 0; w < workers; w++) {
        const muster_code_encode_term *terms = NULL;
        uint32_t count = 0;
        assert_int_equal(muster_code_encode_terms(s->code, w, &terms, &count),
                         MUSTER_OK);
        for (uint32_t t = 0; t < count; t++) {
            size_t to = (w * s->info.message_blocks + terms[t].message_block) *
                        (size_t)PROBES;
            size_t from =
                (terms[t].part * BLOCKS_MAX + terms[t].gradient_block) *
                (size_t)PROBES;
            for (uint32_t q = 0; q < PROBES; q++) {
                s->honest[to + q] += terms[t].coef * parts[from + q];
            }
        }
    }
}

/* What is said when those of `mask` answer and those of `liars` lie. */
static void ask(scene *s, uint32_t mask, uint32_t liars)
{
    muster_rng rng = muster_rng_make(6, mask * 1024u + liars);
    double values[WORKERS_MAX * BLOCKS_MAX * PROBES];
    double noise[WORKERS_MAX];
    muster_agreement found[WORKERS_MAX];
    size_t length = (size_t)s->info.message_blocks * PROBES;
    s->count = 0;
    for (uint32_t w = 0; w < s->info.workers; w++) {
        s->agreement[w] = MUSTER_AGREE_UNKNOWN;
        if (((mask >> w) & 1u) == 0) {
            continue;
        }
        bool lies = ((liars >> w) & 1u) != 0;
        for (size_t i = 0; i < length; i++) {
            values[s->count * length + i] =
                s->honest[w * length + i] * (lies ? 1.5 : 1) +
                NOISE * muster_rng_normal(&rng);
        }
        noise[s->count] = NOISE;
        s->responders[s->count++] = w;
    }
    const muster_consistent_input input = {s->code, s->responders, s->count,
                                           PROBES,  values,        noise};
    assert_int_equal(muster_consistent_check(&input, found), MUSTER_OK);
    for (uint32_t i = 0; i < s->count; i++) {
        s->agreement[s->responders[i]] = found[i];
    }
}

static const struct {
    const char *name;
    uint32_t workers;
    bool is_general; // any workers' columns are in general position
} codes[] = {
    {"frc:s=1", 6, false},         {"frc:s=2", 6, false},
    {"linear:tuned:s=2", 6, true}, {"cyclic-mds:s=2", 6, true},
    {"rs:s=2", 6, true},           {"ye-abbe:s=1,m=2", 6, true},
    {"crc:s=1", 6, false},         {"linear:tuned:s=4", 8, true},
};
#define CODES (sizeof(codes) / sizeof(codes[0]))

static void honest_answers_are_never_accused(void **state)
{
    (void)state;
    for (size_t i = 0; i < CODES; i++) {
        scene s;
        open_scene(&s, codes[i].name, codes[i].workers);
        for (uint32_t mask = 0; mask < 1u << codes[i].workers; mask++) {
            ask(&s, mask, 0);
            for (uint32_t w = 0; w < codes[i].workers; w++) {
                assert_true(s.agreement[w] <= MUSTER_AGREE_GOOD);
            }
        }
        muster_code_free(s.code);
    }
}

/* Whoever is suspected, the liar is among them. */
static void check_one_liar(scene *s, uint32_t mask, uint32_t workers,
                           uint32_t liar)
{
    ask(s, mask, 1u << liar);
    for (uint32_t w = 0; w < workers; w++) {
        assert_true(w == liar || s->agreement[w] != MUSTER_AGREE_WRONG);
        assert_true(s->agreement[w] != MUSTER_AGREE_SUSPECT ||
                    s->agreement[liar] == MUSTER_AGREE_SUSPECT);
    }
}

static void nobody_honest_is_called_wrong_because_of_one_liar(void **state)
{
    (void)state;
    for (size_t i = 0; i < CODES; i++) {
        scene s;
        open_scene(&s, codes[i].name, codes[i].workers);
        for (uint32_t mask = 0; mask < 1u << codes[i].workers; mask++) {
            for (uint32_t liar = 0; liar < codes[i].workers; liar++) {
                check_one_liar(&s, mask, codes[i].workers, liar);
            }
        }
        muster_code_free(s.code);
    }
}

static uint32_t ones(uint32_t mask)
{
    return (uint32_t)__builtin_popcount(mask);
}

static void check_liars(scene *s, uint32_t mask, uint32_t workers,
                        uint32_t liars)
{
    ask(s, mask, liars);
    for (uint32_t w = 0; w < workers; w++) {
        muster_agreement expected =
            ((liars >> w) & 1u) != 0  ? MUSTER_AGREE_WRONG
            : ((mask >> w) & 1u) != 0 ? MUSTER_AGREE_GOOD
                                      : MUSTER_AGREE_UNKNOWN;
        assert_int_equal(s->agreement[w], expected);
    }
}

/* Of a code in general position, n - s answers are its rank. */
static void liars_up_to_half_of_the_surplus_are_found(void **state)
{
    (void)state;
    for (size_t i = 0; i < CODES; i++) {
        uint32_t n = codes[i].workers;
        scene s;
        open_scene(&s, codes[i].name, n);
        uint32_t rank = n - s.info.stragglers;
        for (uint32_t mask = 0; codes[i].is_general && mask < 1u << n; mask++) {
            uint32_t found = ones(mask) > rank ? (ones(mask) - rank) / 2 : 0;
            for (uint32_t liars = 1; liars < 1u << n; liars++) {
                if ((liars & ~mask) == 0 && ones(liars) <= found) {
                    check_liars(&s, mask, n, liars);
                }
            }
        }
        muster_code_free(s.code);
    }
}

static void three_copies_outvote_a_liar_and_two_suspect_each_other(void **state)
{
    (void)state;
    scene s;
    open_scene(&s, "frc:s=2", 6);
    const uint32_t *parts = NULL;
    uint32_t count = 0;
    uint32_t group = 0; // of worker 0, as a mask
    for (uint32_t w = 0; w < 6; w++) {
        uint32_t first = 0;
        assert_int_equal(muster_code_parts(s.code, 0, &parts, &count),
                         MUSTER_OK);
        first = parts[0];
        assert_int_equal(muster_code_parts(s.code, w, &parts, &count),
                         MUSTER_OK);
        group |= parts[0] == first ? 1u << w : 0;
    }
    assert_int_equal(ones(group), 3);
    for (uint32_t w = 0; w < 6; w++) {
        ask(&s, 63, 1u << w);
        assert_int_equal(s.agreement[w], MUSTER_AGREE_WRONG);
    }
    for (uint32_t gone = 1; gone < 6; gone++) {
        if (((group >> gone) & 1u) == 0) {
            continue;
        }
        ask(&s, 63u & ~(1u << gone), 1);
        for (uint32_t w = 0; w < 6; w++) {
            bool copy = ((group >> w) & 1u) != 0 && w != gone;
            assert_int_equal(s.agreement[w], w == gone ? MUSTER_AGREE_UNKNOWN
                                             : copy    ? MUSTER_AGREE_SUSPECT
                                                       : MUSTER_AGREE_GOOD);
        }
    }
    muster_code_free(s.code);
}

static void an_absurd_liar_does_not_raise_the_tolerance(void **state)
{
    (void)state;
    scene s;
    open_scene(&s, "linear:tuned:s=2", 6);
    double values[6 * PROBES];
    double noise[6];
    uint32_t all[6] = {0, 1, 2, 3, 4, 5};
    muster_agreement found[6];
    for (uint32_t liar = 0; liar < 6; liar++) {
        memcpy(values, s.honest, sizeof(values));
        for (uint32_t w = 0; w < 6; w++) {
            noise[w] = w == liar ? 1e20 * NOISE : NOISE;
        }
        for (uint32_t q = 0; q < PROBES; q++) {
            values[liar * PROBES + q] = 1e20;
        }
        const muster_consistent_input input = {s.code, all,    6,
                                               PROBES, values, noise};
        assert_int_equal(muster_consistent_check(&input, found), MUSTER_OK);
        for (uint32_t w = 0; w < 6; w++) {
            assert_int_equal(found[w], w == liar ? MUSTER_AGREE_WRONG
                                                 : MUSTER_AGREE_GOOD);
        }
    }
    muster_code_free(s.code);
}

/* As many sets of workers as there are to try must not take long either. */
static void four_liars_among_48_are_found(void **state)
{
    (void)state;
    enum { MANY = 48, LIARS = 4 };
    double values[MANY * BLOCKS_MAX] = {0};
    double noise[MANY];
    uint32_t all[MANY];
    muster_agreement found[MANY];
    muster_code_opts opts = MUSTER_CODE_OPTS_INIT;
    muster_code *code = NULL;
    opts.name = "cyclic-mds";
    opts.workers = MANY;
    opts.stragglers = 2 * LIARS;
    assert_int_equal(muster_code_create(&opts, NULL, &code), MUSTER_OK);
    uint32_t blocks = muster_code_numbers(code)->message_blocks;
    assert_true(blocks <= BLOCKS_MAX);
    for (uint32_t w = 0; w < MANY; w++) {
        const muster_code_encode_term *terms = NULL;
        uint32_t count = 0;
        assert_int_equal(muster_code_encode_terms(code, w, &terms, &count),
                         MUSTER_OK);
        for (uint32_t t = 0; t < count; t++) {
            double part = 1 + terms[t].part * 0.1 - terms[t].gradient_block;
            values[(size_t)w * blocks + terms[t].message_block] +=
                terms[t].coef * part;
        }
        values[(size_t)w * blocks] += w % 12 == 5 ? 1 : 0; // 5, 17, 29, 41
        noise[w] = NOISE;
        all[w] = w;
    }
    const muster_consistent_input input = {code, all, MANY, 1, values, noise};
    assert_int_equal(muster_consistent_check(&input, found), MUSTER_OK);
    for (uint32_t w = 0; w < MANY; w++) {
        assert_int_equal(found[w],
                         w % 12 == 5 ? MUSTER_AGREE_WRONG : MUSTER_AGREE_GOOD);
    }
    muster_code_free(code);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(honest_answers_are_never_accused),
        cmocka_unit_test(nobody_honest_is_called_wrong_because_of_one_liar),
        cmocka_unit_test(liars_up_to_half_of_the_surplus_are_found),
        cmocka_unit_test(
            three_copies_outvote_a_liar_and_two_suspect_each_other),
        cmocka_unit_test(an_absurd_liar_does_not_raise_the_tolerance),
        cmocka_unit_test(four_liars_among_48_are_found),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
