/*
 * base/assert.h -- our own beliefs, checked in every build.
 *
 * MUSTER_ASSERT is for what cannot happen unless Muster is wrong; it prints the
 * place and aborts, also in release builds. What a caller, a peer or the disk
 * can cause is a status, never an assertion.
 */
#ifndef MUSTER_BASE_ASSERT_H
#define MUSTER_BASE_ASSERT_H

_Noreturn void muster_assert_failed(const char *expression, const char *file,
                                    int line);

#define MUSTER_ASSERT(expression) \
    ((expression) ? (void)0       \
                  : muster_assert_failed(#expression, __FILE__, __LINE__))

#endif // MUSTER_BASE_ASSERT_H
