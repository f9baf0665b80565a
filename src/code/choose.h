/*
 * code/choose.h -- better codes by trying: draws, and warnings by measurement.
 *
 * The figure of merit is the predicted float32 error (and the residual) over
 * the straggler sets of sets.h: an exact code on paper may be useless in
 * float32, and only its decodings show that.
 */
#ifndef MUSTER_CODE_CHOOSE_H
#define MUSTER_CODE_CHOOSE_H

#include "code/family.h"

/* Random constructions keep the best of this many draws. */
#define MUSTER_CODE_DRAWS 30u

/* A worst float32 error above this is worth a warning. */
#define MUSTER_CODE_ERROR_LIMIT 1e-4

/* Builds draw number `draw` into a fresh code. */
typedef muster_status (*muster_code_draw)(muster_code *code,
                                          const muster_code_spec *spec,
                                          uint32_t draw, muster_error *error);

/* Build the best of `draws` into code. A draw that fails with
 * MUSTER_ERR_INVALID (singular) is passed over. */
MUSTER_CHECKED muster_status muster_code_keep_best(muster_code *code,
                                                   const muster_code_spec *spec,
                                                   uint32_t draws,
                                                   muster_code_draw build,
                                                   muster_error *error);

/*
 * Measure a built code. When the worst predicted error is above the limit (or,
 * with `always`, in any case), set code->warning: "... may be off by 3e-3 ..;
 * use `instead`". When most decodings are not even exact in double, refuse with
 * MUSTER_ERR_UNSUPPORTED unless the spec says force.
 */
MUSTER_CHECKED muster_status muster_code_judge(muster_code *code,
                                               const muster_code_spec *spec,
                                               bool always, const char *instead,
                                               muster_error *error);

/* Add to what a code's warning says. */
__attribute__((format(printf, 2, 3))) void
muster_code_warn(muster_code *code, const char *format, ...);

/* Refuse more workers than dense solves serve. */
MUSTER_CHECKED muster_status
muster_code_dense_only(const muster_code_spec *spec, muster_error *error);

/* muster_code_spec_settle(), then that. */
MUSTER_CHECKED muster_status muster_code_settle_dense(muster_code_spec *spec,
                                                      const char *known,
                                                      muster_error *error);

/* The key `draws`, 1 to 10,000; MUSTER_CODE_DRAWS unless given. */
MUSTER_CHECKED muster_status muster_code_read_draws(
    const muster_code_spec *spec, muster_error *error, uint32_t *draws_out);

/* code.c: a zeroed code made ready for a build function. */
void muster_code_start(muster_code *code, const muster_code_ops *ops,
                       const muster_code_spec *spec);

#endif // MUSTER_CODE_CHOOSE_H
