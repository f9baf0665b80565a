#include "data/labels.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/assert.h"
#include "base/error.h"
#include "base/mem.h"

#define SHARES_MAX 10u // as many classes are told one by one

// The place of a class value among all that may be, or -1.
static int slot_of(float label)
{
    if (!(fabsf(label) <= (float)MUSTER_LABELS_VALUE_MAX) ||
        label != truncf(label)) {
        return -1;
    }
    return (int)label + MUSTER_LABELS_VALUE_MAX;
}

muster_label_column muster_label_column_parse(const char *text)
{
    muster_label_column column = {.is_given = text != NULL};
    if (text == NULL || text[0] == '\0' ||
        text[strspn(text, "0123456789")] != '\0') {
        column.name = text;
        return column;
    }
    uint64_t number = 0;
    for (; *text != '\0' && number < UINT32_MAX; text++) {
        number = number * 10 + (uint64_t)(*text - '0');
    }
    column.number = number < UINT32_MAX ? (uint32_t)number : UINT32_MAX;
    return column;
}

muster_status muster_labels_learn(const float *labels, uint64_t count,
                                  const char *name, muster_error *error_out,
                                  muster_labels *map_out)
{
    bool seen[MUSTER_LABELS_CLASSES_MAX] = {false};
    map_out->classes = 0;
    for (uint64_t i = 0; i < count; i++) {
        int slot = slot_of(labels[i]);
        if (slot < 0) {
            return MUSTER_OK;
        }
        seen[slot] = true;
    }
    uint32_t classes = 0;
    for (int slot = 0; slot < MUSTER_LABELS_CLASSES_MAX; slot++) {
        if (seen[slot]) {
            map_out->values[classes] =
                (int16_t)(slot - MUSTER_LABELS_VALUE_MAX);
            classes++;
        }
    }
    if (classes < 2) {
        return muster_error_set(
            error_out, MUSTER_ERR_INPUT,
            "%s: every label is %d; a training set needs at least two classes",
            name, map_out->values[0]);
    }
    map_out->classes = classes;
    return MUSTER_OK;
}

muster_status muster_labels_from_values(const float *values, uint32_t classes,
                                        muster_error *error_out,
                                        muster_labels *map_out)
{
    bool good = classes != 1 && classes <= MUSTER_LABELS_CLASSES_MAX;
    for (uint32_t c = 0; good && c < classes; c++) {
        good = slot_of(values[c]) >= 0 && (c == 0 || values[c] > values[c - 1]);
        map_out->values[c] = good ? (int16_t)values[c] : 0;
    }
    map_out->classes = classes;
    return good ? MUSTER_OK
                : muster_error_set(error_out, MUSTER_ERR_INVALID,
                                   "the %u class values are not ascending "
                                   "integers from -1000 to 1000",
                                   classes);
}

muster_status muster_labels_apply(const muster_labels *map, const char *name,
                                  muster_error *error_out, uint64_t count,
                                  float *labels)
{
    if (map->classes == 0) {
        return MUSTER_OK;
    }
    int16_t class_of[MUSTER_LABELS_CLASSES_MAX];
    for (int slot = 0; slot < MUSTER_LABELS_CLASSES_MAX; slot++) {
        class_of[slot] = -1;
    }
    for (uint32_t c = 0; c < map->classes; c++) {
        class_of[map->values[c] + MUSTER_LABELS_VALUE_MAX] = (int16_t)c;
    }
    for (uint64_t i = 0; i < count; i++) {
        int slot = slot_of(labels[i]);
        int class_number = slot >= 0 ? class_of[slot] : -1;
        if (class_number < 0) {
            return muster_error_set(error_out, MUSTER_ERR_INPUT,
                                    "%s: sample %llu has the label %g, which "
                                    "the training set does not have",
                                    name, (unsigned long long)i,
                                    (double)labels[i]);
        }
        labels[i] = (float)class_number;
        if (map->classes == 2) {
            labels[i] = class_number == 0 ? -1.0f : 1.0f;
        }
    }
    return MUSTER_OK;
}

static void describe_values(const float *labels, uint64_t count, char *text,
                            size_t size)
{
    float min = labels[0];
    float max = labels[0];
    for (uint64_t i = 1; i < count; i++) {
        min = fminf(min, labels[i]);
        max = fmaxf(max, labels[i]);
    }
    (void)snprintf(text, size, "real values from %.6g to %.6g", (double)min,
                   (double)max);
}

static void describe_shares(const muster_labels *map, const uint64_t *counts,
                            double count, char *text, size_t size)
{
    uint64_t min = counts[0];
    uint64_t max = counts[0];
    size_t used =
        (size_t)snprintf(text, size, "%u classes, shares", map->classes);
    for (uint32_t c = 0; c < map->classes; c++) {
        min = counts[c] < min ? counts[c] : min;
        max = counts[c] > max ? counts[c] : max;
        if (map->classes <= SHARES_MAX) {
            used += (size_t)snprintf(text + used, size - used, "%s %d %.3g",
                                     c > 0 ? "," : ":", map->values[c],
                                     (double)counts[c] / count);
        }
    }
    if (map->classes > SHARES_MAX) {
        (void)snprintf(text + used, size - used, " from %.3g to %.3g",
                       (double)min / count, (double)max / count);
    }
}

void muster_labels_describe(const muster_labels *map, const float *labels,
                            uint64_t count, char *text, size_t size)
{
    MUSTER_ASSERT(size >= MUSTER_LABELS_TEXT_MAX && count > 0);
    if (map->classes == 0) {
        describe_values(labels, count, text, size);
        return;
    }
    uint64_t *counts = muster_mem_array(map->classes, sizeof(*counts));
    if (counts == NULL) {
        (void)snprintf(text, size, "%u classes", map->classes);
        return;
    }
    for (uint64_t i = 0; i < count; i++) {
        counts[labels[i] > 0 ? (uint32_t)labels[i] : 0]++;
    }
    describe_shares(map, counts, (double)count, text, size);
    muster_mem_free(counts);
}
