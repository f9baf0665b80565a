/*
 * run/simulate_sweep.h -- the codes of `simulate --code`: several joined by +,
 * and ranges of whole numbers in their parameters.
 *
 *   uncoded+frc:s=1..3   ->  uncoded  frc:s=1  frc:s=2  frc:s=3
 *
 * Which of them these workers can have is not looked at here.
 *
 * A name with two ranges stands for every pair, the last one running fastest.
 */
#ifndef MUSTER_RUN_SIMULATE_SWEEP_H
#define MUSTER_RUN_SIMULATE_SWEEP_H

#include "base/vec.h"
#include "muster/status.h"

#define MUSTER_SWEEP_CODES_MAX 10000u

/* The names, in order, as char * of muster_mem; `names_out` is made here and
 * ended by fini. MUSTER_ERR_INVALID: a range that is none, or too many codes;
 * MUSTER_ERR_NO_MEMORY. Nothing is left then. */
MUSTER_CHECKED muster_status muster_sweep_init(const char *text,
                                               muster_error *error_out,
                                               muster_vec *names_out);
void muster_sweep_fini(muster_vec *names);

#endif // MUSTER_RUN_SIMULATE_SWEEP_H
