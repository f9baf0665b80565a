/*
 * fuzz_specs.c -- values of options that are little languages: delays, faults,
 * topologies, optimisers, schedules. What is accepted keeps its promises. The
 * first byte chooses the reader.
 */
#include <math.h>
#include <string.h>

#include "base/assert.h"
#include "base/mem.h"
#include "base/topology.h"
#include "cluster/delay.h"
#include "config/fault.h"
#include "model/optim.h"
#include "model/schedule.h"

#define WORKERS 5u
#define STEPS   4u

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Files that a spec names are none of this target's. */
static void try_delay(const char *text)
{
    muster_delay *delay = NULL;
    if (strstr(text, "file") != NULL ||
        muster_delay_create(text, WORKERS, 1, NULL, &delay) != MUSTER_OK) {
        return;
    }
    const muster_delay_work work = {
        .share = 0.2, .message = 1, .compute_ns = 1000000};
    for (uint64_t step = 0; step < STEPS; step++) {
        for (uint32_t worker = 0; worker < WORKERS; worker++) {
            MUSTER_ASSERT(muster_delay_of(delay, worker, step, &work) >= 0);
        }
    }
    muster_delay_free(delay);
}

static void try_fault(const char *text)
{
    muster_fault fault;
    if (muster_fault_parse(MUSTER_OPT_SLOW, text, NULL, &fault) == MUSTER_OK) {
        MUSTER_ASSERT(fault.delay_ns >= 0);
        MUSTER_ASSERT(fault.factor == 0 ||
                      (fault.factor >= 1 && isfinite(fault.factor)));
    }
    if (muster_fault_parse(MUSTER_OPT_KILL, text, NULL, &fault) == MUSTER_OK) {
        MUSTER_ASSERT(fault.kind == MUSTER_FAULT_KILL);
    }
}

/* The text of a topology is read as the same topology. */
static void try_topology(const char *text)
{
    muster_topology one = {0}, two = {0};
    if (muster_topology_parse("fuzz", text, NULL, &one) != MUSTER_OK) {
        return;
    }
    MUSTER_ASSERT(one.workers <= MUSTER_TOPOLOGY_WORKERS_MAX);
    char *again = muster_topology_text(&one);
    MUSTER_ASSERT(again != NULL && muster_topology_parse("fuzz", again, NULL,
                                                         &two) == MUSTER_OK);
    MUSTER_ASSERT(one.edges == two.edges && one.workers == two.workers);
    MUSTER_ASSERT(
        memcmp(one.sizes, two.sizes, one.edges * sizeof(one.sizes[0])) == 0);
    muster_mem_free(again);
    muster_topology_fini(&one);
    muster_topology_fini(&two);
}

static void try_training(const char *text)
{
    muster_optim optim;
    muster_schedule schedule;
    if (muster_optim_parse(text, NULL, &optim) == MUSTER_OK) {
        MUSTER_ASSERT(optim.slots <= 2);
    }
    if (muster_schedule_parse(text, STEPS, NULL, &schedule) == MUSTER_OK) {
        for (uint64_t step = 0; step < STEPS; step++) {
            MUSTER_ASSERT(isfinite(muster_schedule_factor(&schedule, step)));
        }
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static void (*const readers[])(const char *) = {try_delay, try_fault,
                                                    try_topology, try_training};
    if (size < 1) {
        return 0;
    }
    char *text = muster_mem_string_n((const char *)data + 1, size - 1);
    MUSTER_ASSERT(text != NULL);
    readers[data[0] % 4](text);
    muster_mem_free(text);
    return 0;
}
