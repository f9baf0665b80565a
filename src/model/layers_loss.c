/*
 * layers_loss.c -- see layers_loss.h.
 */
#include "model/layers_loss.h"

#include "model/layers_error.h"

#define OPS_US 1e5 // operations in a microsecond

/* What a thread found. */
typedef struct loss_found {
    muster_status status;
    double loss;
} loss_found;

typedef struct loss_share {
    muster_layers_pass *pass;
    uint32_t begin, count; // rows
    uint32_t parts;
    loss_found found[MUSTER_THREADS_MAX];
} loss_share;

static void loss_part(void *context, uint32_t index)
{
    loss_share *share = context;
    muster_layers_pass *pass = share->pass;
    const muster_layers *net = pass->net;
    const muster_rows *rows = &pass->input.rows;
    uint32_t outputs = net->sizes[net->count];
    uint32_t parts = share->parts;
    uint32_t from = (uint32_t)muster_threads_part(share->count, parts, index);
    uint32_t to = (uint32_t)muster_threads_part(share->count, parts, index + 1);
    uint32_t begin = share->begin + from;
    float *scores = pass->outs[net->count - 1] + (size_t)begin * outputs;
    const muster_loss_rows scored = {
        net->loss, to - from, outputs,
        rows->labels != NULL ? rows->labels + begin : NULL,
        pass->input.weights != NULL ? pass->input.weights + begin : NULL};
    loss_found *found = &share->found[index];
    *found = (loss_found){MUSTER_OK, 0};
    muster_layers_scale_errors(pass, scores, begin, to - from);
    found->status = muster_loss_slopes(&scored, scores, &found->loss);
}

muster_status muster_layers_loss(muster_layers_pass *pass, uint32_t begin,
                                 uint32_t end)
{
    muster_threads *pool = pass->input.pool;
    uint32_t outputs = pass->net->sizes[pass->net->count];
    double ops = MUSTER_LAYERS_SCORE_OPS * (end - begin) * outputs;
    double work_us = ops / OPS_US;
    loss_share share = {.pass = pass,
                        .begin = begin,
                        .count = end - begin,
                        .parts = muster_threads_parts(pool, work_us)};
    muster_threads_run_some(pool, share.parts, work_us, loss_part, &share);
    muster_status status = MUSTER_OK;
    for (uint32_t i = 0; i < share.parts; i++) {
        pass->loss += share.found[i].loss;
        status = status == MUSTER_OK ? share.found[i].status : status;
    }
    return status;
}
