/*
 * base/names.h -- names that several rooms must agree on, each list once.
 *
 * The command line checks them, the run acts on them, the rooms that own the
 * things register under them. A test holds the help against them.
 */
#ifndef MUSTER_BASE_NAMES_H
#define MUSTER_BASE_NAMES_H

/* The sparse tasks: what --model may name beside the dense models. */
#define MUSTER_TASK_NAMES(X) \
    X(mf)                    \
    X(complex)               \
    X(distmult)              \
    X(transe)                \
    X(skipgram)

/* The same as texts; NULL ends the list. */
extern const char *const muster_task_names[];

/* How rows are managed (--manage), by muster_ps_manage; NULL ends the list.
 * "static" is written with a file: static:FILE. */
extern const char *const muster_manage_names[];

/* The index of the name of `spec` ("mf:rank=32") in a list, or -1. */
int muster_name_index(const char *const *names, const char *spec);

#endif // MUSTER_BASE_NAMES_H
