/*
 * model/layers_tile.h -- the matrix products of a pass, a tile at a time.
 *
 * Each function does the next tile of the pass's layer and says whether it was
 * the last one. `column` and `inner` of the pass say where the tile is; both
 * are 0 before the first.
 */
#ifndef MUSTER_MODEL_LAYERS_TILE_H
#define MUSTER_MODEL_LAYERS_TILE_H

#include "model/layers_pass.h"

/* Floats of the largest tile of slopes, for `width_max` columns. */
size_t muster_layers_tile_floats(size_t width_max, uint32_t rows,
                                 uint32_t threads);

/* outputs = bias + x W, and what follows (layers_share.h). */
bool muster_layers_forward_tile(muster_layers_pass *pass, double *ops_out);

/* Gradient of W += x' slopes. */
bool muster_layers_weights_tile(muster_layers_pass *pass, double *ops_out);

/* Slopes of the layer below = slopes W', where its outputs are not 0. */
bool muster_layers_below_tile(muster_layers_pass *pass, double *ops_out);

#endif // MUSTER_MODEL_LAYERS_TILE_H
