/*
 * fuzz_code_matrix.c -- any text as a matrix of linear:file: parsed or refused
 * with its place; the minimum distance is a possible one.
 */
#include <math.h>
#include <string.h>

#include "base/assert.h"
#include "base/mem.h"
#include "code/matrix_text.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char *text = muster_mem_array(size + 1, 1);
    MUSTER_ASSERT(text != NULL);
    memcpy(text, data, size);
    muster_generator matrix = {0, 0, NULL};
    muster_error error = {.text = ""};
    muster_status status =
        muster_matrix_text_parse(text, "fuzz", &error, &matrix);
    muster_mem_free(text);
    if (status != MUSTER_OK) {
        MUSTER_ASSERT(status == MUSTER_ERR_INPUT);
        MUSTER_ASSERT(strncmp(error.text, "fuzz:", 5) == 0);
        return 0;
    }
    MUSTER_ASSERT(matrix.rows > 0 && matrix.columns > 0);
    for (size_t i = 0; i < (size_t)matrix.rows * matrix.columns; i++) {
        MUSTER_ASSERT(isfinite(matrix.entries[i]));
    }
    if (matrix.rows <= 6 && matrix.columns <= 12) {
        uint32_t distance = 0;
        status = muster_generator_distance(&matrix, 1000000, &distance);
        MUSTER_ASSERT(
            status == MUSTER_ERR_UNSUPPORTED ||
            (distance >= 1 && distance <= matrix.columns - matrix.rows + 1));
    }
    muster_mem_free(matrix.entries);
    return 0;
}
