/*
 * ps/store/rowop.h -- what can be done to a row, for the store, for messages
 * and for workers' calls alike.
 */
#ifndef MUSTER_PS_STORE_ROWOP_H
#define MUSTER_PS_STORE_ROWOP_H

/* Values travel in messages: append, never renumber. */
typedef enum muster_row_op {
    MUSTER_ROWOP_NONE = 0,
    MUSTER_ROWOP_PULL = 1,     // read the weights
    MUSTER_ROWOP_PUSH = 2,     // weights += values
    MUSTER_ROWOP_GRADIENT = 3, // one step of the row's optimiser
    MUSTER_ROWOP_SET = 4,      // weights = values
    MUSTER_ROWOP_PULL_ROW = 5, // read weights and optimiser state
    MUSTER_ROWOP_PUSH_ROW = 6, // weights and optimiser state += values
} muster_row_op;
#define MUSTER_ROWOP_LAST MUSTER_ROWOP_PUSH_ROW

#endif // MUSTER_PS_STORE_ROWOP_H
