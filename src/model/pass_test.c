/*
 * A pass over a block of rows: its tiles make the gradient of the rows however
 * they are cut, it stops often enough, and blocks have the sizes that the
 * design page states.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <math.h>
#include <string.h>

#include "base/mem.h"
#include "base/rng.h"
#include "model/pass.h"

typedef struct block {
    muster_model model;
    muster_rows rows;
    float *dense;
    float *labels;
    float *theta;
    float *gradient;
    float *weights;
    void *scratch;
} block;

static float *normals(size_t count, uint64_t seed)
{
    float *data = muster_mem_array(count, sizeof(float));
    muster_rng rng = muster_rng_make(seed, 1);
    assert_non_null(data);
    for (size_t i = 0; i < count; i++) {
        data[i] = (float)muster_rng_normal(&rng);
    }
    return data;
}

static void block_init(block *b, const char *spec, uint32_t features,
                       uint32_t count)
{
    assert_int_equal(muster_model_create(spec, features, 3, NULL, &b->model),
                     MUSTER_OK);
    float *labels = muster_mem_array(count, sizeof(float));
    b->labels = labels;
    b->dense = normals((size_t)count * features, 3);
    for (uint32_t r = 0; r < count; r++) {
        labels[r] = (float)(r % 3);
    }
    b->rows = (muster_rows){.count = count,
                            .features = features,
                            .dense = b->dense,
                            .stride = features,
                            .labels = labels};
    b->theta = muster_mem_array(b->model.dim, sizeof(float));
    b->gradient = muster_mem_array(b->model.dim, sizeof(float));
    b->weights = normals(count, 5);
    b->scratch =
        muster_mem_raw_aligned(muster_model_pass_bytes(&b->model, count, 1), 1);
    b->model.ops->init(b->model.self, 1, b->theta);
}

static void block_fini(block *b)
{
    muster_mem_free(b->dense);
    muster_mem_free(b->labels);
    muster_mem_free(b->theta);
    muster_mem_free(b->gradient);
    muster_mem_free(b->weights);
    muster_mem_free(b->scratch);
    muster_model_free(&b->model);
}

/* Add the gradient of rows begin..begin+count-1; returns the steps it took. */
static uint32_t add_pass(block *b, uint32_t begin, uint32_t count,
                         muster_model_pass *pass)
{
    muster_layers_input input = {.theta = b->theta,
                                 .rows = b->rows,
                                 .weights = b->weights + begin,
                                 .scratch = b->scratch,
                                 .gradient = b->gradient};
    input.rows.count = count;
    input.rows.dense += (size_t)begin * b->rows.stride;
    input.rows.labels += begin;
    muster_model_pass_begin(pass, &b->model, &input);
    uint32_t steps = 1;
    while (muster_model_pass_step(pass) == MUSTER_IN_PROGRESS) {
        steps++;
    }
    return steps;
}

static uint32_t add_gradient(block *b, uint32_t begin, uint32_t count,
                             double *loss)
{
    muster_model_pass pass;
    uint32_t steps = add_pass(b, begin, count, &pass);
    *loss += pass.loss;
    return steps;
}

/* What rounding does to that gradient. */
static double add_variance(block *b, uint32_t begin, uint32_t count,
                           double *loss)
{
    muster_model_pass pass;
    (void)add_pass(b, begin, count, &pass);
    *loss += pass.loss;
    return pass.variance;
}

static double apart(const float *a, const float *b, size_t count)
{
    double difference = 0;
    double norm = 0;
    for (size_t i = 0; i < count; i++) {
        difference += pow((double)a[i] - (double)b[i], 2);
        norm += (double)b[i] * (double)b[i];
    }
    return sqrt(difference / norm);
}

/* 512 rows are cut along columns and inner sides, 32 rows are not. */
static void tiles_make_the_gradient_of_all_rows(void **state)
{
    (void)state;
    block b;
    double whole_loss = 0;
    double loss = 0;
    block_init(&b, "mlp:hidden=1030,530", 1100, 512);
    uint32_t steps = add_gradient(&b, 0, 512, &whole_loss);
    assert_true(steps > 4);
    float *whole = muster_mem_array(b.model.dim, sizeof(float));
    memcpy(whole, b.gradient, b.model.dim * sizeof(float));
    memset(b.gradient, 0, b.model.dim * sizeof(float));
    for (uint32_t begin = 0; begin < 512; begin += 32) {
        (void)add_gradient(&b, begin, 32, &loss);
    }
    assert_true(fabs(whole_loss - loss) < 1e-4 * fabs(loss) + 1e-3);
    assert_true(apart(whole, b.gradient, b.model.dim) < 2e-6);
    muster_mem_free(whole);
    block_fini(&b);
}

/* 512 rows of 2048-1024-3 are 6.5e9 operations, a step at most 1e9. */
static void no_step_does_more_than_a_tile_and_its_budget(void **state)
{
    (void)state;
    block b;
    double loss = 0;
    block_init(&b, "mlp:hidden=1024", 2048, 512);
    assert_true(add_gradient(&b, 0, 512, &loss) >= 4);
    block_fini(&b);
}

static void blocks_stay_in_the_hundreds_whatever_the_layers(void **state)
{
    (void)state;
    static const char *const specs[] = {"softmax", "mlp:hidden=64",
                                        "mlp:hidden=4096,4096"};
    muster_model model;
    for (size_t i = 0; i < sizeof(specs) / sizeof(specs[0]); i++) {
        assert_int_equal(muster_model_create(specs[i], 1024, 10, NULL, &model),
                         MUSTER_OK);
        assert_int_equal(muster_model_block_rows(&model, 1, 1), 512);
        assert_true(muster_model_block_rows(&model, 0.01, 1) >= 512);
        muster_model_free(&model);
    }
    assert_int_equal(muster_model_create("softmax", 1u << 20, 10, NULL, &model),
                     MUSTER_OK);
    assert_int_equal(muster_model_block_rows(&model, 1, 1), 16);
    muster_model_free(&model);
}

/* 256 rows a thread, 4,096 in all, and 2^18 floats a thread in a layer. */
static void blocks_of_many_threads_have_more_rows(void **state)
{
    (void)state;
    static const struct {
        const char *spec;
        uint32_t threads, rows;
    } cases[] = {{"softmax", 16, 4096},
                 {"mlp:hidden=256,256", 2, 512},
                 {"mlp:hidden=256,256", 4, 1024},
                 {"mlp:hidden=1024,64", 16, 4096},
                 {"mlp:hidden=4096,4096", 8, 512},
                 {"mlp:hidden=4096,4096", 16, 1024},
                 {"cnn:channels=4,image=32x32x1", 16, 512}};
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        muster_model model;
        uint32_t threads = cases[i].threads;
        assert_int_equal(
            muster_model_create(cases[i].spec, 1024, 10, NULL, &model),
            MUSTER_OK);
        assert_int_equal(muster_model_block_rows(&model, 1, threads),
                         cases[i].rows);
        assert_true(muster_model_spare_rows(&model, 1) <= 512);
        muster_model_free(&model);
    }
}

/* Products sum 512 rows at once, so a block of 1,500 is off as three are. */
static void rounding_does_not_grow_with_the_block(void **state)
{
    (void)state;
    block b;
    double loss = 0;
    double parts_loss = 0;
    double parts = 0;
    block_init(&b, "mlp:hidden=40", 30, 1500);
    double whole = add_variance(&b, 0, 1500, &loss);
    memset(b.gradient, 0, b.model.dim * sizeof(float));
    for (uint32_t begin = 0; begin < 1500; begin += 500) {
        parts += add_variance(&b, begin, 500, &parts_loss);
    }
    assert_true(fabs(parts_loss - loss) < 1e-4 * fabs(loss) + 1e-3);
    assert_true(fabs(whole - parts) < 0.1 * parts);
    block_fini(&b);
}

/* Work that may be left: 50 million operations, but 16 rows, and not more rows
 * than other blocks have. */
static void blocks_of_spare_work_are_short(void **state)
{
    (void)state;
    static const struct {
        const char *spec;
        uint32_t features, rows;
    } cases[] = {{"softmax", 784, 318},
                 {"mlp:hidden=512", 784, 20},
                 {"mlp:hidden=4096,4096", 784, 16},
                 {"softmax", 1u << 21, 8}};
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        muster_model model;
        assert_int_equal(muster_model_create(cases[i].spec, cases[i].features,
                                             10, NULL, &model),
                         MUSTER_OK);
        assert_int_equal(muster_model_spare_rows(&model, 1), cases[i].rows);
        muster_model_free(&model);
    }
}

/* Scratch is the outputs, a tile and 17 floats a row. */
static void scratch_is_bounded_as_stated(void **state)
{
    (void)state;
    muster_model model;
    assert_int_equal(
        muster_model_create("mlp:hidden=4096,4096", 1024, 10, NULL, &model),
        MUSTER_OK);
    size_t floats = (size_t)512 * (4096 + 4096 + 10 + 545) + ((size_t)1 << 18);
    assert_true(muster_model_pass_bytes(&model, 512, 1) <=
                floats * sizeof(float));
    muster_model_free(&model);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(tiles_make_the_gradient_of_all_rows),
        cmocka_unit_test(no_step_does_more_than_a_tile_and_its_budget),
        cmocka_unit_test(blocks_stay_in_the_hundreds_whatever_the_layers),
        cmocka_unit_test(blocks_of_many_threads_have_more_rows),
        cmocka_unit_test(rounding_does_not_grow_with_the_block),
        cmocka_unit_test(blocks_of_spare_work_are_short),
        cmocka_unit_test(scratch_is_bounded_as_stated),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
