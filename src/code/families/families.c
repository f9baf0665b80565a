/*
 * families.c -- the list of code families: one line each.
 */
#include "code/family.h"

#include "code/families/families.h"

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
    &muster_code_hier,
    &muster_code_linear_tuned,
    &muster_code_linear_gaussian,
    &muster_code_linear_vandermonde,
    &muster_code_linear_repetition,
    &muster_code_linear_spc,
    &muster_code_linear_hamming,
    &muster_code_linear_product,
    &muster_code_linear_file,
    &muster_code_scheduled,
    &muster_code_ignore,
    &muster_code_bgc,
    &muster_code_rbgc,
    &muster_code_sgc,
    &muster_code_erasurehead,
    &muster_code_graph,
    NULL,
};
