/*
 * record/json.h -- numbers in JSON.
 */
#ifndef MUSTER_RECORD_JSON_H
#define MUSTER_RECORD_JSON_H

#include <jansson.h>

/* A new real; null for what JSON has no number for (NAN, infinities), which
 * json_real() would answer with NULL, as if memory had run out. */
json_t *muster_json_real(double value);

/* What a model does on the test set; `auc` only where it is a number, that is,
 * for two classes. */
json_t *muster_json_test(double loss, double accuracy, double auc);

#endif // MUSTER_RECORD_JSON_H
