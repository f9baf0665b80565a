/*
 * data/columns.h -- the columns of a table, and which of them is the label.
 *
 * A table may begin with a line of names, as csv files do. The label is the
 * column that the user chose, or that the training set had; else the one called
 * label, class, target or y; else the last one.
 *
 *   Ownership    Lines and names are lent.
 */
#ifndef MUSTER_DATA_COLUMNS_H
#define MUSTER_DATA_COLUMNS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "data/labels.h"
#include "muster/status.h"

typedef struct muster_columns {
    const char *names; // the line of names; NULL: there is none
    char separator;
    uint64_t count;
} muster_columns;

/* A walk over the names of a line. */
typedef struct muster_column_walk {
    const char *at;   // the line; NULL at its end
    char separator;   // ' ': any number of spaces
    uint64_t number;  // of the column, from 1
    const char *name; // without blanks and quotes around it
    size_t length;
} muster_column_walk;

/* Go on to the next name, false when there is none. A separator in double
 * quotes does not separate. */
bool muster_column_next(muster_column_walk *walk);

/* Is this a name that a label goes by, or the name that is wanted? */
bool muster_column_names_label(const muster_column_walk *walk,
                               const muster_label_column *wanted);

typedef struct muster_label_choice {
    uint64_t number;  // from 1; 0: the table has no label
    const char *name; // NULL: the table has no names
    size_t name_length;
    const char *why; // words for people: ", the last one .."; may be ""
} muster_label_choice;

/*
 * Which column of the table in `file` is the label.
 * MUSTER_ERR_INVALID  there is no column as --label says
 * MUSTER_ERR_INPUT    there is no column of the training set's label's name
 */
MUSTER_CHECKED muster_status muster_label_choose(
    const muster_columns *columns, const muster_label_column *wanted,
    const char *file, muster_error *error_out, muster_label_choice *choice_out);

#endif // MUSTER_DATA_COLUMNS_H
