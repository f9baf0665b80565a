/*
 * code/families/families.h -- the tables of all families, each defined in its
 * file.
 */
#ifndef MUSTER_CODE_FAMILIES_FAMILIES_H
#define MUSTER_CODE_FAMILIES_FAMILIES_H

#include "code/family.h"

extern const muster_code_ops muster_code_uncoded;
extern const muster_code_ops muster_code_ignore;
extern const muster_code_ops muster_code_bgc;
extern const muster_code_ops muster_code_rbgc;
extern const muster_code_ops muster_code_sgc;
extern const muster_code_ops muster_code_erasurehead;
extern const muster_code_ops muster_code_graph;
extern const muster_code_ops muster_code_frc;
extern const muster_code_ops muster_code_scheduled;
extern const muster_code_ops muster_code_crc;
extern const muster_code_ops muster_code_cyclic_mds;
extern const muster_code_ops muster_code_heter;
extern const muster_code_ops muster_code_heter_group;
extern const muster_code_ops muster_code_ye_abbe;
extern const muster_code_ops muster_code_ye_abbe_random;
extern const muster_code_ops muster_code_ye_abbe_tuned;
extern const muster_code_ops muster_code_rs;
extern const muster_code_ops muster_code_hier;
extern const muster_code_ops muster_code_linear_tuned;
extern const muster_code_ops muster_code_linear_gaussian;
extern const muster_code_ops muster_code_linear_vandermonde;
extern const muster_code_ops muster_code_linear_repetition;
extern const muster_code_ops muster_code_linear_spc;
extern const muster_code_ops muster_code_linear_hamming;
extern const muster_code_ops muster_code_linear_product;
extern const muster_code_ops muster_code_linear_file;

#endif // MUSTER_CODE_FAMILIES_FAMILIES_H
