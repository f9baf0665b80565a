/*
 * fuzz_classes.c -- a state that was accepted is written in the newest form,
 * which is accepted and written back byte for byte; and going on from it gives
 * probabilities.
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

static void check_round_trip(const muster_classes *classes, const uint8_t *data,
                             size_t size)
{
    muster_classes_opts opts = {.workers = 2};
    muster_classes *again = NULL;
    muster_vec first = muster_vec_make(1);
    muster_vec second = muster_vec_make(1);
    MUSTER_ASSERT(muster_classes_create(&opts, &again) == MUSTER_OK);
    MUSTER_ASSERT(muster_classes_save(classes, &first));
    MUSTER_ASSERT(muster_classes_load(again, first.data, first.count) ==
                  MUSTER_OK);
    MUSTER_ASSERT(muster_classes_save(again, &second));
    MUSTER_ASSERT(first.count == second.count);
    MUSTER_ASSERT(memcmp(first.data, second.data, first.count) == 0);
    // An older form is shorter.
    MUSTER_ASSERT(size <= first.count);
    MUSTER_ASSERT(size < first.count || memcmp(first.data, data, size) == 0);
    muster_vec_fini(&first);
    muster_vec_fini(&second);
    muster_classes_free(again);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    muster_classes_opts opts = {.workers = 2};
    muster_classes *classes = NULL;
    MUSTER_ASSERT(muster_classes_create(&opts, &classes) == MUSTER_OK);
    if (muster_classes_load(classes, data, size) == MUSTER_OK) {
        check_round_trip(classes, data, size);
        check(classes);
    }
    muster_classes_free(classes);
    return 0;
}
