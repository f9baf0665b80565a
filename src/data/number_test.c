/*
 * number_test.c -- the parser against strtod as a slow twin, on numbers printed
 * in many ways, and on everything that is not a number.
 */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/rng.h"
#include "data/number.h"

static void agree_with_strtod(const char *text)
{
    float value = 0.0f;
    const char *end;
    char *oracle_end;
    float oracle = (float)strtod(text, &oracle_end);
    assert_int_equal(muster_number_parse(text, &value, &end),
                     MUSTER_NUMBER_FINITE);
    assert_ptr_equal(end, oracle_end);
    if (value != oracle || signbit(value) != signbit(oracle)) {
        fail_msg("%s: %.9g, but strtod says %.9g", text, (double)value,
                 (double)oracle);
    }
}

static void every_way_to_write_a_number_is_read(void **state)
{
    (void)state;
    static const char *const texts[] = {
        "0",
        "-0",
        "+1",
        "1.",
        ".5",
        "-.25e1",
        "1e0",
        "1E+3",
        "1e-3",
        "007",
        "3.40e38",
        "1e-45",
        "1e-50",
        "1e-99",
        "0e999",
        "123:4",
        "12e",
        "12e+",
        "5,6",
        "0b10",
        "1e-4000",
        "0.1",
        "16777217",
        "16777216.99",
        "1.5 end",
        "9007199254740993",
        "123456789012345678901234567890",
        "0.000000000000000000000000000000123456789",
        "3.14159265358979323846264338327950288",
        "340282346638528859811704183484516925440",
    };
    for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
        agree_with_strtod(texts[i]);
    }
}

static void printed_floats_come_back(void **state)
{
    (void)state;
    static const int digits[] = {3, 6, 9, 18};
    muster_rng rng = muster_rng_make(1, 2);
    for (int i = 0; i < 40000; i++) {
        uint32_t bits = (uint32_t)muster_rng_next(&rng);
        float value;
        memcpy(&value, &bits, sizeof(value));
        if ((bits & 0x7f800000u) == 0x7f800000u) {
            continue;
        }
        char text[128];
        snprintf(text, sizeof(text), "%.*g", digits[i % 4], (double)value);
        agree_with_strtod(text);
        snprintf(text, sizeof(text), "%.*e", digits[i % 4], (double)value);
        agree_with_strtod(text);
        snprintf(text, sizeof(text), "%.*f", digits[i % 4], (double)value);
        agree_with_strtod(text);
    }
}

static void what_is_not_finite_is_told_apart(void **state)
{
    (void)state;
    static const char *const texts[] = {"nan",  "NaN",     "-inf",  "+Infinity",
                                        "1e39", "-1e9999", "3.5e38"};
    for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
        float value = 7.0f;
        const char *end;
        assert_int_equal(muster_number_parse(texts[i], &value, &end),
                         MUSTER_NUMBER_NOT_FINITE);
        assert_int_equal(*end, '\0');
        assert_true(value == 7.0f);
    }
}

static void what_is_no_number_is_refused(void **state)
{
    (void)state;
    static const char *const texts[] = {"",   "-",  "+",   ".",  "-.",
                                        "e5", "x1", "--1", " 1", "in"};
    for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
        float value;
        const char *end;
        assert_int_equal(muster_number_parse(texts[i], &value, &end),
                         MUSTER_NUMBER_NONE);
        assert_ptr_equal(end, texts[i]);
    }
}

static void absurd_lengths_are_harmless(void **state)
{
    (void)state;
    char text[3000];
    memset(text, '0', sizeof(text));
    text[1] = '.';
    text[2998] = '9';
    text[2999] = '\0';
    agree_with_strtod(text);
    memset(text, '9', sizeof(text) - 1);
    float value;
    const char *end;
    assert_int_equal(muster_number_parse(text, &value, &end),
                     MUSTER_NUMBER_NOT_FINITE);
    assert_int_equal(
        muster_number_parse("1e99999999999999999999", &value, &end),
        MUSTER_NUMBER_NOT_FINITE);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_way_to_write_a_number_is_read),
        cmocka_unit_test(printed_floats_come_back),
        cmocka_unit_test(what_is_not_finite_is_told_apart),
        cmocka_unit_test(what_is_no_number_is_refused),
        cmocka_unit_test(absurd_lengths_are_harmless),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
