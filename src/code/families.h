/*
 * code/families.h -- the tables of all families, each defined in its file.
 */
#ifndef MUSTER_CODE_FAMILIES_H
#define MUSTER_CODE_FAMILIES_H

#include "code/family.h"

extern const muster_code_ops muster_code_uncoded;
extern const muster_code_ops muster_code_frc;
extern const muster_code_ops muster_code_linear_spc;

#endif // MUSTER_CODE_FAMILIES_H
