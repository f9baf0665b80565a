/*
 * code/matrix_text.h -- a matrix from text: lines of numbers.
 */
#ifndef MUSTER_CODE_MATRIX_TEXT_H
#define MUSTER_CODE_MATRIX_TEXT_H

#include "code/generator.h"

#define MUSTER_MATRIX_ROWS_MAX    256u
#define MUSTER_MATRIX_COLUMNS_MAX 4096u

/*
 * Parse a zero-terminated text of at least one row; `name` stands before the
 * line number in errors. The entries are the caller's, for muster_mem_free().
 * MUSTER_ERR_INPUT  a word is not a finite number, rows differ in length, too
 *                   large, or empty; nothing is kept
 */
MUSTER_CHECKED muster_status muster_matrix_text_parse(const char *text,
                                                      const char *name,
                                                      muster_error *error,
                                                      muster_generator *out);

#endif // MUSTER_CODE_MATRIX_TEXT_H
