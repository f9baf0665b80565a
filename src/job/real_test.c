/*
 * Real data through the executors: MNIST and a9a learn in a short run what a
 * short run can teach. Skipped where the data is not (MUSTER_DATA, default
 * ../shared/data). With MUSTER_TEST_LONG=1 the full runs, with the accuracies
 * that docs/models.md promises.
 */
#include "job/job_test.h"

#include <unistd.h>

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

static const char *data_path(const char *name, char path[512])
{
    const char *folder = getenv("MUSTER_DATA");
    (void)snprintf(path, 512, "%s/%s",
                   folder != NULL ? folder : "../shared/data", name);
    if (access(path, R_OK) != 0) {
        printf("skipped: %s is not there (set MUSTER_DATA)\n", path);
        skip();
    }
    return path;
}

static bool is_long(void)
{
    return getenv("MUSTER_TEST_LONG") != NULL;
}

/* Train with `workers` workers, losing a tolerated one at each step. */
static void check_accuracy(const char *code, const bed_option *options,
                           size_t count, double accuracy_min)
{
    testbed bed;
    bed_open(&bed, code, 4, options, count);
    muster_executor_info info = muster_executor_describe(bed.coordinator);
    assert_true(info.has_test);
    for (uint64_t t = 0; t < info.steps; t++) {
        bed_step(&bed, bed.info.stragglers > 0 ? (uint32_t)(t % 4) : 4);
    }
    muster_job_result end = bed_evaluate(&bed);
    printf("%s: %llu steps, objective %.4f, test loss %.4f, accuracy %.4f\n",
           muster_config_get(bed.config, "model"),
           (unsigned long long)info.steps, end.loss, end.test_loss,
           end.test_accuracy);
    assert_true(end.test_accuracy >= accuracy_min);
    bed_close(&bed);
}

static void mnist_softmax(void **state)
{
    (void)state;
    char path[512];
    const bed_option options[] = {
        {"data", data_path("mnist", path)},
        {"model", "softmax"},
        {"batch", "256"},
        {"optimizer", "momentum"},
        {"lr", "0.1"},
        {"schedule", "cosine"},
        {"epochs", is_long() ? "15" : "1"},
    };
    check_accuracy("uncoded", options, COUNT(options), is_long() ? 0.92 : 0.90);
}

static void mnist_mlp(void **state)
{
    (void)state;
    char path[512];
    const bed_option options[] = {
        {"data", data_path("mnist", path)},
        {"model", "mlp:hidden=256"},
        {"batch", "128"},
        {"optimizer", "momentum"},
        {"lr", "0.05"},
        {"schedule", "cosine"},
        {"epochs", is_long() ? "15" : "100"},
        {"steps", is_long() ? "0" : "150"},
    };
    check_accuracy("uncoded", options, COUNT(options),
                   is_long() ? 0.978 : 0.88);
}

static void a9a_logistic(void **state)
{
    (void)state;
    char path[512];
    const bed_option options[] = {
        {"data", data_path("a9a/a9a.gz", path)},
        {"model", "logistic"},
        {"batch", "256"},
        {"optimizer", "momentum"},
        {"lr", "0.1"},
        {"schedule", "cosine"},
        {"epochs", is_long() ? "15" : "2"},
    };
    check_accuracy("linear:spc", options, COUNT(options),
                   is_long() ? 0.848 : 0.84);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(mnist_softmax),
        cmocka_unit_test(mnist_mlp),
        cmocka_unit_test(a9a_logistic),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
