/*
 * code/text.h -- a text that grows line by line.
 */
#ifndef MUSTER_CODE_TEXT_H
#define MUSTER_CODE_TEXT_H

#include <stdbool.h>

#include "base/vec.h"

typedef struct muster_code_text {
    muster_vec bytes;
    bool failed; // out of memory, from then on
} muster_code_text;

muster_code_text muster_code_text_make(void);

/* Append; each call at most 1023 bytes. */
void muster_code_text_add(muster_code_text *text, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* A number as JSON: null when it is not finite. */
void muster_code_text_number(muster_code_text *text, const char *key,
                             double value);

/* The finished string, the caller's; NULL when out of memory. */
char *muster_code_text_finish(muster_code_text *text);

#endif // MUSTER_CODE_TEXT_H
