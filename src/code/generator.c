/*
 * generator.c -- surveys of generator matrices.
 */
#include "code/generator.h"

#include <math.h>
#include <string.h>

#include "base/dot.h"
#include "base/mem.h"
#include "code/family.h"
#include "code/sets.h"
#include "linalg/dense.h"

#define SPAN_TOLERANCE 1e-9
#define RANK_TOLERANCE 1e-9

typedef struct survey_memory {
    uint32_t *missing;
    uint32_t *chosen;
    double *matrix;  // answers x rows: the columns, as rows
    double *inverse; // rows x answers
} survey_memory;

/* The figures of one choice of columns. */
static muster_status look_at(const muster_generator *g, uint32_t answers,
                             const survey_memory *memory,
                             muster_generator_survey *out)
{
    for (uint32_t i = 0; i < answers; i++) {
        for (uint32_t u = 0; u < g->rows; u++) {
            memory->matrix[(size_t)i * g->rows + u] =
                g->entries[(size_t)u * g->columns + memory->chosen[i]];
        }
    }
    muster_dense_shape shape;
    muster_status status = muster_dense_pinv(memory->matrix, answers, g->rows,
                                             memory->inverse, &shape);
    if (status != MUSTER_OK) {
        return status;
    }
    double noise = 0.0;
    for (uint32_t i = 0; i < answers; i++) {
        double column = 0.0;
        double weight = 0.0;
        for (uint32_t u = 0; u < g->rows; u++) {
            double entry = memory->matrix[(size_t)i * g->rows + u];
            double w = memory->inverse[(size_t)u * answers + i];
            column += entry * entry;
            weight += w * w;
        }
        noise += column * weight;
    }
    double error = shape.rank < g->rows
                       ? INFINITY
                       : MUSTER_CODE_ROUNDING * sqrt(noise / g->rows);
    out->cond_worst = fmax(out->cond_worst, shape.condition);
    out->error_worst = fmax(out->error_worst, error);
    return MUSTER_OK;
}

muster_status muster_generator_survey_run(const muster_generator *g,
                                          uint32_t answers, uint64_t limit,
                                          muster_generator_survey *out)
{
    uint32_t lost = g->columns - answers;
    size_t entries = (size_t)answers * g->rows;
    survey_memory memory = {
        muster_mem_array((size_t)lost + 1, sizeof(uint32_t)),
        muster_mem_array(g->columns, sizeof(uint32_t)),
        muster_mem_array(entries, sizeof(double)),
        muster_mem_array(entries, sizeof(double))};
    muster_status status = MUSTER_ERR_NO_MEMORY;
    memset(out, 0, sizeof(*out));
    if (memory.missing != NULL && memory.chosen != NULL &&
        memory.matrix != NULL && memory.inverse != NULL) {
        muster_code_sets sets =
            muster_code_sets_make(g->columns, lost, limit, 1);
        status = MUSTER_OK;
        while (status == MUSTER_OK &&
               muster_code_sets_next(&sets, memory.missing)) {
            (void)muster_code_sets_responders(g->columns, memory.missing, lost,
                                              memory.chosen);
            status = look_at(g, answers, &memory, out);
        }
    }
    muster_mem_free(memory.inverse);
    muster_mem_free(memory.matrix);
    muster_mem_free(memory.chosen);
    muster_mem_free(memory.missing);
    return status;
}

/* ---- minimum distance ---------------------------------------------------- */

/* Make basis vector i orthogonal to those before it and of length 1 (twice,
 * for accuracy); false when nothing of it is left. */
static bool orthonormalise(double *basis, uint32_t rows, uint32_t i)
{
    double *fresh = basis + (size_t)i * rows;
    double size = muster_dot_f64(fresh, fresh, rows);
    for (uint32_t j = 0; i > 0 && j < 2 * i; j++) {
        const double *known = basis + (size_t)(j % i) * rows;
        double along = muster_dot_f64(known, fresh, rows);
        for (uint32_t u = 0; u < rows; u++) {
            fresh[u] -= along * known[u];
        }
    }
    double left = muster_dot_f64(fresh, fresh, rows);
    if (left <= RANK_TOLERANCE * RANK_TOLERANCE * size) {
        return false;
    }
    for (uint32_t u = 0; u < rows; u++) {
        fresh[u] /= sqrt(left);
    }
    return true;
}

/* The unit vector that `count` basis vectors cover with the smallest part. */
static uint32_t min_covered(const double *basis, uint32_t rows, uint32_t count)
{
    uint32_t best = 0;
    double covered_min = INFINITY;
    for (uint32_t u = 0; u < rows; u++) {
        double covered = 0.0;
        for (uint32_t j = 0; j < count; j++) {
            double entry = basis[(size_t)j * rows + u];
            covered += entry * entry;
        }
        if (covered < covered_min) {
            covered_min = covered;
            best = u;
        }
    }
    return best;
}

/* The unit vector across the k' - 1 chosen columns, as the last of `basis`
 * (rows x rows). False when they are dependent. */
static bool normal_of(const muster_generator *g, const uint32_t *chosen,
                      double *basis)
{
    uint32_t rows = g->rows;
    for (uint32_t i = 0; i + 1 < rows; i++) {
        for (uint32_t u = 0; u < rows; u++) {
            basis[(size_t)i * rows + u] =
                g->entries[(size_t)u * g->columns + chosen[i]];
        }
        if (!orthonormalise(basis, rows, i)) {
            return false;
        }
    }
    double *last = basis + (size_t)(rows - 1) * rows;
    memset(last, 0, rows * sizeof(double));
    last[min_covered(basis, rows, rows - 1)] = 1.0;
    return orthonormalise(basis, rows, rows - 1);
}

/* How many columns are orthogonal to `normal`. */
static uint32_t columns_across(const muster_generator *g, const double *normal)
{
    uint32_t count = 0;
    for (uint32_t c = 0; c < g->columns; c++) {
        double along = 0.0;
        double size = 0.0;
        for (uint32_t u = 0; u < g->rows; u++) {
            double entry = g->entries[(size_t)u * g->columns + c];
            along += normal[u] * entry;
            size += entry * entry;
        }
        count += along * along <= SPAN_TOLERANCE * SPAN_TOLERANCE * size;
    }
    return count;
}

/* The largest number of columns in a hyperplane that k' - 1 independent ones
 * span. */
static uint32_t fullest_hyperplane(const muster_generator *g,
                                   muster_code_sets *sets, uint32_t *chosen,
                                   double *basis)
{
    uint32_t count_max = 0;
    const double *normal = basis + (size_t)(g->rows - 1) * g->rows;
    while (muster_code_sets_next(sets, chosen)) {
        if (normal_of(g, chosen, basis)) {
            uint32_t count = columns_across(g, normal);
            count_max = count > count_max ? count : count_max;
        }
    }
    return count_max;
}

muster_status muster_generator_distance(const muster_generator *g,
                                        uint32_t choices_max,
                                        uint32_t *distance_out)
{
    muster_dense_shape shape;
    muster_status status =
        muster_dense_measure(g->entries, g->rows, g->columns, &shape);
    if (status != MUSTER_OK) {
        return status;
    }
    if (g->rows > g->columns || shape.rank < g->rows) {
        *distance_out = 0;
        return MUSTER_ERR_UNSUPPORTED;
    }
    muster_code_sets sets =
        muster_code_sets_make(g->columns, g->rows - 1, choices_max, 1);
    if (!sets.all) {
        return MUSTER_ERR_UNSUPPORTED;
    }
    uint32_t *chosen = muster_mem_array(g->rows, sizeof(uint32_t));
    double *basis = muster_mem_array((size_t)g->rows * g->rows, sizeof(double));
    status = MUSTER_ERR_NO_MEMORY;
    if (chosen != NULL && basis != NULL) {
        *distance_out =
            g->columns - fullest_hyperplane(g, &sets, chosen, basis);
        status = MUSTER_OK;
    }
    muster_mem_free(basis);
    muster_mem_free(chosen);
    return status;
}
