/*
 * consistent.c -- see consistent.h.
 *
 * Responders that share no part, however far round, have no equation in common:
 * each connected component is looked at alone, so that a group code of many
 * workers costs what its groups do. Within one, E holds the coefficients (a row
 * for each message block, a column for each gradient block of a part) and V the
 * values; both are divided by the row's noise. The equations are an orthonormal
 * basis N of the vectors that E's columns are at right angles to: N'V must be
 * noise, whose mean square is 1 but for chance.
 *
 * To leave out a worker is to let its values be anything: what its rows of N
 * span is taken away from N'V, and as many equations are lost. That is exactly
 * what is left when the rest is fitted anew, and costs a few short vectors, so
 * that thousands of sets can be tried.
 */
#include "code/consistent.h"

#include <math.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "base/assert.h"
#include "base/dot.h"
#include "base/mem.h"
#include "code/numbers.h"
#include "linalg/dense.h"

/* Disagreement that rounding is believed to make, in standard deviations. */
#define DEVIATIONS_MAX 64.0
/* Beyond these, answers or a component of them are left unchecked, or liars are
 * not sought: a check is one piece of work, of some tenths of a second. */
#define COUNT_MAX 4096u
#define ROWS_MAX  256u
#define CELLS_MAX ((size_t)1 << 20)
#define WORK_MAX  3e8 // multiplications
/* A row of N that is shorter has no part in the equations. */
#define LENGTH_MIN 1e-8
/* No message is thought to be nearer to exact than this share of the median. */
#define NOISE_SHARE 1e-3

#define UNSET UINT32_MAX

typedef struct checker {
    const muster_consistent_input *input;
    const muster_code_info *info;
    double *noise;     // by responder, none of them 0
    uint32_t *group;   // by responder: the first responder of its component
    uint32_t *column;  // by part: its first column in E, or UNSET
    uint32_t *members; // of the component: responders
    uint32_t member_count;
    uint32_t columns;
    double *e;          // rows x columns
    double *v;          // rows x probes
    double *pinv;       // columns x rows
    double *projection; // rows x rows: I - E E+, then what N leaves of it
    double *equations;  // N': equation_count x rows
    uint32_t rows;      // of E
    uint32_t equation_count;
    // While members are left out, by how many they are:
    double *left;       // [..][equation x probe]: of N'V
    uint32_t *lost;     // [..]: equations
    double *span;       // what took them: orthonormal, of equation_count
    uint32_t *chosen;   // members that are left out, ascending
    uint32_t *blamed;   // by member: in how many explanations
    uint32_t explained; // how many there are
} checker;

static uint32_t root_of(const uint32_t *group, uint32_t responder)
{
    while (group[responder] != responder) {
        responder = group[responder];
    }
    return responder;
}

/* Responders that hold one part are of one component; `column` serves to note
 * a holder of each part. */
static muster_status join_components(checker *self)
{
    const muster_consistent_input *input = self->input;
    for (uint32_t part = 0; part < self->info->parts; part++) {
        self->column[part] = UNSET;
    }
    for (uint32_t r = 0; r < input->count; r++) {
        const uint32_t *parts = NULL;
        uint32_t count = 0;
        self->group[r] = r;
        muster_status status = muster_code_parts(
            input->code, input->responders[r], &parts, &count);
        if (status != MUSTER_OK) {
            return status;
        }
        for (uint32_t j = 0; j < count; j++) {
            if (self->column[parts[j]] == UNSET) {
                self->column[parts[j]] = r;
            }
            uint32_t a = root_of(self->group, self->column[parts[j]]);
            uint32_t b = root_of(self->group, r);
            self->group[a > b ? a : b] = a > b ? b : a;
        }
    }
    for (uint32_t r = 0; r < input->count; r++) {
        self->group[r] = root_of(self->group, r);
    }
    return MUSTER_OK;
}

static int ascending(const void *left, const void *right)
{
    double a = *(const double *)left;
    double b = *(const double *)right;
    return (a > b) - (a < b);
}

/* Most responders are right, so their median is nobody's choice. */
static void take_noise(checker *self)
{
    uint32_t count = self->input->count;
    memcpy(self->noise, self->input->noise, count * sizeof(double));
    qsort(self->noise, count, sizeof(double), ascending);
    double noise_min = self->noise[count / 2] * NOISE_SHARE;
    noise_min = noise_min > 0 ? noise_min : 1e-300;
    for (uint32_t r = 0; r < count; r++) {
        double noise = self->input->noise[r];
        self->noise[r] = noise > noise_min ? noise : noise_min;
    }
}

/* List the members of a component, and give its parts their columns. */
static void open_component(checker *self, uint32_t first)
{
    const muster_consistent_input *input = self->input;
    self->member_count = 0;
    self->columns = 0;
    for (uint32_t part = 0; part < self->info->parts; part++) {
        self->column[part] = UNSET;
    }
    for (uint32_t r = first; r < input->count; r++) {
        if (self->group[r] != first) {
            continue;
        }
        const muster_code_encode_term *terms = NULL;
        uint32_t count = 0;
        muster_status status = muster_code_encode_terms(
            input->code, input->responders[r], &terms, &count);
        MUSTER_ASSERT(status == MUSTER_OK);
        self->members[self->member_count++] = r;
        for (uint32_t t = 0; t < count; t++) {
            if (self->column[terms[t].part] == UNSET) {
                self->column[terms[t].part] = self->columns;
                self->columns += self->info->gradient_blocks;
            }
        }
    }
}

/* Fill E and V of the component. */
static void fill(checker *self)
{
    const muster_consistent_input *input = self->input;
    size_t blocks = self->info->message_blocks;
    size_t probes = input->probes;
    memset(self->e, 0,
           self->member_count * blocks * self->columns * sizeof(double));
    for (uint32_t m = 0; m < self->member_count; m++) {
        uint32_t r = self->members[m];
        const muster_code_encode_term *terms = NULL;
        uint32_t count = 0;
        muster_status status = muster_code_encode_terms(
            input->code, input->responders[r], &terms, &count);
        MUSTER_ASSERT(status == MUSTER_OK);
        double *e = self->e + m * blocks * self->columns;
        double scale = 1 / self->noise[r];
        for (uint32_t t = 0; t < count; t++) {
            size_t column =
                self->column[terms[t].part] + terms[t].gradient_block;
            e[terms[t].message_block * (size_t)self->columns + column] +=
                terms[t].coef * scale;
        }
        for (size_t i = 0; i < blocks * probes; i++) {
            self->v[m * blocks * probes + i] =
                input->values[r * blocks * probes + i] * scale;
        }
    }
}

/* I - E E+, the projection on what E cannot explain; and its rank. */
static muster_status project(checker *self)
{
    size_t rows = self->rows;
    size_t columns = self->columns;
    muster_dense_shape shape = {0, 0};
    muster_status status = muster_dense_pinv(self->e, self->rows, self->columns,
                                             self->pinv, &shape);
    if (status != MUSTER_OK) {
        return status;
    }
    self->equation_count = self->rows - shape.rank;
    for (size_t i = 0; i < rows && self->equation_count > 0; i++) {
        for (size_t j = 0; j < rows; j++) {
            double sum = i == j;
            for (size_t c = 0; c < columns; c++) {
                sum -= self->e[i * columns + c] * self->pinv[c * rows + j];
            }
            self->projection[i * rows + j] = sum;
        }
    }
    return MUSTER_OK;
}

/* One basis vector of the projection's range: its largest column, by which it
 * is then reduced. */
static void take_equation(checker *self, double *equation)
{
    size_t rows = self->rows;
    double *projection = self->projection;
    size_t best = 0;
    for (size_t i = 1; i < rows; i++) {
        best = projection[i * rows + i] > projection[best * rows + best] ? i
                                                                         : best;
    }
    double square = projection[best * rows + best];
    double scale = square > 0 ? 1 / sqrt(square) : 0;
    for (size_t i = 0; i < rows; i++) {
        equation[i] = projection[i * rows + best] * scale;
    }
    for (size_t i = 0; i < rows; i++) {
        for (size_t j = 0; j < rows; j++) {
            projection[i * rows + j] -= equation[i] * equation[j];
        }
    }
}

/* N, and N'V with nobody left out. */
static muster_status find_equations(checker *self)
{
    size_t probes = self->input->probes;
    self->equation_count = 0;
    self->lost[0] = 0;
    muster_status status = self->columns > 0 ? project(self) : MUSTER_OK;
    for (size_t k = 0; status == MUSTER_OK && k < self->equation_count; k++) {
        double *equation = self->equations + k * self->rows;
        take_equation(self, equation);
        for (size_t q = 0; q < probes; q++) {
            double sum = 0;
            for (size_t i = 0; i < self->rows; i++) {
                sum += equation[i] * self->v[i * probes + q];
            }
            self->left[k * probes + q] = sum;
        }
    }
    return status;
}

/* Is what is left with so many members left out no more than noise? */
static bool agrees(const checker *self, uint32_t out)
{
    uint32_t equations = self->equation_count - self->lost[out];
    size_t count = (size_t)self->equation_count * self->input->probes;
    const double *left = self->left + out * count;
    double squares = muster_dot_f64(left, left, count);
    // What is not a number does not agree.
    return squares <= DEVIATIONS_MAX * DEVIATIONS_MAX * equations *
                          (double)self->input->probes;
}

/* What a row adds to the span of those left out; false: nothing. */
static bool widen_span(checker *self, uint32_t row, uint32_t spanned)
{
    size_t length = self->equation_count;
    double *added = self->span + spanned * length;
    for (size_t k = 0; k < length; k++) {
        added[k] = self->equations[k * self->rows + row];
    }
    for (uint32_t i = 0; i < 2 * spanned; i++) { // twice: rounding
        const double *other = self->span + (i % spanned) * length;
        double along = muster_dot_f64(other, added, length);
        for (size_t k = 0; k < length; k++) {
            added[k] -= along * other[k];
        }
    }
    double norm = sqrt(muster_dot_f64(added, added, length));
    for (size_t k = 0; k < length && norm > LENGTH_MIN; k++) {
        added[k] /= norm;
    }
    return norm > LENGTH_MIN;
}

/* Beside the `out` members that are left out already, leave out another. */
static void leave_out(checker *self, uint32_t out, uint32_t member)
{
    size_t length = self->equation_count;
    size_t probes = self->input->probes;
    uint32_t blocks = self->info->message_blocks;
    uint32_t spanned = self->lost[out];
    double *left = self->left + (out + 1) * length * probes;
    memcpy(left, left - length * probes, length * probes * sizeof(double));
    for (uint32_t b = 0; b < blocks; b++) {
        if (!widen_span(self, member * blocks + b, spanned)) {
            continue;
        }
        const double *added = self->span + spanned++ * length;
        for (size_t q = 0; q < probes; q++) {
            double along = 0;
            for (size_t k = 0; k < length; k++) {
                along += added[k] * left[k * probes + q];
            }
            for (size_t k = 0; k < length; k++) {
                left[k * probes + q] -= along * added[k];
            }
        }
    }
    self->lost[out + 1] = spanned;
}

/* Without the chosen ones the rest agrees, where it still can disagree. */
static void count_explanation(checker *self, uint32_t size)
{
    if (self->lost[size] < self->equation_count && agrees(self, size)) {
        self->explained++;
        for (uint32_t i = 0; i < size; i++) {
            self->blamed[self->chosen[i]]++;
        }
    }
}

/* Every set of `size` members, in order; sets with the same first members share
 * what leaving these out costs. */
static void try_sets(checker *self, uint32_t size)
{
    uint32_t out = 0;
    self->chosen[0] = 0;
    for (;;) {
        if (self->chosen[out] > self->member_count - (size - out)) {
            if (out == 0) {
                return;
            }
            self->chosen[--out]++;
            continue;
        }
        leave_out(self, out, self->chosen[out]);
        if (out + 1 < size) {
            self->chosen[out + 1] = self->chosen[out] + 1;
            out++;
        } else {
            count_explanation(self, size);
            self->chosen[out]++;
        }
    }
}

/* Multiplications that it takes to try all sets of a size. */
static double work_of(const checker *self, uint32_t size)
{
    double blocks = self->info->message_blocks;
    double sets = 1;
    for (uint32_t i = 0; i < size; i++) {
        sets *= (double)(self->member_count - i) / (double)(i + 1);
    }
    return sets * blocks * self->equation_count * 2 *
           (2 * blocks * size + self->input->probes);
}

/* All smallest sets of up to `size_max` members whose absence explains it. */
static void explain(checker *self, uint32_t size_max)
{
    self->explained = 0;
    memset(self->blamed, 0, self->member_count * sizeof(uint32_t));
    for (uint32_t size = 1; size <= size_max && self->explained == 0 &&
                            work_of(self, size) <= WORK_MAX;
         size++) {
        try_sets(self, size);
    }
}

static muster_agreement verdict(const checker *self, uint32_t member)
{
    if (self->explained == 0) {
        return MUSTER_AGREE_SUSPECT;
    }
    if (self->blamed[member] == 0) {
        return MUSTER_AGREE_GOOD;
    }
    return self->explained == 1 ? MUSTER_AGREE_WRONG : MUSTER_AGREE_SUSPECT;
}

static muster_status check_component(checker *self, uint32_t first,
                                     muster_agreement *agreement_out)
{
    open_component(self, first);
    size_t rows = (size_t)self->member_count * self->info->message_blocks;
    if (self->member_count < 2 || rows > ROWS_MAX ||
        rows * self->columns > CELLS_MAX) {
        return MUSTER_OK;
    }
    self->rows = (uint32_t)rows;
    fill(self);
    muster_status status = find_equations(self);
    bool good = status == MUSTER_OK && agrees(self, 0);
    if (status == MUSTER_OK && !good) {
        explain(self, self->equation_count / self->info->message_blocks / 2);
    }
    for (uint32_t m = 0; status == MUSTER_OK && m < self->member_count; m++) {
        muster_agreement found = good ? MUSTER_AGREE_GOOD : verdict(self, m);
        agreement_out[self->members[m]] =
            self->equation_count > 0 ? found : MUSTER_AGREE_UNKNOWN;
    }
    return status;
}

static void fini(checker *self)
{
    muster_mem_free(self->noise);
    muster_mem_free(self->group);
    muster_mem_free(self->column);
    muster_mem_free(self->members);
    muster_mem_free(self->e);
    muster_mem_free(self->v);
    muster_mem_free(self->pinv);
    muster_mem_free(self->projection);
    muster_mem_free(self->equations);
    muster_mem_free(self->left);
    muster_mem_free(self->lost);
    muster_mem_free(self->span);
    muster_mem_free(self->chosen);
    muster_mem_free(self->blamed);
}

/* Room for the largest component that is looked at. At most half as many
 * members are left out as there are equations. */
static bool init(checker *self)
{
    const muster_consistent_input *input = self->input;
    size_t count = input->count;
    size_t rows = count * self->info->message_blocks;
    rows = rows < ROWS_MAX ? rows : ROWS_MAX;
    size_t columns = (size_t)self->info->parts * self->info->gradient_blocks;
    size_t cells = rows * columns;
    cells = cells < CELLS_MAX ? cells : CELLS_MAX;
    size_t levels = rows / 2 + 1;
    self->noise = muster_mem_array(count, sizeof(double));
    self->group = muster_mem_array(count, sizeof(uint32_t));
    self->column = muster_mem_array(self->info->parts, sizeof(uint32_t));
    self->members = muster_mem_array(count, sizeof(uint32_t));
    self->e = muster_mem_array(cells, sizeof(double));
    self->v = muster_mem_array(rows * input->probes, sizeof(double));
    self->pinv = muster_mem_array(cells, sizeof(double));
    self->projection = muster_mem_array(rows * rows, sizeof(double));
    self->equations = muster_mem_array(rows * rows, sizeof(double));
    self->left =
        muster_mem_array(levels * rows * input->probes, sizeof(double));
    self->lost = muster_mem_array(levels, sizeof(uint32_t));
    self->span = muster_mem_array(levels * rows, sizeof(double));
    self->chosen = muster_mem_array(count, sizeof(uint32_t));
    self->blamed = muster_mem_array(count, sizeof(uint32_t));
    return self->noise != NULL && self->group != NULL && self->column != NULL &&
           self->members != NULL && self->e != NULL && self->v != NULL &&
           self->pinv != NULL && self->projection != NULL &&
           self->equations != NULL && self->left != NULL &&
           self->lost != NULL && self->span != NULL && self->chosen != NULL &&
           self->blamed != NULL;
}

muster_status muster_consistent_check(const muster_consistent_input *input,
                                      muster_agreement *agreement_out)
{
    checker self = {.input = input, .info = muster_code_numbers(input->code)};
    for (uint32_t r = 0; r < input->count; r++) {
        agreement_out[r] = MUSTER_AGREE_UNKNOWN;
    }
    if (input->count < 2 || input->count > COUNT_MAX) {
        return MUSTER_OK;
    }
    muster_status status =
        init(&self) ? join_components(&self) : MUSTER_ERR_NO_MEMORY;
    if (status == MUSTER_OK) {
        take_noise(&self);
    }
    for (uint32_t r = 0; status == MUSTER_OK && r < input->count; r++) {
        if (self.group[r] == r) {
            status = check_component(&self, r, agreement_out);
        }
    }
    fini(&self);
    return status;
}
