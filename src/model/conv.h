/*
 * model/conv.h -- convolutions in front of fully connected layers.
 *
 * A layer makes of an image with `channels` floats a pixel one of half the
 * height and half the width with `filters` floats a pixel: a 3 x 3 convolution
 * with zeros beyond the border, bias, ReLU, and of each 2 x 2 pixels the
 * largest. Its weights W are 9 channels x filters: row 3 channels ky +
 * channels kx + c is the tap (ky, kx) of channel c.
 *
 * A pass takes a block of images through all layers, and back. It works on a
 * group of images at a time, whose columns (conv_kernel.h) stay in the cache:
 *
 *   forwards   columns of the images; times W; pool
 *   backwards  unpool the slopes; columns again; their product is the gradient
 *              of W; slopes times W' fold to the slopes of the image below
 *
 * Columns are made anew on the way back: keeping them would take 9 times the
 * memory of all images. Threads share the images, each with buffers and sums
 * of its own.
 *
 *   Promise      Sums over groups are in double, in an order that depends on
 *                sizes and the number of threads alone.
 *   Ownership    The input's memory is lent until the pass is over.
 *   Allocation   None: the caller brings muster_conv_bytes().
 */
#ifndef MUSTER_MODEL_CONV_H
#define MUSTER_MODEL_CONV_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/threads.h"
#include "muster/rows.h"

#define MUSTER_CONV_LAYERS_MAX  8u
#define MUSTER_CONV_FILTERS_MAX 4096u

typedef struct muster_conv_layer {
    muster_image in;
    uint32_t filters;
    size_t weights; // offsets into theta
    size_t biases;
} muster_conv_layer;

typedef struct muster_conv {
    uint32_t count; // 0: none
    muster_conv_layer layers[MUSTER_CONV_LAYERS_MAX];
    size_t dim; // floats of theta: its first ones
} muster_conv;

/* Add a layer behind those that there are; `image` is the input of the first.
 * False: no place for another, or too small an image. */
bool muster_conv_add(muster_conv *conv, const muster_image *image,
                     uint32_t filters);

/* Floats that come out of a layer for an image. */
size_t muster_conv_layer_outputs(const muster_conv_layer *layer);

/* Floats of an image that goes in, and of what comes out of the last layer. */
size_t muster_conv_features(const muster_conv *conv);
size_t muster_conv_outputs(const muster_conv *conv);

typedef struct muster_conv_input {
    const float *theta;
    muster_rows rows;
    float *gradient; // added to; NULL: forwards only
    double *wide;    // NULL, or takes the place of `gradient`
    /* How much the slopes of row r are off, see layers_error.h; of rows that
     * are multiples of error_stride. */
    const float *error_scales;
    uint32_t error_stride;
    muster_threads *pool;
} muster_conv_input;

typedef struct muster_conv_pass {
    const muster_conv *conv;
    muster_conv_input input;
    double *sums;                           // a set a thread
    float *buffers;                         // likewise
    float *outs[MUSTER_CONV_LAYERS_MAX];    // rows x floats; later their slopes
    uint8_t *picks[MUSTER_CONV_LAYERS_MAX]; // as many
    uint32_t layer;
    uint32_t row;    // next
    bool is_back;    // the way back has begun
    double variance; // of the gradient's rounding, as in layers_pass.h
} muster_conv_pass;

/* A multiple of 64. */
size_t muster_conv_bytes(const muster_conv *conv, uint32_t rows_max,
                         uint32_t threads);

/* Scratch is aligned to 64 bytes. */
void muster_conv_begin(muster_conv_pass *pass, const muster_conv *conv,
                       const muster_conv_input *input, void *scratch);

/* Some images forwards, or back; *ops_out is what that took, in operations of
 * matrix products. True: the pass is through, that way. The way back begins
 * with slopes in place of the last layer's outputs, 0 where those were 0. */
bool muster_conv_forward(muster_conv_pass *pass, double ops_max,
                         double *ops_out);
bool muster_conv_back(muster_conv_pass *pass, double ops_max, double *ops_out);

/* Where the last layer's outputs are, and their slopes belong. */
float *muster_conv_out(const muster_conv_pass *pass);

/* How much outputs are off, in units of 2^-24 of themselves. */
double muster_conv_error(const muster_conv *conv);

#endif // MUSTER_MODEL_CONV_H
