/*
 * Losses. Labels are checked in one pass before anything is written; then each
 * row is done in float, and the loss is summed in double.
 */
#include "model/loss.h"

#include <math.h>

static uint32_t label_class(float label)
{
    return label > 0 ? (uint32_t)label : 0;
}

static float label_sign(float label)
{
    return label > 0 ? 1.0f : -1.0f;
}

/* Class labels are whole and below `classes`; -1 stands for 0 when there are
 * two. Targets need only be numbers. */
static muster_status check_labels(const muster_loss_rows *rows)
{
    if (rows->labels == NULL) {
        return MUSTER_ERR_INPUT;
    }
    if (rows->loss.kind == MUSTER_MODEL_REGRESSION) {
        return MUSTER_OK;
    }
    uint32_t classes =
        rows->loss.kind == MUSTER_MODEL_BINARY ? 2 : rows->outputs;
    float label_min = classes == 2 ? -1.0f : 0.0f;
    for (uint32_t r = 0; r < rows->count; r++) {
        float label = rows->labels[r];
        if (!(label >= label_min && label < (float)classes) ||
            floorf(label) != label) {
            return MUSTER_ERR_INPUT;
        }
    }
    return MUSTER_OK;
}

/* log(1 + exp(-m)) for a margin m, without overflow. */
static float log1p_exp_minus(float margin)
{
    return margin > 0 ? log1pf(expf(-margin)) : log1pf(expf(margin)) - margin;
}

/* 1 / (1 + exp(m)). */
static float sigmoid_minus(float margin)
{
    if (margin > 0) {
        float e = expf(-margin);
        return e / (1 + e);
    }
    return 1 / (1 + expf(margin));
}

static float largest(const float *scores, uint32_t count)
{
    float score_max = scores[0];
    for (uint32_t c = 1; c < count; c++) {
        score_max = scores[c] > score_max ? scores[c] : score_max;
    }
    return score_max;
}

/* What smoothing adds to the loss of a row: e times the score of its class
 * beyond the mean of all. */
static float smoothing_term(const float *z, uint32_t classes, uint32_t label,
                            float smoothing)
{
    float mean = 0;
    for (uint32_t c = 0; smoothing > 0 && c < classes; c++) {
        mean += (z[c] - z[label]) / (float)classes;
    }
    return -smoothing * mean;
}

static double softmax_loss(const float *z, uint32_t classes, uint32_t label,
                           float smoothing)
{
    float score_max = largest(z, classes);
    float sum = 0;
    for (uint32_t c = 0; c < classes; c++) {
        sum += expf(z[c] - score_max);
    }
    return (double)(logf(sum) - (z[label] - score_max) +
                    smoothing_term(z, classes, label, smoothing));
}

static double softmax_slopes(float *z, uint32_t classes, uint32_t label,
                             float smoothing, float weight)
{
    float score_max = largest(z, classes);
    float chosen = z[label] - score_max;
    float smoothed = smoothing_term(z, classes, label, smoothing);
    float each = weight * smoothing / (float)classes;
    float others = 0;
    for (uint32_t c = 0; c < classes; c++) {
        z[c] = expf(z[c] - score_max);
        others += c != label ? z[c] : 0;
    }
    float sum = others + z[label];
    float scale = weight / sum;
    for (uint32_t c = 0; c < classes; c++) {
        z[c] = z[c] * scale - each;
    }
    // Its probability minus 1 would lose the digits of a row that is right.
    z[label] = -scale * others + weight * smoothing - each;
    return (double)(logf(sum) - chosen + smoothed);
}

static double row_loss(const muster_loss *loss, uint32_t outputs,
                       const float *z, float label)
{
    if (loss->kind == MUSTER_MODEL_CLASSES) {
        return softmax_loss(z, outputs, label_class(label), loss->smoothing);
    }
    if (loss->kind == MUSTER_MODEL_BINARY) {
        return (double)log1p_exp_minus(label_sign(label) * z[0]);
    }
    double miss = (double)z[0] - (double)label;
    return miss * miss / 2;
}

static double row_slopes(const muster_loss *loss, uint32_t outputs, float *z,
                         float label, float weight)
{
    if (loss->kind == MUSTER_MODEL_CLASSES) {
        return softmax_slopes(z, outputs, label_class(label), loss->smoothing,
                              weight);
    }
    double value = row_loss(loss, outputs, z, label);
    if (loss->kind == MUSTER_MODEL_BINARY) {
        float sign = label_sign(label);
        z[0] = -weight * sign * sigmoid_minus(sign * z[0]);
    } else {
        z[0] = weight * (z[0] - label);
    }
    return value;
}

/* How many times the loss of row r counts. */
static float row_weight(const muster_loss_rows *rows, uint32_t r)
{
    const float *classes = rows->loss.class_weights;
    float weight = rows->weights != NULL ? rows->weights[r] : 1.0f;
    return classes != NULL ? weight * classes[label_class(rows->labels[r])]
                           : weight;
}

muster_status muster_loss_sum(const muster_loss_rows *rows, const float *scores,
                              double *loss)
{
    muster_status status = check_labels(rows);
    if (status != MUSTER_OK) {
        return status;
    }
    double sum = 0;
    for (uint32_t r = 0; r < rows->count; r++) {
        sum += (double)row_weight(rows, r) *
               row_loss(&rows->loss, rows->outputs,
                        scores + (size_t)r * rows->outputs, rows->labels[r]);
    }
    *loss += sum;
    return MUSTER_OK;
}

muster_status muster_loss_slopes(const muster_loss_rows *rows, float *scores,
                                 double *loss)
{
    muster_status status = check_labels(rows);
    if (status != MUSTER_OK) {
        return status;
    }
    double sum = 0;
    for (uint32_t r = 0; r < rows->count; r++) {
        float weight = row_weight(rows, r);
        sum += (double)weight * row_slopes(&rows->loss, rows->outputs,
                                           scores + (size_t)r * rows->outputs,
                                           rows->labels[r], weight);
    }
    *loss += sum;
    return MUSTER_OK;
}

uint32_t muster_loss_class(muster_model_kind kind, uint32_t outputs,
                           const float *scores)
{
    if (kind != MUSTER_MODEL_CLASSES) {
        return scores[0] > 0;
    }
    uint32_t best = 0;
    for (uint32_t c = 1; c < outputs; c++) {
        if (scores[c] > scores[best]) {
            best = c;
        }
    }
    return best;
}

uint32_t muster_loss_correct(const muster_loss_rows *rows, const float *scores)
{
    uint32_t right = 0;
    if (rows->loss.kind == MUSTER_MODEL_REGRESSION) {
        return 0;
    }
    for (uint32_t r = 0; r < rows->count; r++) {
        const float *z = scores + (size_t)r * rows->outputs;
        uint32_t class = muster_loss_class(rows->loss.kind, rows->outputs, z);
        float label = rows->labels[r] > 0 ? rows->labels[r] : 0;
        float score = rows->loss.kind == MUSTER_MODEL_CLASSES ? z[class] : z[0];
        right += !isnan(score) && (float)class == label;
    }
    return right;
}
