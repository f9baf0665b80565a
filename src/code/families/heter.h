/*
 * code/families/heter.h -- the pieces that heter and heter-group share.
 */
#ifndef MUSTER_CODE_FAMILIES_HETER_H
#define MUSTER_CODE_FAMILIES_HETER_H

#include "code/choose.h"
#include "code/dual.h"
#include "code/layout.h"

/* Solve for the cells of every part of a layout whose holders are places in the
 * dual, s + 1 each; then rename the holders: place p is worker names[p] (NULL:
 * itself). Equal neighbours are solved once. */
MUSTER_CHECKED muster_status muster_heter_cells(const muster_dual *dual,
                                                const uint32_t *names,
                                                muster_code_layout *layout);

/* Check the spec, keep the best of the tuned candidates that `draw` builds,
 * judge it; `instead` is what a warning recommends. */
MUSTER_CHECKED muster_status muster_heter_build(muster_code *code,
                                                const muster_code_spec *given,
                                                muster_code_draw draw,
                                                const char *instead,
                                                muster_error *error);

/* The number of parts: given, or chosen from the speeds. */
MUSTER_CHECKED muster_status muster_heter_parts(const muster_code_spec *spec,
                                                muster_error *error,
                                                uint32_t *parts_out);

#endif // MUSTER_CODE_FAMILIES_HETER_H
