/*
 * base/simd.h -- kernels in every width the processor offers, from one source.
 *
 * Loops are written over blocks of eight floats with the compiler's vector
 * type, so that sums have one fixed order whatever the instruction set, and
 * functions marked MUSTER_SIMD are compiled for the baseline and for AVX2 and
 * chosen once when the program is loaded. Thread-sanitizer builds take the
 * baseline: the choosing code runs before the sanitizer is ready.
 */
#ifndef MUSTER_BASE_SIMD_H
#define MUSTER_BASE_SIMD_H

#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__) && \
    !defined(__SANITIZE_THREAD__)
#define MUSTER_SIMD __attribute__((target_clones("default", "avx2")))
#else
#define MUSTER_SIMD
#endif

typedef float muster_f8 __attribute__((vector_size(32)));

/* Eight floats wherever they lie. With memcpy() the compiler would make room
 * for a block on an aligned stack, even where it never uses it. */
typedef float muster_f8_any
    __attribute__((vector_size(32), aligned(4), may_alias));
#define MUSTER_F8_LOAD(to, from)  ((to) = *(const muster_f8_any *)(from))
#define MUSTER_F8_STORE(to, from) (*(muster_f8_any *)(to) = (from))

/* The lanes in a fixed order: pairs, then pairs of pairs. */
#define MUSTER_F8_SUM(v)                       \
    ((((v)[0] + (v)[4]) + ((v)[2] + (v)[6])) + \
     (((v)[1] + (v)[5]) + ((v)[3] + (v)[7])))

#endif // MUSTER_BASE_SIMD_H
