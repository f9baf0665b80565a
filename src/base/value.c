/*
 * value.c -- text to numbers, strictly: no white space, no leftovers.
 */
#include "base/value.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define NUMBER_LENGTH_MAX 63u

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

/* value = value * 10 + digit, where that fits. */
static bool take_digit(uint64_t digit, uint64_t *value)
{
    if (*value > (UINT64_MAX - digit) / 10) {
        return false;
    }
    *value = *value * 10 + digit;
    return true;
}

/* "e6" after the digits of a whole number. */
static bool take_power(const char *text, uint64_t *value)
{
    uint64_t power = 0;
    if (!is_digit(text[1])) {
        return false;
    }
    for (text++; is_digit(*text) && power <= 20; text++) {
        power = power * 10 + (uint64_t)(*text - '0');
    }
    for (; power > 0 && *value > 0; power--) {
        if (!take_digit(0, value)) {
            return false;
        }
    }
    return *text == '\0';
}

bool muster_value_uint(const char *text, uint64_t *value_out)
{
    uint64_t value = 0;
    const char *at = text;
    for (; is_digit(*at); at++) {
        if (!take_digit((uint64_t)(*at - '0'), &value)) {
            return false;
        }
    }
    bool power = at > text && (*at == 'e' || *at == 'E');
    if (power ? !take_power(at, &value) : at == text || *at != '\0') {
        return false;
    }
    *value_out = value;
    return true;
}

/* The length of the decimal number that `text` begins with; strtod alone would
 * also take white space, hexadecimal, "inf" and "nan". */
static size_t number_length(const char *text)
{
    size_t i = text[0] == '-' || text[0] == '+';
    size_t digits = strspn(text + i, "0123456789");
    i += digits;
    if (text[i] == '.') {
        size_t after = strspn(text + i + 1, "0123456789");
        digits += after;
        i += 1 + after;
    }
    if (digits == 0) {
        return 0;
    }
    if (text[i] == 'e' || text[i] == 'E') {
        size_t sign = text[i + 1] == '-' || text[i + 1] == '+';
        size_t exponent = strspn(text + i + 1 + sign, "0123456789");
        i += exponent > 0 ? 1 + sign + exponent : 0;
    }
    return i;
}

static bool number_n(const char *text, size_t length, double *value_out)
{
    char copy[NUMBER_LENGTH_MAX + 1];
    if (length == 0 || length > NUMBER_LENGTH_MAX) {
        return false;
    }
    memcpy(copy, text, length);
    copy[length] = '\0';
    double value = strtod(copy, NULL);
    if (!isfinite(value)) {
        return false;
    }
    *value_out = value;
    return true;
}

bool muster_value_double(const char *text, double *value_out)
{
    size_t length = number_length(text);
    return text[length] == '\0' && number_n(text, length, value_out);
}

bool muster_value_bool(const char *text, bool *value_out)
{
    static const char *const yes[] = {"true", "yes", "on", "1"};
    static const char *const no[] = {"false", "no", "off", "0"};
    for (size_t i = 0; i < 4; i++) {
        if (strcmp(text, yes[i]) == 0 || strcmp(text, no[i]) == 0) {
            *value_out = strcmp(text, yes[i]) == 0;
            return true;
        }
    }
    return false;
}

/* "min" stands before "m", which texts are written with. */
static const struct {
    const char *name;
    double ns;
    double seconds;
} units[] = {
    {"ns", 1, 1e-9},   {"us", 1e3, 1e-6}, {"ms", 1e6, 1e-3},   {"s", 1e9, 1},
    {"min", 60e9, 60}, {"m", 60e9, 60},   {"h", 3600e9, 3600},
};
#define UNITS (sizeof(units) / sizeof(units[0]))

/* The number of a duration and its unit; a bare 0 has any. */
static bool duration(const char *text, double *number_out, size_t *unit_out)
{
    size_t length = number_length(text);
    if (!number_n(text, length, number_out) || *number_out < 0) {
        return false;
    }
    const char *name = text + length;
    if (*name == '\0' && *number_out <= 0) {
        *unit_out = 0;
        return true;
    }
    for (size_t i = 0; i < UNITS; i++) {
        if (strcmp(name, units[i].name) == 0) {
            *unit_out = i;
            return *number_out * units[i].ns <= 9.2e18;
        }
    }
    return false;
}

bool muster_value_duration_ns(const char *text, int64_t *value_out)
{
    double number;
    size_t unit;
    if (!duration(text, &number, &unit)) {
        return false;
    }
    *value_out = (int64_t)llround(number * units[unit].ns);
    return true;
}

bool muster_value_duration_s(const char *text, double *value_out)
{
    double number;
    size_t unit;
    if (!duration(text, &number, &unit)) {
        return false;
    }
    *value_out = number * units[unit].seconds;
    return true;
}

/* The length of the UTF-8 character at `at`, 0 when it is none. Every byte is
 * looked at before the next, so the terminating zero is never passed. */
static size_t character_length(const unsigned char *at)
{
    size_t length = at[0] < 0x80    ? 1
                    : at[0] < 0xc2  ? 0 // a continuation, or overlong
                    : at[0] < 0xe0  ? 2
                    : at[0] < 0xf0  ? 3
                    : at[0] <= 0xf4 ? 4
                                    : 0;
    for (size_t i = 1; i < length; i++) {
        if ((at[i] & 0xc0) != 0x80) {
            return 0;
        }
    }
    bool is_wrong = (at[0] == 0xe0 && at[1] < 0xa0) ||  // overlong
                    (at[0] == 0xed && at[1] >= 0xa0) || // surrogate
                    (at[0] == 0xf0 && at[1] < 0x90) ||  // overlong
                    (at[0] == 0xf4 && at[1] >= 0x90);   // beyond Unicode
    return is_wrong ? 0 : length;
}

bool muster_value_is_text(const char *text)
{
    const unsigned char *at = (const unsigned char *)text;
    while (*at != '\0') {
        size_t length = character_length(at);
        if (length == 0 || *at < 0x20 || *at == 0x7f) {
            return false;
        }
        at += length;
    }
    return true;
}

void muster_value_format_seconds(double seconds, char *text_out, size_t size)
{
    double ns = seconds * 1e9;
    size_t best = 3; // seconds, also for 0
    for (size_t i = UNITS; i-- > 0;) {
        if (ns >= units[i].ns) {
            best = i;
            break;
        }
    }
    snprintf(text_out, size, "%.10g%s", ns / units[best].ns, units[best].name);
}
