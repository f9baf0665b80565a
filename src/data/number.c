/*
 * number.c -- scan a decimal, then scale its mantissa by a power of ten.
 *
 * A mantissa below 2^53 and a power of ten up to 22 are both doubles, so one
 * multiplication or division rounds once and correctly (Clinger's fast path).
 * The rest is done in long double, whose extra 11 bits or more hide the errors
 * of its few roundings from a float.
 */
#include "data/number.h"

#include <math.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define DIGITS_MAX      19 // a mantissa of so many digits fits in 64 bits
#define POWER_EXACT_MAX 22
#define EXPONENT_CLAMP  100000
#define EXPONENT_MAX    400 // beyond it a float is 0 or infinite anyway

// What the scanner saw: value = mantissa * 10^exponent.
typedef struct decimal {
    uint64_t mantissa;
    int exponent;
    bool negative;
} decimal;

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

// Digits before (shift 0) or after the point (shift -1); false when none. A
// digit that the mantissa cannot take still counts as a power of ten.
static bool scan_digits(const char **text, int *significant, int shift,
                        decimal *number)
{
    const char *p = *text;
    for (; is_digit(*p); p++) {
        int move = shift;
        if (*significant < DIGITS_MAX) {
            number->mantissa = number->mantissa * 10 + (uint64_t)(*p - '0');
            *significant += number->mantissa != 0;
        } else {
            move++;
        }
        int exponent = number->exponent + move;
        if (exponent > -EXPONENT_CLAMP && exponent < EXPONENT_CLAMP) {
            number->exponent = exponent;
        }
    }
    bool any = p != *text;
    *text = p;
    return any;
}

static int scan_exponent(const char **text)
{
    const char *p = *text;
    if (*p != 'e' && *p != 'E') {
        return 0;
    }
    p++;
    bool negative = *p == '-';
    if (*p == '-' || *p == '+') {
        p++;
    }
    if (!is_digit(*p)) {
        return 0; // "1e" is the number 1 and then a letter
    }
    int exponent = 0;
    for (; is_digit(*p); p++) {
        if (exponent < EXPONENT_CLAMP) {
            exponent = exponent * 10 + (*p - '0');
        }
    }
    *text = p;
    return negative ? -exponent : exponent;
}

// The word nan, inf or infinity, in any case: its length, or 0.
static size_t not_finite_word(const char *text)
{
    static const char *const words[] = {"infinity", "inf", "nan"};
    for (size_t w = 0; w < sizeof(words) / sizeof(words[0]); w++) {
        size_t i = 0;
        while (words[w][i] != '\0' && (text[i] | 0x20) == words[w][i]) {
            i++;
        }
        if (words[w][i] == '\0') {
            return i;
        }
    }
    return 0;
}

static float scale_long(uint64_t mantissa, int exponent)
{
    long double value = (long double)mantissa;
    int e = exponent > EXPONENT_MAX    ? EXPONENT_MAX
            : exponent < -EXPONENT_MAX ? -EXPONENT_MAX
                                       : exponent;
    for (; e > 0; e -= e < 27 ? e : 27) {
        value *= e < 27 ? powl(10.0L, e) : 1e27L;
    }
    for (; e<0; e += e> - 27 ? -e : 27) {
        value /= e > -27 ? powl(10.0L, -e) : 1e27L;
    }
    return (float)value;
}

static float to_float(const decimal *number)
{
    static const double powers[POWER_EXACT_MAX + 1] = {
        1e0,  1e1,  1e2,  1e3,  1e4,  1e5,  1e6,  1e7,  1e8,  1e9,  1e10, 1e11,
        1e12, 1e13, 1e14, 1e15, 1e16, 1e17, 1e18, 1e19, 1e20, 1e21, 1e22};
    int e = number->exponent;
    float value;
    if (number->mantissa == 0) {
        value = 0.0f;
    } else if (number->mantissa >> 53 != 0 || e > POWER_EXACT_MAX ||
               e < -POWER_EXACT_MAX) {
        value = scale_long(number->mantissa, e);
    } else {
        double exact = (double)number->mantissa;
        value = (float)(e < 0 ? exact / powers[-e] : exact * powers[e]);
    }
    return number->negative ? -value : value;
}

muster_number_kind muster_number_parse(const char *text, float *value_out,
                                       const char **end_out)
{
    decimal number = {.negative = *text == '-'};
    const char *p = text + (*text == '-' || *text == '+');
    size_t word = not_finite_word(p);
    if (word > 0) {
        *end_out = p + word;
        return MUSTER_NUMBER_NOT_FINITE;
    }
    int significant = 0;
    bool any = scan_digits(&p, &significant, 0, &number);
    if (*p == '.') {
        p++;
        any = scan_digits(&p, &significant, -1, &number) || any;
    }
    if (!any) {
        *end_out = text;
        return MUSTER_NUMBER_NONE;
    }
    number.exponent += scan_exponent(&p);
    *end_out = p;
    float value = to_float(&number);
    if (!isfinite(value)) {
        return MUSTER_NUMBER_NOT_FINITE;
    }
    *value_out = value;
    return MUSTER_NUMBER_FINITE;
}
