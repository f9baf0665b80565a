#include "base/assert.h"

#include <stdio.h>
#include <stdlib.h>

_Noreturn void muster_assert_failed(const char *expression, const char *file,
                                    int line)
{
    fprintf(stderr, "muster: internal error: %s:%d: %s does not hold\n", file,
            line, expression);
    abort();
}
