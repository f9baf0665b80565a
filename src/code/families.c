/*
 * families.c -- the list of code families: one line each.
 */
#include "code/family.h"

#include "code/families.h"

const muster_code_ops *const muster_code_families[] = {
    &muster_code_uncoded,
    &muster_code_frc,
    &muster_code_crc,
    &muster_code_cyclic_mds,
    &muster_code_rs,
    &muster_code_ye_abbe,
    &muster_code_ye_abbe_random,
    &muster_code_ye_abbe_tuned,
    &muster_code_heter,
    &muster_code_heter_group,
    &muster_code_linear_spc,
    NULL,
};
