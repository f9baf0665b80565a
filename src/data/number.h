/*
 * data/number.h -- decimal numbers in text, fast and the same in every locale.
 *
 * Grammar: [+-] digits [. digits] [e [+-] digits], with at least one digit
 * before the exponent. strtod is not used: it obeys the locale's decimal point,
 * and it is several times slower. The first 19 digits count (as many as the
 * widest printers write), so the float is the nearest one but for ties that
 * differ after that.
 */
#ifndef MUSTER_DATA_NUMBER_H
#define MUSTER_DATA_NUMBER_H

typedef enum muster_number_kind {
    MUSTER_NUMBER_FINITE = 0,
    MUSTER_NUMBER_NOT_FINITE = 1, // nan, inf, or beyond the range of float
    MUSTER_NUMBER_NONE = 2,       // the text does not begin with a number
} muster_number_kind;

/* Parse the number that `text` (zero-terminated) begins with; *end_out is the
 * character after it, or `text` when there is none. *value_out is written only
 * when it is finite. */
muster_number_kind muster_number_parse(const char *text, float *value_out,
                                       const char **end_out);

#endif // MUSTER_DATA_NUMBER_H
