/*
 * value_test.c -- what people write becomes the number they mean, and nothing
 * else becomes a number.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/suggest.h"
#include "base/value.h"

static void whole_numbers_are_digits_that_fit(void **state)
{
    (void)state;
    uint64_t value = 7;
    assert_true(muster_value_uint("0", &value));
    assert_int_equal(value, 0);
    assert_true(muster_value_uint("18446744073709551615", &value));
    assert_true(value == UINT64_MAX);
    assert_true(muster_value_uint("25e3", &value));
    assert_int_equal(value, 25000);
    assert_true(muster_value_uint("0e30", &value));
    assert_int_equal(value, 0);
    static const char *const wrong[] = {
        "",     "-1",   "+1",   " 1",
        "1 ",   "1.0",  "0x10", "one",
        "1e",   "e5",   "1e-3", "1e+3",
        "1e20", "1e99", "1e3x", "18446744073709551616"};
    for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
        value = 7;
        assert_false(muster_value_uint(wrong[i], &value));
        assert_int_equal(value, 7);
    }
}

static void numbers_are_finite_decimals(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        double value;
    } right[] = {{"0.1", 0.1}, {"-1.5e-3", -1.5e-3}, {"1e6", 1e6},
                 {".5", 0.5},  {"5.", 5.0},          {"+2", 2.0}};
    double value = 7;
    for (size_t i = 0; i < sizeof(right) / sizeof(right[0]); i++) {
        assert_true(muster_value_double(right[i].text, &value));
        assert_true(value == right[i].value);
    }
    static const char *const wrong[] = {"",      "nan", "inf", "1e999",
                                        "0x1p3", " 1",  "1 ",  ".",
                                        "e5",    "1e",  "1,5", "--1"};
    for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
        assert_false(muster_value_double(wrong[i], &value));
    }
}

static void durations_need_a_unit(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        int64_t ns;
    } right[] = {{"200ms", 200000000},
                 {"2s", 2000000000},
                 {"1m", 60000000000},
                 {"1min", 60000000000},
                 {"1.5h", 5400000000000},
                 {"7us", 7000},
                 {"12ns", 12},
                 {"0", 0},
                 {"0.25s", 250000000}};
    int64_t ns = 7;
    for (size_t i = 0; i < sizeof(right) / sizeof(right[0]); i++) {
        assert_true(muster_value_duration_ns(right[i].text, &ns));
        assert_true(ns == right[i].ns);
    }
    static const char *const wrong[] = {"",   "5",   "-1s", "1 s",   "s",
                                        "1d", "1sx", "ms",  "1e300h"};
    for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
        assert_false(muster_value_duration_ns(wrong[i], &ns));
    }
}

static void seconds_are_shown_with_the_unit_that_fits(void **state)
{
    (void)state;
    static const struct {
        double seconds;
        const char *text;
    } rows[] = {{0.05, "50ms"}, {3600, "1h"}, {0, "0s"}, {90, "1.5m"}};
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        char text[32];
        muster_value_format_seconds(rows[i].seconds, text, sizeof(text));
        assert_string_equal(text, rows[i].text);
    }
}

static void switches_are_words(void **state)
{
    (void)state;
    bool value = false;
    assert_true(muster_value_bool("yes", &value) && value);
    assert_true(muster_value_bool("off", &value) && !value);
    assert_false(muster_value_bool("maybe", &value));
    assert_false(muster_value_bool("", &value));
}

static void text_is_utf8_of_one_line(void **state)
{
    (void)state;
    static const char *const right[] = {"",
                                        "plain",
                                        "\xc3\xa9",
                                        "\xe2\x82\xac",
                                        "\xf0\x9f\x98\x80",
                                        "\xed\x9f\xbf",
                                        "\xf4\x8f\xbf\xbf"};
    for (size_t i = 0; i < sizeof(right) / sizeof(right[0]); i++) {
        assert_true(muster_value_is_text(right[i]));
    }
    static const char *const wrong[] = {"a\nb",
                                        "\x1b[0m",
                                        "\x7f",
                                        "\x80",
                                        "\xc3",
                                        "\xc0\x80",
                                        "\xe2\x82",
                                        "\xe0\x80\x80",
                                        "\xed\xa0\x80",
                                        "\xf0\x80\x80\x80",
                                        "\xf4\x90\x80\x80",
                                        "\xff",
                                        "x\xfe"};
    for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
        assert_false(muster_value_is_text(wrong[i]));
    }
}

static unsigned least3(unsigned a, unsigned b, unsigned c)
{
    unsigned min = a < b ? a : b;
    return min < c ? min : c;
}

/* The definition, without the table: exponential, so for short words only. */
static unsigned slow_distance(const char *a, size_t n, const char *b, size_t m)
{
    if (n == 0 || m == 0) {
        return (unsigned)(n + m);
    }
    unsigned best = least3(
        slow_distance(a, n - 1, b, m) + 1, slow_distance(a, n, b, m - 1) + 1,
        slow_distance(a, n - 1, b, m - 1) + (a[n - 1] != b[m - 1]));
    if (n > 1 && m > 1 && a[n - 1] == b[m - 2] && a[n - 2] == b[m - 1]) {
        unsigned swapped = slow_distance(a, n - 2, b, m - 2) + 1;
        best = swapped < best ? swapped : best;
    }
    return best;
}

static void the_distance_is_that_of_its_slow_twin(void **state)
{
    (void)state;
    static const char *const words[] = {"",      "kill", "kil",  "klil",
                                        "slow",  "lows", "stop", "tops",
                                        "steps", "ab",   "ba"};
    size_t count = sizeof(words) / sizeof(words[0]);
    for (size_t i = 0; i < count; i++) {
        for (size_t j = 0; j < count; j++) {
            assert_int_equal(muster_suggest_distance(words[i], words[j]),
                             slow_distance(words[i], strlen(words[i]), words[j],
                                           strlen(words[j])));
        }
    }
    char huge[200];
    memset(huge, 'x', sizeof(huge));
    huge[sizeof(huge) - 1] = '\0';
    assert_true(muster_suggest_distance(huge, "x") == UINT32_MAX);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(whole_numbers_are_digits_that_fit),
        cmocka_unit_test(numbers_are_finite_decimals),
        cmocka_unit_test(durations_need_a_unit),
        cmocka_unit_test(seconds_are_shown_with_the_unit_that_fits),
        cmocka_unit_test(switches_are_words),
        cmocka_unit_test(text_is_utf8_of_one_line),
        cmocka_unit_test(the_distance_is_that_of_its_slow_twin),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
