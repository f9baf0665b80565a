#include "data/batch.h"

#include <math.h>

#include "base/assert.h"
#include "base/perm.h"

void muster_batch_draw(const muster_batch *batch, uint64_t step, uint64_t first,
                       uint64_t count, uint32_t *samples_out)
{
    uint64_t samples = batch->samples;
    MUSTER_ASSERT(samples >= 1 && samples <= UINT32_MAX && batch->size >= 1);
    MUSTER_ASSERT(first <= batch->size && count <= batch->size - first);
    if (batch->size == samples) {
        for (uint64_t i = 0; i < count; i++) {
            samples_out[i] = (uint32_t)(first + i);
        }
        return;
    }
    uint64_t position = step * batch->size + first;
    for (uint64_t done = 0; done < count;) {
        uint64_t in_epoch = position % samples;
        uint64_t left = samples - in_epoch;
        uint64_t run = count - done < left ? count - done : left;
        muster_perm perm =
            muster_perm_make(batch->seed, position / samples, samples);
        muster_perm_run(&perm, in_epoch, run, samples_out + done);
        position += run;
        done += run;
    }
}

uint64_t muster_batch_steps(const muster_batch *batch, double epochs)
{
    MUSTER_ASSERT(epochs >= 0.0 && batch->size >= 1);
    double steps = epochs * (double)batch->samples / (double)batch->size;
    // A product such as 0.1 * 30 may come out a hair above the whole number
    // that was meant.
    return (uint64_t)ceil(steps * (1.0 - 1e-12));
}
