/*
 * base/prefetch.h -- bring a cache line near, to write to it.
 *
 * __builtin_prefetch(at, 1) brings it for reading unless the compiler may use
 * prefetchw. A line that another processor has changed then travels twice: for
 * the prefetch, and again for the right to write to it. Every x86-64 processor
 * knows prefetchw or takes it for a no-op.
 */
#ifndef MUSTER_BASE_PREFETCH_H
#define MUSTER_BASE_PREFETCH_H

static inline void muster_prefetch_write(const void *at)
{
#if defined(__x86_64__)
    __asm__ volatile("prefetchw %0" : : "m"(*(const char *)at));
#else
    __builtin_prefetch(at, 1);
#endif
}

#endif // MUSTER_BASE_PREFETCH_H
