/*
 * role/shuffle_inside.h -- a shuffle's state, for its files:
 *   shuffle.c           create, free, observe, save; which policy is asked
 *   shuffle_targeted.c  the policy that looks for exchanges
 */
#ifndef MUSTER_ROLE_SHUFFLE_INSIDE_H
#define MUSTER_ROLE_SHUFFLE_INSIDE_H

#include "role/shuffle.h"

typedef enum muster_shuffle_policy {
    MUSTER_SHUFFLE_NONE,
    MUSTER_SHUFFLE_ROTATE,
    MUSTER_SHUFFLE_TARGETED,
    MUSTER_SHUFFLE_AUTO,
} muster_shuffle_policy;

struct muster_shuffle {
    muster_shuffle_policy policy;
    uint64_t period;
    uint64_t ahead;     // steps in which the parts of a turn are sent
    uint64_t ahead_max; // as many as that may become
    uint32_t slots;
    uint32_t parts;
    uint32_t *first; // slot -> parts, as in the layout
    uint32_t *held;
    uint32_t *holder_first; // part -> slots, likewise
    uint32_t *holder;
    uint64_t *misses;
    muster_shuffle_seen *seen;
    uint32_t *worker_of; // working copy, with what follows from it
    uint32_t *active;    // per part: holders that are not slow
    double *lost;        // per part: chance that all holders straggle
    bool *tried;
    uint32_t need;    // active holders that a part should have, at present
    uint64_t passing; // steps in a row in which workers were slow for a while
    bool follows;     // auto goes by that
};

/* The working copy of the map: worker_of, from slot_of. */
void muster_shuffle_invert(muster_shuffle *shuffle, const uint32_t *slot_of);

/* The next map of `targeted` and `auto`; false: it is the same. */
bool muster_shuffle_target(muster_shuffle *shuffle, const uint32_t *slot_of,
                           uint32_t *slot_of_out);

#endif // MUSTER_ROLE_SHUFFLE_INSIDE_H
