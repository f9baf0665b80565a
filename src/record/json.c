/*
 * json.c -- see json.h.
 */
#include "record/json.h"

#include <math.h>

json_t *muster_json_real(double value)
{
    return isfinite(value) ? json_real(value) : json_null();
}
