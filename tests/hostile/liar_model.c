/*
 * liar_model.c -- a model whose worker can be made to lie: the example's
 * linear regression with Huber's loss, and in a process with LIE in its
 * environment a gradient that is not its own:
 *
 *     scale     three times too long       constant  the same number everywhere
 *     flip      the other way              stale     that of the first model
 *     nan inf   not a number, infinite     huge      1e20 times too long
 *     vast      numbers whose sums are beyond floats
 */
// The honest model itself, under another name: it is a file, not a library.
#define muster_model_plugin honest_plugin // NOLINT
#include "../../examples/huber_model.c"   // NOLINT
#undef muster_model_plugin

#define DIM_MAX 256u

typedef struct lie_memory {
    float theta[DIM_MAX];
    int is_set;
} lie_memory;

static float told(const char *lie, float honest, size_t at)
{
    if (strcmp(lie, "scale") == 0) {
        return 3 * honest;
    }
    if (strcmp(lie, "flip") == 0) {
        return -honest;
    }
    if (strcmp(lie, "constant") == 0) {
        return 0.25f;
    }
    if (strcmp(lie, "vast") == 0) {
        return 1e36f; // a worker adds up some of them itself
    }
    if (strcmp(lie, "huge") == 0) {
        return 1e20f * honest;
    }
    if (strcmp(lie, "nan") == 0 && at == 0) {
        return NAN;
    }
    return strcmp(lie, "inf") == 0 && at == 0 ? INFINITY : honest;
}

// NOLINTNEXTLINE(readability-function-size): the shape of the public ops.
static muster_status lying_gradient(const void *model, const float *theta,
                                    const muster_rows *rows,
                                    const float *weights, void *scratch,
                                    float *gradient, double *loss)
{
    static lie_memory first;
    const char *lie = getenv("LIE");
    float own[DIM_MAX] = {0};
    size_t dim = huber_dim(model);
    if (lie == NULL || dim > DIM_MAX) {
        return huber_gradient(model, theta, rows, weights, scratch, gradient,
                              loss);
    }
    if (!first.is_set) {
        memcpy(first.theta, theta, dim * sizeof(float));
        first.is_set = 1;
    }
    const float *at = strcmp(lie, "stale") == 0 ? first.theta : theta;
    muster_status status =
        huber_gradient(model, at, rows, weights, scratch, own, loss);
    for (size_t i = 0; i < dim; i++) {
        gradient[i] += told(lie, own[i], i);
    }
    return status;
}

const muster_model_ops *muster_model_plugin(void);

const muster_model_ops *muster_model_plugin(void)
{
    static muster_model_ops ops;
    ops = *honest_plugin();
    ops.name = "liar";
    ops.gradient = lying_gradient;
    return &ops;
}
