/*
 * Tiles of matrix products.
 *
 *  1. A product is cut along its columns and along its inner side into tiles
 *     that are near to square (see tile_of): a tile of all columns and few
 *     rows, or the other way round, makes BLAS copy one side again and again.
 *     Measured with 512 rows and layers of 4,096: 512 columns by 1,024 run at
 *     0.90 to 0.96 of the whole product's speed, 128 columns by 4,096 at 0.84,
 *     single rows at 0.03.
 *  2. T threads do one tile at a time together (product.h), so tiles are T
 *     times as large, by columns.
 */
#include "model/layers_tile.h"

#include "model/layers_share.h"
#include "model/product.h"

#define TILE_OPS         5.4e8
#define TILE_INNER       1024u
#define TILE_COLUMNS_MIN 512u

typedef muster_layers_pass pass_t;

/* Cut `size` evenly, into pieces of at most size_max or little more. */
static uint32_t tile_of(uint32_t size, uint32_t size_max)
{
    uint32_t count = (size + size_max - 1) / size_max;
    uint32_t each = (size + count - 1) / count;
    return (each + 15) / 16 * 16;
}

/* Few rows make wide tiles, and so do many threads. */
static uint32_t columns_max(const pass_t *pass)
{
    double columns = TILE_OPS / (2.0 * TILE_INNER * pass->input.rows.count);
    uint32_t each =
        columns > TILE_COLUMNS_MIN ? (uint32_t)columns : TILE_COLUMNS_MIN;
    return each * muster_threads_count(pass->input.pool);
}

size_t muster_layers_tile_floats(size_t width_max, uint32_t rows,
                                 uint32_t threads)
{
    size_t tile = TILE_COLUMNS_MIN * (size_t)rows * threads;
    size_t tile_min = (size_t)(TILE_OPS / (2.0 * TILE_INNER)) * threads;
    tile = tile > tile_min ? tile : tile_min;
    return tile < width_max * rows ? tile : width_max * rows;
}

static uint32_t min_of(uint32_t a, uint32_t b)
{
    return a < b ? a : b;
}

/* Columns, and the side that is cut with them: what is summed over or, for the
 * weights' gradient, its rows. */
typedef struct tile_size {
    uint32_t columns;
    uint32_t inner;
} tile_size;

/* A product of the pass's layer: its size, and the part of it that a tile at
 * pass->column and pass->inner is. */
typedef struct tile_shape {
    tile_size whole;
    muster_product (*product)(const pass_t *pass, tile_size part);
    muster_product_work before; // of a column's first tile; or NULL
    muster_product_work after;  // of its last
} tile_shape;

static bool do_tile(pass_t *pass, const tile_shape *shape, double *ops_out)
{
    const tile_size whole = shape->whole;
    const tile_size part = {
        min_of(tile_of(whole.columns, columns_max(pass)),
               whole.columns - pass->column),
        min_of(tile_of(whole.inner, TILE_INNER), whole.inner - pass->inner),
    };
    muster_product product = shape->product(pass, part);
    product.before = pass->inner == 0 ? shape->before : NULL;
    product.after =
        pass->inner + part.inner == whole.inner ? shape->after : NULL;
    product.context = pass;
    muster_product_run(pass->input.pool, &product);
    *ops_out = 2.0 * pass->input.rows.count * part.columns * part.inner;
    pass->inner += part.inner;
    if (pass->inner == whole.inner) {
        pass->inner = 0;
        pass->column += part.columns;
    }
    return pass->column == whole.columns;
}

/* What the products of the layer's inputs have in common: inputs in front, and
 * columns of the layer's width behind. */
static muster_product inputs_product(const pass_t *pass, tile_size part)
{
    uint32_t width = pass->net->sizes[pass->layer + 1];
    muster_matrix x = muster_layers_input_of(pass);
    return (muster_product){.n = part.columns,
                            .a = x.data + pass->inner,
                            .a_stride = x.stride,
                            .b_stride = width,
                            .beta = 1,
                            .c_stride = width};
}

/* Where the tile begins among all weights. */
static size_t weights_at(const pass_t *pass)
{
    size_t width = pass->net->sizes[pass->layer + 1];
    return pass->net->weights[pass->layer] + pass->inner * width + pass->column;
}

static muster_product forward_product(const pass_t *pass, tile_size part)
{
    muster_product product = inputs_product(pass, part);
    product.m = pass->input.rows.count;
    product.k = part.inner;
    product.b = pass->input.theta + weights_at(pass);
    product.c = pass->outs[pass->layer] + pass->column;
    return product;
}

bool muster_layers_forward_tile(muster_layers_pass *pass, double *ops_out)
{
    const uint32_t *sizes = pass->net->sizes + pass->layer;
    const tile_shape shape = {{sizes[1], sizes[0]},
                              forward_product,
                              muster_layers_fill_cell,
                              muster_layers_activate_cell};
    return do_tile(pass, &shape, ops_out);
}

static muster_product weights_product(const pass_t *pass, tile_size part)
{
    muster_product product = inputs_product(pass, part);
    product.m = part.inner;
    product.k = pass->input.rows.count;
    product.terms = MUSTER_LAYERS_ROWS;
    product.a_turned = true;
    product.b = pass->outs[pass->layer] + pass->column;
    product.c = pass->input.gradient + weights_at(pass);
    return product;
}

bool muster_layers_weights_tile(muster_layers_pass *pass, double *ops_out)
{
    const uint32_t *sizes = pass->net->sizes + pass->layer;
    const tile_shape shape = {
        {sizes[1], sizes[0]}, weights_product, NULL, NULL};
    return do_tile(pass, &shape, ops_out);
}

static muster_product below_product(const pass_t *pass, tile_size part)
{
    uint32_t l = pass->layer;
    uint32_t above = pass->net->sizes[l + 1];
    return (muster_product){.m = pass->input.rows.count,
                            .n = part.columns,
                            .k = part.inner,
                            .a = pass->outs[l] + pass->inner,
                            .a_stride = above,
                            .b = pass->input.theta + pass->net->weights[l] +
                                 (size_t)pass->column * above + pass->inner,
                            .b_stride = above,
                            .b_turned = true,
                            .beta = pass->inner == 0 ? 0.0f : 1.0f,
                            .c = pass->spare,
                            .c_stride = part.columns};
}

bool muster_layers_below_tile(muster_layers_pass *pass, double *ops_out)
{
    const uint32_t *sizes = pass->net->sizes + pass->layer;
    const tile_shape shape = {
        {sizes[0], sizes[1]}, below_product, NULL, muster_layers_mask_cell};
    return do_tile(pass, &shape, ops_out);
}
