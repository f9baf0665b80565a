/*
 * names.c -- see names.h.
 */
#include "base/names.h"

#include <stddef.h>

#include "base/spec.h"
#include "muster/ps.h"

const char *const muster_task_names[] = {
#define NAME(name) #name,
    MUSTER_TASK_NAMES(NAME)
#undef NAME
        NULL,
};

const char *const muster_manage_names[] = {
    [MUSTER_PS_AUTO] = "auto",           [MUSTER_PS_RELOCATE] = "relocate",
    [MUSTER_PS_REPLICATE] = "replicate", [MUSTER_PS_CLASSIC] = "classic",
    [MUSTER_PS_STATIC] = "static",       NULL,
};

int muster_name_index(const char *const *names, const char *spec)
{
    for (int i = 0; names[i] != NULL; i++) {
        if (muster_spec_is(spec, names[i])) {
            return i;
        }
    }
    return -1;
}
