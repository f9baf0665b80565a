/*
 * fuzz_classes.c -- a state that was accepted is written back byte for byte,
 * and going on from it gives probabilities.
 */
#include <string.h>

#include "base/assert.h"
#include "cluster/classes.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check(muster_classes *classes)
{
    for (uint32_t i = 0; i < 20; i++) {
        muster_classes_observe(classes, i % 2, i % 3 == 0, 0);
        muster_class class = muster_classes_of(classes, i % 2);
        MUSTER_ASSERT(class.probability >= 0 && class.probability <= 1);
        MUSTER_ASSERT(class.straggle_rate >= 0 && class.straggle_rate <= 1);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    muster_classes_opts opts = {.workers = 2};
    muster_classes *classes = NULL;
    MUSTER_ASSERT(muster_classes_create(&opts, &classes) == MUSTER_OK);
    if (muster_classes_load(classes, data, size) == MUSTER_OK) {
        muster_vec bytes = muster_vec_make(1);
        MUSTER_ASSERT(muster_classes_save(classes, &bytes));
        MUSTER_ASSERT(bytes.count == size);
        MUSTER_ASSERT(memcmp(bytes.data, data, size) == 0);
        muster_vec_fini(&bytes);
        check(classes);
    }
    muster_classes_free(classes);
    return 0;
}
