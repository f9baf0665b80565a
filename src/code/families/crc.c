/*
 * crc.c -- cyclic repetition (Tandon et al., ICML 2017).
 *
 * H is a random s x n matrix whose columns sum to 0; row i of B has support
 * i .. i + s and lies in the null space of H, first coefficient 1. The rows
 * span that space, which holds the all-ones row, so any n - s of them give it.
 *
 * For the decoder (dual.h): columns s .. n-1 of B are a band, column c of them
 * in rows c .. c + s, so its QR costs n reflections of length s + 1. The last s
 * columns of Q are the weights that decode nothing, and Q R'^-1 1 is a decoding
 * that uses everyone. The best of many draws is kept: the error of a bad one is
 * a hundred times that of a good one.
 */
#include <math.h>
#include <string.h>

#include "base/mem.h"
#include "base/rng.h"
#include "code/choose.h"
#include "code/dual.h"
#include "code/families/families.h"
#include "code/layout.h"
#include "linalg/dense.h"

#define STREAM_CRC 0xc7c0

/* H by columns: column j at h + j * s. */
static void draw_checks(uint32_t n, uint32_t s, uint64_t seed, uint32_t draw,
                        double *h)
{
    muster_rng rng = muster_rng_make(seed, STREAM_CRC + draw);
    for (uint32_t t = 0; t < s; t++) {
        double sum = 0.0;
        for (uint32_t j = 0; j + 1 < n; j++) {
            double value = muster_rng_normal(&rng);
            h[(size_t)j * s + t] = value;
            sum += value;
        }
        h[(size_t)(n - 1) * s + t] = -sum;
    }
}

/* window[i][t] = B[i][(i + t) mod n], n x (s + 1). MUSTER_ERR_INVALID when a
 * window of H is singular. */
static muster_status fill_windows(uint32_t n, uint32_t s, const double *h,
                                  double *square, double *window)
{
    for (uint32_t i = 0; i < n; i++) {
        double *row = window + (size_t)i * (s + 1);
        row[0] = 1.0;
        for (uint32_t r = 0; r < s; r++) {
            row[1 + r] = -h[(size_t)i * s + r];
            for (uint32_t t = 0; t < s; t++) {
                uint32_t j = (i + 1 + t) % n;
                square[(size_t)r * s + t] = h[(size_t)j * s + r];
            }
        }
        muster_status status = muster_dense_solve(square, s, row + 1, 1);
        if (status != MUSTER_OK) {
            return status;
        }
    }
    return MUSTER_OK;
}

/* ---- QR of the band ------------------------------------------------------ */

/* Reflector c acts on rows c .. c + s: v at vectors + c (s + 1), norm 1 or 0.
 * band[c][t]: entry in row c + t of column c, turned into R as it goes. R's
 * row c is kept in upper[c][t] = R[c][c + t]. */
typedef struct band_qr {
    uint32_t n;
    uint32_t s;
    double *band;
    double *vectors;
    double *upper;
} band_qr;

static void reflect(const double *v, double *x, uint32_t count)
{
    double along = 0.0;
    for (uint32_t t = 0; t < count; t++) {
        along += v[t] * x[t];
    }
    for (uint32_t t = 0; t < count; t++) {
        x[t] -= 2.0 * along * v[t];
    }
}

/* Make the reflector that turns x into a multiple of e_0. */
static void make_reflector(const double *x, uint32_t count, double *v)
{
    double norm = 0.0;
    for (uint32_t t = 0; t < count; t++) {
        norm += x[t] * x[t];
    }
    memcpy(v, x, count * sizeof(double));
    v[0] += copysign(sqrt(norm), x[0]);
    double size = 0.0;
    for (uint32_t t = 0; t < count; t++) {
        size += v[t] * v[t];
    }
    for (uint32_t t = 0; size > 0.0 && t < count; t++) {
        v[t] /= sqrt(size);
    }
}

/* Factor the band. Column c is touched by reflectors c - s .. c; before its own
 * turn its rows above c already belong to R. `column` has room for 2 s + 1. */
static void factor(band_qr *qr, double *column)
{
    uint32_t s = qr->s;
    uint32_t width = s + 1;
    uint32_t count = qr->n - s; // columns
    for (uint32_t c = 0; c < count; c++) {
        // column[t] is row c - s + t.
        memset(column, 0, s * sizeof(double));
        memcpy(column + s, qr->band + (size_t)c * width,
               width * sizeof(double));
        for (uint32_t back = s < c ? s : c; back > 0; back--) {
            uint32_t r = c - back; // acts on rows r .. r + s
            reflect(qr->vectors + (size_t)r * width, column + (s - back),
                    width);
            qr->upper[(size_t)r * width + back] = column[s - back];
        }
        double *v = qr->vectors + (size_t)c * width;
        make_reflector(column + s, width, v);
        reflect(v, column + s, width);
        qr->upper[(size_t)c * width] = column[s];
    }
}

/* x = Q y: the reflectors in reverse. */
static void apply_q(const band_qr *qr, double *y)
{
    for (uint32_t c = qr->n - qr->s; c-- > 0;) {
        reflect(qr->vectors + (size_t)c * (qr->s + 1), y + c, qr->s + 1);
    }
}

/* y with R' y = 1, padded with zeros to n. False when R is singular. */
static bool solve_ones(const band_qr *qr, double *y)
{
    uint32_t width = qr->s + 1;
    memset(y, 0, qr->n * sizeof(double));
    for (uint32_t c = 0; c < qr->n - qr->s; c++) {
        double sum = 1.0;
        for (uint32_t back = 1; back <= qr->s && back <= c; back++) {
            sum -= qr->upper[(size_t)(c - back) * width + back] * y[c - back];
        }
        double lead = qr->upper[(size_t)c * width];
        if (lead == 0.0) {
            return false;
        }
        y[c] = sum / lead;
    }
    return true;
}

static muster_status fill_dual(muster_dual *dual, const double *window)
{
    uint32_t n = dual->workers;
    uint32_t s = dual->stragglers;
    size_t band = (size_t)n * (s + 1);
    double *memory =
        muster_mem_array(3 * band + n + 2 * (size_t)s + 1, sizeof(double));
    if (memory == NULL) {
        return MUSTER_ERR_NO_MEMORY;
    }
    band_qr qr = {n, s, memory, memory + band, memory + 2 * band};
    double *y = memory + 3 * band;
    // Column c of the band is part s + c; worker c + t has it in its window at
    // place s - t.
    for (uint32_t c = 0; c < n - s; c++) {
        for (uint32_t t = 0; t <= s; t++) {
            qr.band[(size_t)c * (s + 1) + t] =
                window[(size_t)(c + t) * (s + 1) + s - t];
        }
    }
    factor(&qr, y + n);
    muster_status status = MUSTER_ERR_INVALID;
    if (solve_ones(&qr, y)) {
        apply_q(&qr, y);
        memcpy(dual->affine, y, n * sizeof(double));
        for (uint32_t t = 0; t < s; t++) {
            memset(y, 0, n * sizeof(double));
            y[n - s + t] = 1.0;
            apply_q(&qr, y);
            for (uint32_t i = 0; i < n; i++) {
                dual->null[(size_t)i * s + t] = y[i];
            }
        }
        status = MUSTER_OK;
    }
    muster_mem_free(memory);
    return status;
}

/* ---- the code ------------------------------------------------------------ */

static muster_status fill_code(muster_code *code, const double *window,
                               muster_error *error)
{
    uint32_t n = code->info.workers;
    uint32_t s = code->info.stragglers;
    muster_dual *dual = muster_dual_create(n, 1, 1, s);
    if (dual == NULL) {
        return MUSTER_ERR_NO_MEMORY;
    }
    code->state = dual;
    muster_status status = fill_dual(dual, window);
    if (status != MUSTER_OK) {
        return status;
    }
    muster_code_layout layout;
    code->info.parts = n;
    status = muster_code_layout_init(&layout, n, (size_t)n * (s + 1), 1);
    if (status != MUSTER_OK) {
        return status;
    }
    muster_code_layout_cyclic(&layout, n, s + 1);
    for (size_t e = 0; e < (size_t)n * (s + 1); e++) {
        // Holder number t of a part has it at place s - t of its window.
        uint32_t t = (uint32_t)(e % (s + 1));
        layout.cells[e] = window[(size_t)layout.holders[e] * (s + 1) + s - t];
    }
    status = muster_code_layout_fill(&layout, code, error);
    muster_code_layout_fini(&layout);
    return status;
}

static muster_status build_draw(muster_code *code, const muster_code_spec *spec,
                                uint32_t draw, muster_error *error)
{
    uint32_t n = spec->workers;
    uint32_t s = spec->stragglers;
    double *h = muster_mem_array((size_t)n * s, sizeof(double));
    double *square = muster_mem_array((size_t)s * s, sizeof(double));
    double *window = muster_mem_array((size_t)n * (s + 1), sizeof(double));
    muster_status status = MUSTER_ERR_NO_MEMORY;
    if (h != NULL && square != NULL && window != NULL) {
        draw_checks(n, s, spec->seed, draw, h);
        status = fill_windows(n, s, h, square, window);
    }
    if (status == MUSTER_OK) {
        status = fill_code(code, window, error);
    }
    muster_mem_free(window);
    muster_mem_free(square);
    muster_mem_free(h);
    return status;
}

/* What serves instead, of the same load: cyclic-mds within its limits. */
static const char *better(uint32_t n, uint32_t s)
{
    bool is_small = (n <= 20 && s <= 8) || (n <= 25 && s <= 6) ||
                    (n <= 30 && s <= 5) || (n <= 64 && s <= 4);
    return is_small ? "cyclic-mds, of the same load"
                    : "ye-abbe-tuned with m = 1, of the same load";
}

static muster_status build(muster_code *code, const muster_code_spec *given,
                           muster_error *error)
{
    muster_code_spec spec = *given;
    uint32_t draws;
    muster_status status = muster_code_settle_dense(&spec, "draws", error);
    if (status == MUSTER_OK) {
        status = muster_code_read_draws(&spec, error, &draws);
    }
    if (status != MUSTER_OK) {
        return status;
    }
    code->info.stragglers = spec.stragglers;
    status = muster_code_keep_best(code, &spec, spec.stragglers > 0 ? draws : 1,
                                   build_draw, error);
    if (status == MUSTER_OK) {
        // From s = 3 on say so at any figure: the same load does better.
        status =
            muster_code_judge(code, &spec, spec.stragglers >= 3,
                              better(spec.workers, spec.stragglers), error);
    }
    return status;
}

const muster_code_ops muster_code_crc = {
    .name = "crc",
    .build = build,
    .weights = muster_dual_weights,
    .free_state = muster_dual_free,
    .needs = "any s < n; m = 1",
    .limits = "s <= 2; from s = 3 on use cyclic-mds",
};
