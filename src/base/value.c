/*
 * value.c -- text to numbers, strictly: no white space, no leftovers.
 */
#include "base/value.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define NUMBER_LENGTH_MAX 63u

bool muster_value_uint(const char *text, uint64_t *value_out)
{
    uint64_t value = 0;
    if (*text == '\0') {
        return false;
    }
    for (; *text != '\0'; text++) {
        if (*text < '0' || *text > '9') {
            return false;
        }
        uint64_t digit = (uint64_t)(*text - '0');
        if (value > (UINT64_MAX - digit) / 10) {
            return false;
        }
        value = value * 10 + digit;
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

static const struct {
    const char *name;
    double ns;
} units[] = {
    {"ns", 1}, {"us", 1e3}, {"ms", 1e6}, {"s", 1e9}, {"m", 60e9}, {"h", 3600e9},
};

bool muster_value_duration_ns(const char *text, int64_t *value_out)
{
    size_t length = number_length(text);
    double number;
    if (!number_n(text, length, &number) || number < 0) {
        return false;
    }
    const char *unit = text + length;
    double scale = *unit == '\0' && number <= 0 ? 1 : 0;
    for (size_t i = 0; i < sizeof(units) / sizeof(units[0]); i++) {
        if (strcmp(unit, units[i].name) == 0) {
            scale = units[i].ns;
        }
    }
    double ns = number * scale;
    if (scale <= 0 || ns > 9.2e18) {
        return false;
    }
    *value_out = (int64_t)llround(ns);
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
    for (size_t i = sizeof(units) / sizeof(units[0]); i-- > 0;) {
        if (ns >= units[i].ns) {
            best = i;
            break;
        }
    }
    snprintf(text_out, size, "%.10g%s", ns / units[best].ns, units[best].name);
}
