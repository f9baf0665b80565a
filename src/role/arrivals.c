/*
 * arrivals.c -- see arrivals.h.
 */
#include "role/arrivals.h"

#include <stdlib.h>

#include "base/mem.h"

#define KEPT_MIN      256u
#define STEPS_KEPT    4u
#define MADS          5
#define SPREAD_DIVIDE 16

muster_status muster_arrivals_init(muster_arrivals *arrivals, uint32_t workers)
{
    uint32_t room = STEPS_KEPT * workers;
    room = room > KEPT_MIN ? room : KEPT_MIN;
    *arrivals = (muster_arrivals){
        .ring = muster_mem_array(room, sizeof(int64_t)),
        .scratch = muster_mem_array(room, sizeof(int64_t)),
        .workers = workers,
        .room = room,
    };
    if (arrivals->ring == NULL || arrivals->scratch == NULL) {
        muster_arrivals_fini(arrivals);
        return MUSTER_ERR_NO_MEMORY;
    }
    return MUSTER_OK;
}

void muster_arrivals_fini(muster_arrivals *arrivals)
{
    muster_mem_free(arrivals->ring);
    muster_mem_free(arrivals->scratch);
    *arrivals = (muster_arrivals){0};
}

void muster_arrivals_add(muster_arrivals *arrivals, int64_t delay_ns)
{
    arrivals->ring[arrivals->added++ % arrivals->room] = delay_ns;
}

static int ascending(const void *a, const void *b)
{
    int64_t x = *(const int64_t *)a;
    int64_t y = *(const int64_t *)b;
    return (x > y) - (x < y);
}

/* The upper median, so that with half of them "never" it is that. */
static int64_t median(int64_t *values, uint32_t count)
{
    qsort(values, count, sizeof(*values), ascending);
    return values[count / 2];
}

int64_t muster_arrivals_deadline_ns(const muster_arrivals *arrivals)
{
    uint32_t count = arrivals->added < arrivals->room
                         ? (uint32_t)arrivals->added
                         : arrivals->room;
    if (count < arrivals->workers) {
        return -1;
    }
    int64_t *values = arrivals->scratch;
    for (uint32_t i = 0; i < count; i++) {
        values[i] = arrivals->ring[i];
    }
    int64_t middle = median(values, count);
    if (middle == MUSTER_ARRIVAL_NEVER) {
        return -1;
    }
    for (uint32_t i = 0; i < count; i++) {
        if (values[i] != MUSTER_ARRIVAL_NEVER) {
            values[i] =
                values[i] > middle ? values[i] - middle : middle - values[i];
        }
    }
    int64_t spread = median(values, count);
    int64_t min_ns = middle / SPREAD_DIVIDE;
    spread = spread > min_ns ? spread : min_ns;
    return spread <= (INT64_MAX - middle) / MADS ? middle + MADS * spread : -1;
}
