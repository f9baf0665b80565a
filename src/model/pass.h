/*
 * model/pass.h -- the gradient or the scores of a block of rows, in steps of
 * about 5 ms.
 *
 *     muster_model_pass_begin(&pass, &model, &input);
 *     do { status = muster_model_pass_step(&pass); } while (.. IN_PROGRESS);
 *
 * A built-in model stops between tiles of its matrix products
 * (layers_pass.h). A user's model takes a block at once: its blocks are
 * therefore cut to be short.
 *
 *   Promise      Blocks and steps are cut by sizes, never by clocks.
 *   Ownership    The input's memory is lent until the last step.
 *   Allocation   None.
 *   Threads      A pass belongs to one thread, which input->pool may help.
 */
#ifndef MUSTER_MODEL_PASS_H
#define MUSTER_MODEL_PASS_H

#include <stdbool.h>

#include "model/layers_pass.h"
#include "model/model.h"

typedef struct muster_model_pass {
    const muster_model *model;
    muster_layers_pass layers; // also holds a user's model's input
    double loss;               // when done: sum of weight times loss
    double variance; // when done: what rounding did to the gradient, see
                     // layers_pass.h; 0 for a user's model, which does not say
} muster_model_pass;

/*
 * Rows of a block, `density` being the share of entries that are stored, for
 * the threads of input->pool. This is the one place where blocks are cut; see
 * there for the reasons.
 */
uint32_t muster_model_block_rows(const muster_model *model, double density,
                                 uint32_t threads);
/* Of work that may be left at any time for something better: not more, and
 * about a millisecond of it. */
uint32_t muster_model_spare_rows(const muster_model *model, double density);

/* The model's scratch, for a block of so many rows and the threads of
 * input->pool. A user's model has one thread, whatever the pool. */
size_t muster_model_pass_bytes(const muster_model *model, uint32_t rows_max,
                               uint32_t threads);

/* How many leading coordinates of the gradient go to input->wide, if given. */
size_t muster_model_pass_wide(const muster_model *model, bool is_sparse);

/* For scores alone (input->gradient NULL) the model must be a built-in one. */
void muster_model_pass_begin(muster_model_pass *pass, const muster_model *model,
                             const muster_layers_input *input);

/* MUSTER_IN_PROGRESS: call again. MUSTER_ERR_INPUT: a label is not one of the
 * model's classes. A user's model may fail otherwise. */
MUSTER_CHECKED muster_status muster_model_pass_step(muster_model_pass *pass);

/* Rows of the block. */
uint32_t muster_model_pass_rows(const muster_model_pass *pass);

/* The scores (rows x outputs), in the scratch, after the last step of a pass
 * without a gradient. */
const float *muster_model_pass_scores(const muster_model_pass *pass);

#endif // MUSTER_MODEL_PASS_H
