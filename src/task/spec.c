/*
 * spec.c -- the list of tasks, and the options behind a task's name.
 */
#include "base/spec.h"

#include <stdio.h>

#include "task/tasks.h"

/* In the order of muster_task_names. */
static const muster_task_ops *const tasks[] = {
#define TASK(name) &muster_task_##name,
    MUSTER_TASK_NAMES(TASK)
#undef TASK
};

const muster_task_ops *muster_task_find(const char *model)
{
    int index = muster_name_index(muster_task_names, model);
    return index >= 0 ? tasks[index] : NULL;
}

muster_status muster_task_options(const char *model,
                                  const muster_spec_field *fields, void *into,
                                  muster_error *error_out)
{
    const char *params;
    char place[64];
    size_t length = muster_spec_name(model, &params);
    (void)snprintf(place, sizeof(place), "--model %.*s", (int)length, model);
    return muster_spec_read(place, params, fields, into, NULL, error_out);
}
