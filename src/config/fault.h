/*
 * config/fault.h -- faults on demand, as the options spell them.
 *
 *   --slow 3:200ms   worker 3 sleeps 200 ms every step
 *   --slow 3:10x     worker 3 takes 10 times as long: it sleeps 9 times the
 *                    CPU time that the step took
 *   --slow 3:200ms@50, --slow 3:10x@50
 *                    the same from step 50 on, in place of what was before
 *   --slow 3:0@80    worker 3 is as fast as it can from step 80 on
 *   --kill 3@50, --rejoin 3@80, --stop 3@50, --cont 3@80
 *   --kill edge1@50  edge 1; likewise in all the others
 *
 * Both the runtime (signals, sleeps) and the simulator read them from here.
 */
#ifndef MUSTER_CONFIG_FAULT_H
#define MUSTER_CONFIG_FAULT_H

#include <stdbool.h>
#include <stdint.h>

#include "base/vec.h"
#include "config/config.h"

typedef enum muster_fault_kind {
    MUSTER_FAULT_SLOW_BY = 1,    // delay_ns more a step
    MUSTER_FAULT_SLOW_TIMES = 2, // factor times as slow
    MUSTER_FAULT_KILL = 3,       // when `step` begins
    MUSTER_FAULT_REJOIN = 4,     // likewise, after a kill
    MUSTER_FAULT_STOP = 5,
    MUSTER_FAULT_CONT = 6, // likewise, after a stop
} muster_fault_kind;

typedef struct muster_fault {
    muster_fault_kind kind;
    uint32_t worker;  // or the number of the edge
    uint64_t step;    // when it begins; SLOW: 0 where none was given
    int64_t delay_ns; // SLOW_BY; 0 there ends every slowness; else 0
    double factor;    // SLOW_TIMES, at least 1; else 0
    bool edge;        // `worker` numbers edges
} muster_fault;

/* One value of SLOW, KILL, REJOIN, STOP or CONT. MUSTER_ERR_INVALID says how
 * it is written. */
MUSTER_CHECKED muster_status muster_fault_parse(muster_option option,
                                                const char *text,
                                                muster_error *error_out,
                                                muster_fault *fault_out);

/* Append all faults of a configuration to `faults_out` (of muster_fault), by
 * ascending step; those of one step in the order CONT, REJOIN, STOP, KILL.
 * MUSTER_ERR_INVALID as above, MUSTER_ERR_NO_MEMORY. */
MUSTER_CHECKED muster_status muster_faults_read(const muster_config *config,
                                                muster_error *error_out,
                                                muster_vec *faults_out);

#endif // MUSTER_CONFIG_FAULT_H
