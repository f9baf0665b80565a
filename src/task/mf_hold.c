/*
 * mf_hold.c -- what is done to the cells before they are dealt: some are held
 * out of training, and the mean is taken off all of them. Both look at cells in
 * the order of the file, so that every node and any number of parts gets the
 * same.
 */
#include <math.h>

#include "base/mem.h"
#include "base/rng.h"
#include "task/mf.h"

#define HOLD_STREAM 0x686f6c64u // of the random numbers

static bool held(const muster_mf *m, uint64_t cell, double share)
{
    uint64_t bits = muster_rng_at(m->seed, HOLD_STREAM, cell);
    return cell > 0 && (double)(bits >> 11) * 0x1p-53 < share;
}

muster_status muster_mf_hold_out(muster_mf *m, double share)
{
    uint64_t count = 0;
    for (uint64_t i = 0; i < m->train.count; i++) {
        count += held(m, i, share);
    }
    if (count == 0) {
        return MUSTER_OK;
    }
    m->valid.cells = muster_mem_array(count, sizeof(*m->valid.cells));
    if (m->valid.cells == NULL) {
        return MUSTER_ERR_NO_MEMORY;
    }
    m->valid.rows = m->train.rows;
    m->valid.cols = m->train.cols;
    uint64_t kept = 0;
    for (uint64_t i = 0; i < m->train.count; i++) {
        if (held(m, i, share)) {
            m->valid.cells[m->valid.count++] = m->train.cells[i];
        } else {
            m->train.cells[kept++] = m->train.cells[i];
        }
    }
    m->train.count = kept;
    return MUSTER_OK;
}

static void shift(muster_ratings *ratings, float by)
{
    for (uint64_t i = 0; i < ratings->count; i++) {
        ratings->cells[i].value -= by;
    }
}

void muster_mf_centre(muster_mf *m)
{
    double sum = 0;
    double squares = 0;
    double count = (double)m->train.count;
    for (uint64_t i = 0; i < m->train.count; i++) {
        sum += (double)m->train.cells[i].value;
    }
    m->mean = (double)(float)(sum / count);
    for (uint64_t i = 0; i < m->train.count; i++) {
        double off = (double)m->train.cells[i].value - m->mean;
        squares += off * off;
    }
    m->unit = squares > 0 ? pow(squares / count, 0.25) : 1;
    shift(&m->train, (float)m->mean);
    shift(&m->valid, (float)m->mean);
    shift(&m->test, (float)m->mean);
}
