/*
 * linear_product.c -- products of two single parity checks, decoded by peeling.
 *
 * The m = a b blocks stand in an a x b grid; a row of parities below and a
 * column on the right make it (a+1) x (b+1), one worker a cell: distance 4,
 * s = 3. A line (row or column) with one cell missing gives it back by adding
 * and subtracting; repeat until the data are known. Sets that peeling does not
 * open but that have full rank go to least squares.
 */
#include <string.h>

#include "base/error.h"
#include "base/mem.h"
#include "code/families/families.h"
#include "code/families/linear.h"

typedef struct grid {
    uint32_t rows;    // a
    uint32_t columns; // b
} grid;

static double spc_entry(uint32_t m, uint32_t row, uint32_t column)
{
    return column == m || column == row ? 1.0 : 0.0;
}

static uint32_t cell_count(const grid *shape)
{
    return (shape->rows + 1) * (shape->columns + 1);
}

static muster_status generate(void *context, uint32_t workers,
                              double *generator_out, muster_error *error)
{
    const grid *shape = context;
    uint32_t width = shape->columns + 1;
    uint32_t m = shape->rows * shape->columns;
    (void)error;
    for (uint32_t u = 0; u < m; u++) {
        for (uint32_t r = 0; r < cell_count(shape); r++) {
            generator_out[(size_t)u * workers + r] =
                spc_entry(shape->rows, u / shape->columns, r / width) *
                spc_entry(shape->columns, u % shape->columns, r % width);
        }
    }
    muster_linear_repeat(generator_out, m, cell_count(shape), workers);
    return MUSTER_OK;
}

/* ---- peeling ------------------------------------------------------------- */

/* A cell as a sum of messages: `count` weights, and whether it is known yet. */
typedef struct peeling {
    const grid *shape;
    uint32_t count;  // messages
    double *weights; // cell_count x count
    uint8_t *known;  // per cell
} peeling;

/* A line: cells first, first + stride, ..; the last is the sum of the others.
 * Fill its one missing cell; false when there is none, or more. */
static bool fill_line(const peeling *p, uint32_t first, uint32_t stride,
                      uint32_t length)
{
    uint32_t missing = 0;
    uint32_t hole = 0;
    for (uint32_t i = 0; i < length; i++) {
        if (!p->known[first + i * stride]) {
            hole = i;
            missing++;
        }
    }
    if (missing != 1) {
        return false;
    }
    double *target = p->weights + (size_t)(first + hole * stride) * p->count;
    for (uint32_t i = 0; i < length; i++) {
        // hole = last - others, or, for the last, the sum of the others.
        double sign = hole == length - 1 || i == length - 1 ? 1.0 : -1.0;
        const double *cell =
            p->weights + (size_t)(first + i * stride) * p->count;
        for (uint32_t c = 0; i != hole && c < p->count; c++) {
            target[c] += sign * cell[c];
        }
    }
    p->known[first + hole * stride] = 1;
    return true;
}

static void peel(const peeling *p)
{
    uint32_t width = p->shape->columns + 1;
    uint32_t height = p->shape->rows + 1;
    bool moved = true;
    while (moved) { // each round fills a cell at least
        moved = false;
        for (uint32_t i = 0; i < height; i++) {
            moved |= fill_line(p, i * width, 1, width);
        }
        for (uint32_t j = 0; j < width; j++) {
            moved |= fill_line(p, j, width, height);
        }
    }
}

/* Copy the weights of the data cells; false when one is not known. */
static bool collect(const peeling *p, double *weights)
{
    uint32_t width = p->shape->columns + 1;
    for (uint32_t x = 0; x < p->shape->rows; x++) {
        for (uint32_t y = 0; y < p->shape->columns; y++) {
            uint32_t cell = x * width + y;
            if (!p->known[cell]) {
                return false;
            }
            memcpy(weights + (size_t)(x * p->shape->columns + y) * p->count,
                   p->weights + (size_t)cell * p->count,
                   p->count * sizeof(double));
        }
    }
    return true;
}

static bool decode_by_peeling(const void *context,
                              const muster_group_shape *shape,
                              const uint32_t *present, uint32_t count,
                              double *weights)
{
    const grid *cells = context;
    uint32_t total = cell_count(cells);
    (void)shape;
    peeling p = {cells, count,
                 muster_mem_array((size_t)total * count, sizeof(double)),
                 muster_mem_array(total, sizeof(uint8_t))};
    bool done = false;
    if (p.weights != NULL && p.known != NULL) {
        for (uint32_t i = 0; i < count; i++) {
            uint32_t cell = present[i] % total; // workers beyond repeat cells
            if (!p.known[cell]) {
                p.weights[(size_t)cell * count + i] = 1.0;
                p.known[cell] = 1;
            }
        }
        peel(&p);
        done = collect(&p, weights);
    }
    muster_mem_free(p.known);
    muster_mem_free(p.weights);
    return done;
}

/* ---- the code ------------------------------------------------------------ */

/* a and b as given, or the squarest factors of m. */
static muster_status choose_grid(const muster_code_spec *spec,
                                 muster_error *error, grid *out)
{
    uint32_t m = spec->comm > 0 ? spec->comm : 4;
    uint32_t a = 0;
    uint32_t b = 0;
    muster_status status =
        muster_code_spec_option_number(spec, "a", 1, 64, error, &a);
    if (status == MUSTER_OK) {
        status = muster_code_spec_option_number(spec, "b", 1, 64, error, &b);
    }
    if (status != MUSTER_OK) {
        return status;
    }
    if (a == 0 && b == 0) {
        for (uint32_t i = 1; i * i <= m; i++) {
            a = m % i == 0 ? i : a;
        }
    }
    a = a > 0 ? a : (m % b == 0 ? m / b : 0);
    b = b > 0 ? b : (m % a == 0 ? m / a : 0);
    if (a == 0 || b == 0 || a > 64 || b > 64 ||
        (spec->comm > 0 && a * b != m)) {
        return muster_error_set(error, MUSTER_ERR_UNSUPPORTED,
                                "linear:product: m = a b blocks, a and b from "
                                "1 to 64; a = %u, b = %u, m = %u do not fit",
                                a, b, m);
    }
    *out = (grid){a, b};
    return MUSTER_OK;
}

static muster_status build(muster_code *code, const muster_code_spec *spec,
                           muster_error *error)
{
    grid shape = {0, 0};
    muster_status status = muster_code_spec_accept(spec, "a,b", error);
    if (status == MUSTER_OK) {
        status = choose_grid(spec, error, &shape);
    }
    if (status != MUSTER_OK) {
        return status;
    }
    if (spec->stragglers > 3 ||
        (spec->load > 0 && spec->load != cell_count(&shape))) {
        return muster_error_set(error, MUSTER_ERR_UNSUPPORTED,
                                "linear:product has s = 3 and d = (a+1)(b+1) "
                                "= %u; for more stragglers use linear:tuned",
                                cell_count(&shape));
    }
    grid *kept = muster_mem_array(1, sizeof(*kept));
    if (kept == NULL) {
        return MUSTER_ERR_NO_MEMORY;
    }
    *kept = shape;
    muster_group_plan plan = {.length = cell_count(&shape),
                              .blocks = shape.rows * shape.columns,
                              .stragglers = 3,
                              .any_blocks_do = false,
                              .generate = generate,
                              .context = kept,
                              .shortcut = decode_by_peeling,
                              .shortcut_context = kept,
                              .owned = kept,
                              .by_speed = true};
    return muster_group_build(code, spec, &plan, error);
}

const muster_code_ops muster_code_linear_product = MUSTER_LINEAR_OPS(
    "product", build, "s = 3, n >= (a+1)(b+1); m = a b, a = b = 2 unless given",
    "always");
