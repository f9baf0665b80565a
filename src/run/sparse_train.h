/*
 * run/sparse_train.h -- `muster train --model mf|complex|skipgram|..`: a sparse
 * task on the parameter server, from options to files.
 */
#ifndef MUSTER_RUN_SPARSE_TRAIN_H
#define MUSTER_RUN_SPARSE_TRAIN_H

#include <jansson.h>

#include "config/config.h"
#include "muster/status.h"
#include "record/run_folder.h"
#include "task/task.h"

/* Called by muster_train() when muster_config_is_task(); `program` is what
 * further nodes are made from. */
MUSTER_CHECKED muster_status muster_train_task(const muster_config *config,
                                               const char *program,
                                               muster_error *error_out,
                                               char **json_out);

/* Write the tables of a trained task to its run folder: model.safetensors and
 * NAME.npy each; where rows have names also NAMES.txt, and for word vectors
 * the text and binary files of word2vec. */
MUSTER_CHECKED muster_status muster_task_save(const muster_task_ops *ops,
                                              const void *task,
                                              muster_ps_worker *worker,
                                              muster_run_folder *folder,
                                              muster_error *error_out);

#endif // MUSTER_RUN_SPARSE_TRAIN_H
