/*
 * families.c -- the list of code families: one line each.
 */
#include "code/family.h"

#include "code/families.h"

const muster_code_ops *const muster_code_families[] = {
    &muster_code_uncoded,
    &muster_code_frc,
    &muster_code_linear_spc,
    NULL,
};
