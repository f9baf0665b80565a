/*
 * model/layers_pass.h -- rows through convolutions and fully connected layers,
 * and gradients back; layers.h says what the layers are.
 *
 * A pass takes a block of rows through all layers: forwards layer by layer,
 * the loss, backwards layer by layer. It is cut into tiles of matrix products,
 * and a step does tiles worth about 5 ms, so that a caller can stop in between:
 *
 *     muster_layers_begin(&pass, net, &input);
 *     do { status = muster_layers_step(&pass); } while (.. IN_PROGRESS);
 *
 *   Promise      Tiles are cut by sizes alone: the same input gives the same
 *                bits, however it is stopped and continued. A label outside
 *                the classes is MUSTER_ERR_INPUT, before the gradient changes.
 *                Another number of threads may round differently.
 *   Ownership    The input's memory is lent until the last step.
 *   Allocation   None: the caller brings muster_layers_scratch_bytes().
 */
#ifndef MUSTER_MODEL_LAYERS_PASS_H
#define MUSTER_MODEL_LAYERS_PASS_H

#include "base/threads.h"
#include "model/conv.h"
#include "model/dropout.h"
#include "model/layers.h"
#include "model/layers_kernel.h"
#include "model/loss.h"

/*
 * Rows of a block for one thread, and rows that a product sums at once in
 * float32: as many as make BLAS fast and no more. A block streams all weights
 * twice and all sums once, 16 bytes for 6 operations a row: with 512 rows that
 * is a few per cent of the products' own time. More rows would only add
 * scratch, and rounding to the sums.
 */
#define MUSTER_LAYERS_ROWS 512u

typedef struct muster_layers {
    muster_loss loss;     // its class weights are class_weights
    float *class_weights; // owned, or NULL
    muster_conv conv;     // in front of the layers
    uint32_t count;       // weight matrices
    uint32_t sizes[MUSTER_LAYERS_MAX + 1]; // features, hidden.., outputs
    size_t weights[MUSTER_LAYERS_MAX];     // offsets into theta
    size_t biases[MUSTER_LAYERS_MAX];
    size_t gains[MUSTER_LAYERS_MAX]; // of layer norm; shifts follow them
    bool has_norm;                   // hidden layers are normed
    double dropout;                  // share of hidden units
    size_t dim;
} muster_layers;

/* How much two rows of a block agree, layer by layer: the product of their
 * gradients over the mean square, from about 0 to 1. Measured in a block that
 * begins a sum, kept for those that follow. */
typedef struct muster_layers_coherence {
    bool is_fresh; // the gradient is 0 before this block
    double layers[MUSTER_LAYERS_MAX];
} muster_layers_coherence;

typedef struct muster_layers_input {
    const float *theta;
    muster_rows rows;
    const float *weights; // of the rows' losses; NULL: all 1
    void *scratch;
    float *gradient; // added to; NULL: scores only
    double *wide;    // NULL, or sums of the first layer go here, in double,
                     // where that costs nothing: muster_layers_wide()
    uint32_t rows_summed;       // rows that `gradient` takes before it is read
    const uint32_t *sample_ids; // of the rows; NULL: nothing is dropped out
    uint64_t seed, step;        // with them: what is (dropout.h)
    muster_layers_coherence *coherence; // NULL: taken as the largest
    muster_threads *pool; // threads that share the work; NULL: the caller's own
} muster_layers_input;

typedef enum muster_layers_phase {
    MUSTER_LAYERS_CONV, // the convolutions
    MUSTER_LAYERS_FORWARD,
    MUSTER_LAYERS_NORM, // of a hidden layer's outputs
    MUSTER_LAYERS_LOSS,
    MUSTER_LAYERS_WEIGHTS,   // gradient of a layer's weights
    MUSTER_LAYERS_BELOW,     // slopes of the layer below
    MUSTER_LAYERS_NORM_BACK, // through the norm of that layer
    MUSTER_LAYERS_CONV_BACK,
    MUSTER_LAYERS_DONE,
} muster_layers_phase;

typedef struct muster_layers_pass {
    const muster_layers *net;
    muster_layers_input input;
    float *outs[MUSTER_LAYERS_MAX];     // rows x sizes[l + 1]; the last: scores
    float *normed[MUSTER_LAYERS_MAX];   // as many; NULL without norm
    float *inverses[MUSTER_LAYERS_MAX]; // of the rows' deviations
    float *spare;                       // a tile of slopes
    float *error_scales;                // per row, see layers_error.h
    muster_dropout dropout;
    muster_conv_pass conv;
    muster_layers_phase phase;
    uint32_t layer;
    uint32_t column; // of the tile to do next, or row where rows are cut
    uint32_t inner;  // along the sum, or down the weights
    double loss;     // sum of weight times loss, complete when done
    double variance; // of the gradient's rounding, squares of its coordinates
                     // added up, in units of 2^-48; complete when done
} muster_layers_pass;

/* rows_max rows of all layers' outputs (twice with norm), a tile and a float:
 * at most rows_max * (sum of widths + 545) + 2^18 floats; and what convolutions
 * need: muster_conv_bytes(). */
size_t muster_layers_scratch_bytes(const void *model, uint32_t rows_max);
/* The same for several threads, whose tiles are as many times as wide: the
 * tile grows to rows_max of the widest hidden layer at most. */
size_t muster_layers_scratch_shared(const muster_layers *net, uint32_t rows_max,
                                    uint32_t threads);

/* How many leading coordinates of the gradient a pass sums in `wide`, given
 * one; all others go to `gradient`. */
size_t muster_layers_wide(const muster_layers *net, bool is_sparse);

void muster_layers_begin(muster_layers_pass *pass, const muster_layers *net,
                         const muster_layers_input *input);
/* MUSTER_IN_PROGRESS, MUSTER_OK, or MUSTER_ERR_INPUT for a label. */
MUSTER_CHECKED muster_status muster_layers_step(muster_layers_pass *pass);
/* Less than a step: some of the phase at hand, a tile or some rows, and on to
 * the next when it is over; *ops_out says how much it was. */
MUSTER_CHECKED muster_status muster_layers_advance(muster_layers_pass *pass,
                                                   double *ops_out);

/* Floats of a row that goes in. */
size_t muster_layers_features(const muster_layers *net);

/* Whether the pass stands at the first layer, over sparse rows. */
bool muster_layers_is_sparse(const muster_layers_pass *pass);
/* Whether the pass's layer is followed by another. */
bool muster_layers_is_hidden(const muster_layers_pass *pass);

/* The input of the pass's layer: dense rows, or the outputs below. */
muster_matrix muster_layers_input_of(const muster_layers_pass *pass);
/* Those outputs, or NULL where the input is the rows. */
float *muster_layers_below(const muster_layers_pass *pass);

/* The functions of muster_model_ops: a whole pass at once. */
// NOLINTNEXTLINE(readability-function-size): the shape of the public ops.
muster_status muster_layers_gradient(const void *model, const float *theta,
                                     const muster_rows *rows,
                                     const float *weights, void *scratch,
                                     float *gradient, double *loss);

muster_status muster_layers_predict(const void *model, const float *theta,
                                    const muster_rows *rows, void *scratch,
                                    float *out);

#endif // MUSTER_MODEL_LAYERS_PASS_H
