/*
 * dual_progress.c -- is there a decoding that vanishes on all who are missing?
 *
 * With at most s of them there always is. With more there is for some sets of
 * structured codes: for one straggler and n even, every second worker of
 * cyclic-mds is enough. The test solves for the one decoding that vanishes on s
 * of the missing (the pinned ones) and looks for a missing worker on whom it
 * does not: the witness. While all of these are missing the set is not ready,
 * whoever else answers, so only an answer of one of them asks for another
 * solve: about s log(n / s) solves of size s in a step of random order.
 */
#include <math.h>
#include <string.h>

#include "code/dual.h"

/* Larger codes are ready with n - s answers: their solves would take longer
 * than what they save, and they are too rough to be of use. */
#define FREEDOM_MAX 128u

/* A weight below this share of the decoding that uses everyone is none. */
#define VANISHED 1e-9

typedef enum standing { MISSING, WATCHED, HEARD } standing;

typedef struct dual_progress {
    uint32_t missing; // workers not heard from
    bool watching;    // s pinned workers and a witness are marked
    bool ready;
    double *matrix; // freedom x (freedom + 1)
    uint32_t *pinned;
    uint8_t *standing; // per worker
} dual_progress;

static uint32_t freedom_of(const muster_dual *dual)
{
    bool tests =
        dual->zeros_max > dual->stragglers && dual->freedom <= FREEDOM_MAX;
    return tests ? dual->freedom : 0;
}

static size_t matrix_bytes(const muster_dual *dual)
{
    size_t freedom = freedom_of(dual);
    return freedom * (freedom + 1) * sizeof(double);
}

size_t muster_dual_progress_bytes(const muster_code *code)
{
    const muster_dual *dual = code->state;
    return sizeof(dual_progress) + matrix_bytes(dual) +
           dual->stragglers * sizeof(uint32_t) + dual->workers;
}

void muster_dual_progress_reset(const muster_code *code, void *memory)
{
    const muster_dual *dual = code->state;
    dual_progress *progress = memory;
    char *after = (char *)(progress + 1) + matrix_bytes(dual);
    memset(memory, 0, muster_dual_progress_bytes(code));
    progress->missing = dual->workers;
    progress->matrix = (double *)(void *)(progress + 1);
    progress->pinned = (uint32_t *)(void *)after;
    progress->standing = (uint8_t *)(progress->pinned + dual->stragglers);
}

/* Pin s of the missing, spread over them. */
static void pin(const muster_dual *dual, dual_progress *progress)
{
    uint32_t seen = 0;
    uint64_t count = 0;
    for (uint32_t w = 0; w < dual->workers; w++) {
        if (progress->standing[w] == HEARD) {
            continue;
        }
        bool due = count < dual->stragglers &&
                   seen == count * progress->missing / dual->stragglers;
        if (due) {
            progress->pinned[count++] = w;
        }
        progress->standing[w] = due ? WATCHED : MISSING;
        seen++;
    }
}

/* Row `row` of the constraints: the null vector of a column, and what it must
 * add up to. */
static void set_row(const muster_dual *dual, size_t column, double *row)
{
    memcpy(row, dual->null + column * dual->freedom,
           dual->freedom * sizeof(double));
    row[dual->freedom] = -dual->affine[column];
}

static void swap_rows(double *a, double *b, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++) {
        double held = a[i];
        a[i] = b[i];
        b[i] = held;
    }
}

/* Gauss and Jordan with row exchanges on size x (size + 1): the solution ends
 * in the last column. False when singular. */
static bool eliminate(double *matrix, uint32_t size)
{
    size_t width = (size_t)size + 1;
    for (uint32_t c = 0; c < size; c++) {
        uint32_t best = c;
        for (uint32_t r = c + 1; r < size; r++) {
            if (fabs(matrix[r * width + c]) > fabs(matrix[best * width + c])) {
                best = r;
            }
        }
        double *lead = matrix + c * width;
        swap_rows(lead, matrix + best * width, size + 1);
        if (lead[c] == 0.0) {
            return false;
        }
        for (uint32_t i = size + 1; i-- > c;) {
            lead[i] /= lead[c];
        }
        for (uint32_t r = 0; r < size; r++) {
            double *row = matrix + r * width;
            double factor = row[c];
            for (uint32_t i = c; r != c && i <= size; i++) {
                row[i] -= factor * lead[i];
            }
        }
    }
    return true;
}

/* Does the decoding that `matrix` solved for vanish on this worker? */
static bool vanishes(const muster_dual *dual, const double *matrix,
                     uint32_t worker)
{
    uint32_t freedom = dual->freedom;
    double weight = 0.0;
    double size = 0.0;
    for (uint32_t b = 0; b < dual->blocks; b++) {
        size_t column = (size_t)worker * dual->blocks + b;
        const double *null = dual->null + column * freedom;
        double sum = dual->affine[column];
        for (uint32_t t = 0; t < freedom; t++) {
            sum += matrix[t * (freedom + 1) + freedom] * null[t];
        }
        weight += fabs(sum);
        size += fabs(dual->affine[column]);
    }
    return weight <= VANISHED * size;
}

/* Look for a witness among the missing; false when all vanish. */
static bool find_witness(const muster_dual *dual, dual_progress *progress)
{
    pin(dual, progress);
    for (uint32_t t = 0; t < dual->freedom; t++) {
        size_t worker = progress->pinned[t / dual->blocks];
        set_row(dual, worker * dual->blocks + t % dual->blocks,
                progress->matrix + (size_t)t * (dual->freedom + 1));
    }
    progress->watching = false;
    if (!eliminate(progress->matrix, dual->freedom)) {
        return true; // cannot tell; ask again with the next answer
    }
    for (uint32_t w = 0; w < dual->workers; w++) {
        if (progress->standing[w] == MISSING &&
            !vanishes(dual, progress->matrix, w)) {
            progress->standing[w] = WATCHED;
            progress->watching = true;
            return true;
        }
    }
    return false;
}

bool muster_dual_progress_add(const muster_code *code, void *memory,
                              uint32_t worker)
{
    const muster_dual *dual = code->state;
    dual_progress *progress = memory;
    bool was_watched = progress->standing[worker] == WATCHED;
    progress->standing[worker] = HEARD;
    progress->missing--;
    if (progress->ready || progress->missing <= dual->stragglers) {
        progress->ready = true;
    } else if (progress->missing <= dual->zeros_max && freedom_of(dual) > 0 &&
               (was_watched || !progress->watching)) {
        progress->ready = !find_witness(dual, progress);
    }
    return progress->ready;
}
