/*
 * base/value.h -- numbers, durations and switches as people write them.
 *
 * Pure functions from text to value; the whole text must be used up, and
 * numbers are decimal. They say only whether it worked: the caller knows the
 * place to name.
 */
#ifndef MUSTER_BASE_VALUE_H
#define MUSTER_BASE_VALUE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Decimal digits, or digits and a power of ten ("1e6"); false also when it does
 * not fit. */
bool muster_value_uint(const char *text, uint64_t *value_out);

/* A finite decimal number such as -1.5e-3. */
bool muster_value_double(const char *text, double *value_out);

/* true, yes, on, 1 or false, no, off, 0. */
bool muster_value_bool(const char *text, bool *value_out);

/* A number with a unit ns, us, ms, s, m (or min) or h: "200ms", "1.5s". A bare
 * 0 needs none. Negative or beyond 290 years: false. */
bool muster_value_duration_ns(const char *text, int64_t *value_out);
bool muster_value_duration_s(const char *text, double *value_out);

/* UTF-8 without control characters: what fits into one line of an error, into
 * JSON and into YAML. */
bool muster_value_is_text(const char *text);

/* Seconds as text with the unit that fits: "50ms", "1h". */
void muster_value_format_seconds(double seconds, char *text_out, size_t size);

#endif // MUSTER_BASE_VALUE_H
