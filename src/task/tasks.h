/*
 * task/tasks.h -- the tasks that there are; muster_task_find() looks here.
 */
#ifndef MUSTER_TASK_TASKS_H
#define MUSTER_TASK_TASKS_H

#include "base/names.h"
#include "task/task.h"

#define TASK(name) extern const muster_task_ops muster_task_##name;
MUSTER_TASK_NAMES(TASK)
#undef TASK

#endif // MUSTER_TASK_TASKS_H
