/*
 * consistent.c -- see consistent.h.
 *
 * Responders that share no part, however far round, have no equation in common:
 * each connected component is looked at alone, so that a group code of many
 * workers costs what its groups do. Within one, E holds the coefficients (a row
 * for each message block, a column for each gradient block of a part) and V the
 * values; both are divided by the row's noise. What E's columns cannot explain
 * of V must be noise: its mean square, over the rows beyond E's rank, is 1 but
 * for chance.
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
 * not sought: a check is one piece of work. */
#define COUNT_MAX 4096u
#define ROWS_MAX  256u
#define CELLS_MAX ((size_t)1 << 20)
#define WORK_MAX  4e9
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
    double *e;      // all rows of the component
    double *v;      // likewise
    double *kept_e; // of the members that are not left out
    double *kept_v;
    double *pinv;
    double *fitted;     // by column
    bool *left_out;     // by member
    uint32_t *chosen;   // members that are left out, ascending
    uint32_t *blamed;   // by member: in how many explanations
    uint32_t explained; // how many there are
} checker;

/* What is left of the values when the code has explained all it can. */
typedef struct leftover {
    uint32_t redundancy; // rows beyond the rank
    bool agrees;
} leftover;

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

/* Copy the rows of the members that are not left out; how many rows. */
static uint32_t keep_rows(checker *self)
{
    size_t blocks = self->info->message_blocks;
    size_t e_row = blocks * self->columns;
    size_t v_row = blocks * self->input->probes;
    uint32_t kept = 0;
    for (uint32_t m = 0; m < self->member_count; m++) {
        if (!self->left_out[m]) {
            memcpy(self->kept_e + kept * e_row, self->e + m * e_row,
                   e_row * sizeof(double));
            memcpy(self->kept_v + kept * v_row, self->v + m * v_row,
                   v_row * sizeof(double));
            kept++;
        }
    }
    return kept * (uint32_t)blocks;
}

/* Sum of squares of v - E (E+ v), with v the column of one probe. */
static double unexplained(checker *self, uint32_t rows, uint32_t probe)
{
    size_t probes = self->input->probes;
    size_t columns = self->columns;
    double sum = 0;
    for (size_t c = 0; c < columns; c++) {
        self->fitted[c] = 0;
        for (size_t i = 0; i < rows; i++) {
            self->fitted[c] +=
                self->pinv[c * rows + i] * self->kept_v[i * probes + probe];
        }
    }
    for (size_t i = 0; i < rows; i++) {
        double left =
            self->kept_v[i * probes + probe] -
            muster_dot_f64(self->kept_e + i * columns, self->fitted, columns);
        sum += left * left;
    }
    return sum;
}

static muster_status examine(checker *self, leftover *leftover_out)
{
    uint32_t rows = keep_rows(self);
    muster_dense_shape shape = {0, 0};
    *leftover_out = (leftover){0, true};
    if (rows == 0 || self->columns == 0) {
        return MUSTER_OK;
    }
    muster_status status = muster_dense_pinv(self->kept_e, rows, self->columns,
                                             self->pinv, &shape);
    if (status != MUSTER_OK) {
        return status;
    }
    uint32_t redundancy = rows - shape.rank;
    double squares = 0;
    for (uint32_t q = 0; redundancy > 0 && q < self->input->probes; q++) {
        squares += unexplained(self, rows, q);
    }
    double squares_max = DEVIATIONS_MAX * DEVIATIONS_MAX * redundancy *
                         (double)self->input->probes;
    // What is not a number does not agree.
    *leftover_out = (leftover){redundancy, squares <= squares_max};
    return MUSTER_OK;
}

/* The next choice of `size` out of `count`, ascending; false: that was all. */
static bool next_choice(uint32_t *chosen, uint32_t size, uint32_t count)
{
    uint32_t i = size;
    while (i > 0 && chosen[i - 1] == count - size + i - 1) {
        i--;
    }
    if (i == 0) {
        return false;
    }
    chosen[i - 1]++;
    for (; i < size; i++) {
        chosen[i] = chosen[i - 1] + 1;
    }
    return true;
}

/* Does the rest agree without the chosen ones, where it still can disagree? */
static muster_status try_choice(checker *self, uint32_t size)
{
    leftover rest;
    memset(self->left_out, 0, self->member_count * sizeof(bool));
    for (uint32_t i = 0; i < size; i++) {
        self->left_out[self->chosen[i]] = true;
    }
    muster_status status = examine(self, &rest);
    if (status == MUSTER_OK && rest.agrees && rest.redundancy > 0) {
        self->explained++;
        for (uint32_t i = 0; i < size; i++) {
            self->blamed[self->chosen[i]]++;
        }
    }
    return status;
}

static double choices(uint32_t count, uint32_t size)
{
    double product = 1;
    for (uint32_t i = 0; i < size; i++) {
        product *= (double)(count - i) / (double)(i + 1);
    }
    return product;
}

/* All smallest sets of up to `size_max` members whose absence explains it. */
static muster_status explain(checker *self, uint32_t size_max)
{
    double rows = (double)self->member_count * self->info->message_blocks;
    double one = rows * self->columns * (rows + self->columns);
    muster_status status = MUSTER_OK;
    self->explained = 0;
    memset(self->blamed, 0, self->member_count * sizeof(uint32_t));
    for (uint32_t size = 1; size <= size_max && self->explained == 0; size++) {
        if (choices(self->member_count, size) * one > WORK_MAX) {
            break;
        }
        for (uint32_t i = 0; i < size; i++) {
            self->chosen[i] = i;
        }
        do {
            status = try_choice(self, size);
        } while (status == MUSTER_OK &&
                 next_choice(self->chosen, size, self->member_count));
        if (status != MUSTER_OK) {
            break;
        }
    }
    return status;
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
    leftover all;
    open_component(self, first);
    size_t rows = (size_t)self->member_count * self->info->message_blocks;
    if (self->member_count < 2 || rows > ROWS_MAX ||
        rows * self->columns > CELLS_MAX) {
        return MUSTER_OK;
    }
    fill(self);
    memset(self->left_out, 0, self->member_count * sizeof(bool));
    muster_status status = examine(self, &all);
    if (status == MUSTER_OK && !all.agrees) {
        status = explain(self, all.redundancy / self->info->message_blocks / 2);
    }
    for (uint32_t m = 0; status == MUSTER_OK && m < self->member_count; m++) {
        muster_agreement found =
            all.agrees ? MUSTER_AGREE_GOOD : verdict(self, m);
        agreement_out[self->members[m]] =
            all.redundancy > 0 ? found : MUSTER_AGREE_UNKNOWN;
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
    muster_mem_free(self->kept_e);
    muster_mem_free(self->kept_v);
    muster_mem_free(self->pinv);
    muster_mem_free(self->fitted);
    muster_mem_free(self->left_out);
    muster_mem_free(self->chosen);
    muster_mem_free(self->blamed);
}

/* Room for the largest component that is looked at. */
static bool init(checker *self)
{
    const muster_consistent_input *input = self->input;
    size_t count = input->count;
    size_t rows = count * self->info->message_blocks;
    rows = rows < ROWS_MAX ? rows : ROWS_MAX;
    size_t columns = (size_t)self->info->parts * self->info->gradient_blocks;
    size_t cells = rows * columns;
    cells = cells < CELLS_MAX ? cells : CELLS_MAX;
    self->noise = muster_mem_array(count, sizeof(double));
    self->group = muster_mem_array(count, sizeof(uint32_t));
    self->column = muster_mem_array(self->info->parts, sizeof(uint32_t));
    self->members = muster_mem_array(count, sizeof(uint32_t));
    self->e = muster_mem_array(cells, sizeof(double));
    self->v = muster_mem_array(rows * input->probes, sizeof(double));
    self->kept_e = muster_mem_array(cells, sizeof(double));
    self->kept_v = muster_mem_array(rows * input->probes, sizeof(double));
    self->pinv = muster_mem_array(cells, sizeof(double));
    self->fitted = muster_mem_array(columns, sizeof(double));
    self->left_out = muster_mem_array(count, sizeof(bool));
    self->chosen = muster_mem_array(count, sizeof(uint32_t));
    self->blamed = muster_mem_array(count, sizeof(uint32_t));
    return self->noise != NULL && self->group != NULL && self->column != NULL &&
           self->members != NULL && self->e != NULL && self->v != NULL &&
           self->kept_e != NULL && self->kept_v != NULL && self->pinv != NULL &&
           self->fitted != NULL && self->left_out != NULL &&
           self->chosen != NULL && self->blamed != NULL;
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
