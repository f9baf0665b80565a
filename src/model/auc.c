/*
 * AUC by ranks: sort by score, give rows of one score their mean rank, add up
 * the ranks of class 1.
 */
#include "model/auc.h"

#include <math.h>
#include <stdlib.h>

bool muster_auc_applies(const muster_model *model)
{
    return model->kind == MUSTER_MODEL_BINARY ||
           (model->kind == MUSTER_MODEL_CLASSES && model->outputs == 2);
}

void muster_auc_collect(const muster_model *model, const muster_rows *rows,
                        const float *scores, muster_scored_row *rows_out)
{
    for (uint32_t r = 0; r < rows->count; r++) {
        const float *z = scores + (size_t)r * model->outputs;
        float score = model->outputs == 2 ? z[1] - z[0] : z[0];
        rows_out[r] = (muster_scored_row){score, rows->labels[r]};
    }
}

static int by_score(const void *left, const void *right)
{
    float a = ((const muster_scored_row *)left)->score;
    float b = ((const muster_scored_row *)right)->score;
    return (a > b) - (a < b);
}

double muster_auc(muster_scored_row *rows, size_t count)
{
    double ones = 0;
    double ranks = 0; // of class 1, from 1
    for (size_t i = 0; i < count; i++) {
        if (isnan(rows[i].score)) { // has no place in an order
            return NAN;
        }
    }
    qsort(rows, count, sizeof(*rows), by_score);
    for (size_t first = 0, end = 0; first < count; first = end) {
        double equal_ones = 0;
        while (end < count && !(rows[end].score > rows[first].score)) {
            equal_ones += rows[end].label > 0;
            end++;
        }
        ranks += equal_ones * ((double)(first + end) + 1) / 2;
        ones += equal_ones;
    }
    double zeros = (double)count - ones;
    return ones > 0 && zeros > 0
               ? (ranks - ones * (ones + 1) / 2) / (ones * zeros)
               : (double)NAN;
}
