/*
 * task/tasks.h -- the tasks that there are; muster_task_find() looks here.
 */
#ifndef MUSTER_TASK_TASKS_H
#define MUSTER_TASK_TASKS_H

#include "task/task.h"

extern const muster_task_ops muster_task_mf;
extern const muster_task_ops muster_task_complex;
extern const muster_task_ops muster_task_distmult;
extern const muster_task_ops muster_task_transe;
extern const muster_task_ops muster_task_skipgram;

#endif // MUSTER_TASK_TASKS_H
