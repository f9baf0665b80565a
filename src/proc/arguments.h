/*
 * proc/arguments.h -- the arguments of a program that is to be started.
 *
 *   Promise      Running out of memory is remembered: add without looking, and
 *                muster_arguments_list() says in the end.
 *   Ownership    Texts are copied.
 */
#ifndef MUSTER_PROC_ARGUMENTS_H
#define MUSTER_PROC_ARGUMENTS_H

#include <stdbool.h>
#include <stdint.h>

#include "base/vec.h"

typedef struct muster_arguments {
    muster_vec texts; // char *
    bool failed;      // out of memory
} muster_arguments;

muster_arguments muster_arguments_make(void);
void muster_arguments_fini(muster_arguments *arguments);

void muster_arguments_add(muster_arguments *arguments, const char *text);
/* NAME VALUE, as two arguments. */
void muster_arguments_add_option(muster_arguments *arguments, const char *name,
                                 const char *value);
void muster_arguments_add_number(muster_arguments *arguments, const char *name,
                                 uint64_t value);

/* All of them, ended by NULL; NULL when out of memory. Lent until the next add
 * or fini. */
char *const *muster_arguments_list(muster_arguments *arguments);

#endif // MUSTER_PROC_ARGUMENTS_H
