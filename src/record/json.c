/*
 * json.c -- see json.h.
 */
#include "record/json.h"

#include <math.h>

json_t *muster_json_real(double value)
{
    return isfinite(value) ? json_real(value) : json_null();
}

json_t *muster_json_test(double loss, double accuracy, double auc)
{
    json_t *test = json_pack("{s:o, s:o}", "loss", muster_json_real(loss),
                             "accuracy", muster_json_real(accuracy));
    if (test != NULL && isfinite(auc) &&
        json_object_set_new(test, "auc", json_real(auc)) != 0) {
        json_decref(test);
        return NULL;
    }
    return test;
}
