/*
 * ps/simd.h -- kernels in every width the processor offers, from one source.
 *
 * Loops are written over blocks of eight floats with the compiler's vector
 * type, so that sums have one fixed order whatever the instruction set, and
 * functions marked MUSTER_SIMD are compiled for the baseline and for AVX2 and
 * chosen once when the program is loaded. Thread-sanitizer builds take the
 * baseline: the choosing code runs before the sanitizer is ready.
 */
#ifndef MUSTER_PS_SIMD_H
#define MUSTER_PS_SIMD_H

#include <string.h>

#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__) && \
    !defined(__SANITIZE_THREAD__)
#define MUSTER_SIMD __attribute__((target_clones("default", "avx2")))
#else
#define MUSTER_SIMD
#endif

typedef float muster_f8 __attribute__((vector_size(32)));

#define MUSTER_F8_LOAD(to, from)  memcpy(&(to), (from), sizeof(muster_f8))
#define MUSTER_F8_STORE(to, from) memcpy((to), &(from), sizeof(muster_f8))

/* The lanes in a fixed order: pairs, then pairs of pairs. */
#define MUSTER_F8_SUM(v)                       \
    ((((v)[0] + (v)[4]) + ((v)[2] + (v)[6])) + \
     (((v)[1] + (v)[5]) + ((v)[3] + (v)[7])))

#endif // MUSTER_PS_SIMD_H
