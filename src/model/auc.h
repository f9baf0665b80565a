/*
 * model/auc.h -- the area under the ROC curve of a model with two classes.
 *
 * It is the probability that a row of class 1 has a larger score than a row of
 * class 0, equal scores counting one half: with midranks r, P rows of class 1
 * and N of class 0, (sum of r over class 1 - P (P + 1) / 2) / (P N).
 *
 *   Promise      Depends on the pairs of score and class alone, not on their
 *                order.
 *   Allocation   None of our own; the C library's qsort may take some.
 */
#ifndef MUSTER_MODEL_AUC_H
#define MUSTER_MODEL_AUC_H

#include <stddef.h>
#include <stdint.h>

#include "model/model.h"

/* One row of a test set. */
typedef struct muster_scored_row {
    float score; // the larger, the more class 1
    float label; // positive: class 1
} muster_scored_row;

/* Has the model two classes, so that its scores can be ranked? */
bool muster_auc_applies(const muster_model *model);

/* Copy the scores (count x outputs) and labels of some rows. */
void muster_auc_collect(const muster_model *model, const muster_rows *rows,
                        const float *scores, muster_scored_row *rows_out);

/* Sorts the rows. NAN: one class has no row, or a score is not a number.
 * O(count log count). */
double muster_auc(muster_scored_row *rows, size_t count);

#endif // MUSTER_MODEL_AUC_H
