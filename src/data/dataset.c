/*
 * dataset.c -- from a spec to a data set: find the files, read them, settle the
 * labels; then views and parts of it.
 */
#include "data/dataset.h"

#include <stdio.h>
#include <string.h>

#include "base/assert.h"
#include "base/error.h"
#include "base/log.h"
#include "base/mem.h"
#include "data/find.h"
#include "data/labels.h"
#include "data/readers.h"

#define PLACE_MAX    320u
#define MANY_CLASSES 20u // so many for few samples are told as doubtful

struct muster_dataset {
    muster_table table;
    muster_labels labels;
    char *name;           // of the file, or the generator's spec
    bool label_by_number; // the user gave the label's number
};

// --label is refused where the format leaves no choice.
static muster_status refuse_label(const muster_label_column *label,
                                  const char *name, const char *why,
                                  muster_error *error_out)
{
    return !label->is_given ? MUSTER_OK
                            : muster_error_set(error_out, MUSTER_ERR_INVALID,
                                               "--label: %s: %s", name, why);
}

// Are the labels of the files passed over?
static bool passes_labels(const muster_label_column *label)
{
    return label->unlabelled == MUSTER_LABEL_ANY_COLUMNS;
}

// The file of labels that belongs to `path`; NULL: the reader takes them from
// that file itself, or there are none.
static muster_status find_labels(const char *path, muster_format format,
                                 const muster_label_column *label,
                                 muster_error *error_out, char **path_out)
{
    if (passes_labels(label)) {
        return format == MUSTER_FORMAT_IDX
                   ? refuse_label(label, path,
                                  "no column of an idx file is the label",
                                  error_out)
                   : MUSTER_OK;
    }
    return format == MUSTER_FORMAT_IDX
               ? muster_find_idx_labels(path, error_out, path_out)
               : muster_find_npy_labels(path, error_out, path_out);
}

// Opens the labels of `path` and reads both files.
static muster_status read_with_labels(muster_source *source,
                                      muster_format format,
                                      const muster_label_column *label,
                                      muster_error *error_out,
                                      muster_table *table)
{
    char *labels_path = NULL;
    muster_source *labels = NULL;
    muster_status status = find_labels(muster_source_name(source), format,
                                       label, error_out, &labels_path);
    if (status == MUSTER_OK && labels_path != NULL) {
        status = refuse_label(label, labels_path, "the labels are in this file",
                              error_out);
    }
    if (status == MUSTER_OK && labels_path != NULL) {
        status = muster_source_open(labels_path, error_out, &labels);
    }
    if (status == MUSTER_OK) {
        status = format == MUSTER_FORMAT_IDX
                     ? muster_idx_read(source, labels, error_out, table)
                     : muster_npy_read(source, labels, label, error_out, table);
    }
    muster_source_close(labels);
    muster_mem_free(labels_path);
    return status;
}

/* The file, and those numbered on from data_batch_1. */
static muster_status read_cifar(muster_source *first, muster_error *error_out,
                                muster_table *table)
{
    muster_vec records = muster_vec_make(MUSTER_CIFAR_RECORD_BYTES);
    const char *name = muster_source_name(first);
    muster_status status = muster_cifar_records(first, error_out, &records);
    for (uint32_t batch = 2; status == MUSTER_OK; batch++) {
        char *path = NULL;
        muster_source *source = NULL;
        status = muster_find_batch(name, batch, error_out, &path);
        if (path == NULL) {
            break;
        }
        if (status == MUSTER_OK) {
            status = muster_source_open(path, error_out, &source);
        }
        if (status == MUSTER_OK) {
            status = muster_cifar_records(source, error_out, &records);
        }
        muster_source_close(source);
        muster_mem_free(path);
    }
    if (status == MUSTER_OK) {
        status = muster_cifar_table(&records, name, error_out, table);
    }
    muster_vec_fini(&records);
    return status;
}

/* Records that begin with their labels. */
static muster_status read_records(muster_source *source, muster_format format,
                                  const muster_label_column *label,
                                  muster_error *error_out, muster_table *table)
{
    bool is_cifar = format == MUSTER_FORMAT_CIFAR;
    muster_status status = refuse_label(
        label, muster_source_name(source),
        is_cifar ? "in CIFAR-10 files each record begins with its label"
                 : "in libsvm files each line begins with its label",
        error_out);
    if (status != MUSTER_OK) {
        return status;
    }
    return is_cifar ? read_cifar(source, error_out, table)
                    : muster_libsvm_read(source, error_out, table);
}

static muster_status read_file(const char *path,
                               const muster_label_column *label,
                               muster_error *error_out, muster_table *table)
{
    muster_source *source = NULL;
    muster_status status = muster_source_open(path, error_out, &source);
    if (status != MUSTER_OK) {
        return status;
    }
    muster_format format = MUSTER_FORMAT_CSV;
    status = muster_format_guess(source, error_out, &format);
    bool is_binary = format == MUSTER_FORMAT_IDX || format == MUSTER_FORMAT_NPY;
    if (status == MUSTER_OK && is_binary && !passes_labels(label) &&
        muster_source_is_stdin(path)) {
        status = muster_error_set(error_out, MUSTER_ERR_INVALID,
                                  "stdin: idx and npy files come with a file "
                                  "of labels: give the path in place of -");
    }
    if (status == MUSTER_OK) {
        switch (format) {
        case MUSTER_FORMAT_IDX:
        case MUSTER_FORMAT_NPY:
            status = read_with_labels(source, format, label, error_out, table);
            break;
        case MUSTER_FORMAT_LIBSVM:
        case MUSTER_FORMAT_CIFAR:
            status = read_records(source, format, label, error_out, table);
            break;
        case MUSTER_FORMAT_CSV:
            status = muster_csv_read(source, label, error_out, table);
            break;
        }
    }
    muster_source_close(source);
    return status;
}

// Where labels come from, for errors: the file, and the column if they are one.
static void name_label(const muster_dataset *dataset, char place[PLACE_MAX])
{
    const muster_table *table = &dataset->table;
    const char *name = table->label_name;
    if (table->label_column == 0) {
        (void)snprintf(place, PLACE_MAX, "%s", dataset->name);
    } else {
        (void)snprintf(place, PLACE_MAX, "%.200s: label column %u%s%.60s%s",
                       dataset->name, table->label_column,
                       name != NULL ? " '" : "", name != NULL ? name : "",
                       name != NULL ? "'" : "");
    }
}

// Takes the table over, on failure too.
static muster_status create(muster_table *table, const char *name,
                            const muster_labels *known, bool may_unlabel,
                            muster_error *error_out,
                            muster_dataset **dataset_out)
{
    muster_dataset *dataset = muster_mem_array(1, sizeof(*dataset));
    name = muster_source_is_stdin(name) ? "stdin" : name;
    if (dataset == NULL) {
        muster_table_fini(table);
        return muster_table_fail_memory(name, error_out);
    }
    dataset->table = *table;
    *table = (muster_table){0};
    dataset->name = muster_mem_string(name);
    if (dataset->name == NULL) {
        muster_dataset_free(dataset);
        return muster_table_fail_memory(name, error_out);
    }
    char place[PLACE_MAX];
    name_label(dataset, place);
    float *labels = dataset->table.labels;
    uint64_t samples = dataset->table.samples;
    muster_status status = MUSTER_OK;
    if (known != NULL) {
        dataset->labels = *known;
    } else {
        status = muster_labels_learn(labels, samples, place, error_out,
                                     &dataset->labels);
    }
    if (status == MUSTER_OK && labels != NULL) {
        status = muster_labels_apply(&dataset->labels, place, error_out,
                                     samples, labels);
    }
    if (status == MUSTER_ERR_INPUT && may_unlabel) {
        muster_mem_free(dataset->table.labels);
        dataset->table.labels = NULL;
        status = MUSTER_OK;
    }
    if (status != MUSTER_OK) {
        muster_dataset_free(dataset);
        return status;
    }
    *dataset_out = dataset;
    return MUSTER_OK;
}

// The generator's samples: for training, or those that it holds out.
static muster_status make_samples(const char *spec, bool held_out,
                                  const muster_label_column *label,
                                  muster_error *error_out, muster_table *table)
{
    muster_status status =
        refuse_label(label, spec, "the generator makes the labels", error_out);
    return status == MUSTER_OK
               ? muster_synthetic_make(spec, held_out, error_out, table)
               : status;
}

// The training set; without its labels where it has none of these columns.
static muster_status load_first(const char *spec,
                                const muster_label_column *wanted,
                                muster_error *error_out,
                                muster_dataset **dataset_out)
{
    static const muster_labels none = {.classes = 0};
    bool unlabelled = passes_labels(wanted);
    muster_table table = {0};
    char *path = NULL;
    muster_status status;
    if (muster_synthetic_is(spec)) {
        status = make_samples(spec, false, wanted, error_out, &table);
    } else {
        status = muster_generator_check(spec, error_out);
        if (status == MUSTER_OK) {
            status = muster_find_train(spec, error_out, &path);
        }
        if (status == MUSTER_OK) {
            status = read_file(path, wanted, error_out, &table);
        }
    }
    if (unlabelled) {
        muster_mem_free(table.labels);
        table.labels = NULL;
    }
    if (status == MUSTER_OK) {
        status =
            create(&table, path != NULL ? path : spec,
                   unlabelled ? &none : NULL, false, error_out, dataset_out);
    }
    if (status == MUSTER_OK) {
        (*dataset_out)->label_by_number = wanted->number > 0;
    }
    muster_mem_free(path);
    return status;
}

muster_status muster_dataset_load(const char *spec, const char *label,
                                  muster_error *error_out,
                                  muster_dataset **dataset_out)
{
    const muster_label_column wanted = muster_label_column_parse(label);
    return load_first(spec, &wanted, error_out, dataset_out);
}

muster_status muster_dataset_load_unlabelled(const char *spec,
                                             const char *label,
                                             muster_error *error_out,
                                             muster_dataset **dataset_out)
{
    muster_label_column wanted = muster_label_column_parse(label);
    wanted.unlabelled = MUSTER_LABEL_ANY_COLUMNS;
    return load_first(spec, &wanted, error_out, dataset_out);
}

// Leaves out the entries of columns from `features` on.
static void drop_columns(muster_table *table, uint32_t features)
{
    uint64_t kept = 0;
    uint64_t from = 0;
    for (uint64_t r = 0; r < table->samples; r++) {
        uint64_t to = table->offsets[r + 1];
        for (uint64_t e = from; e < to; e++) {
            if (table->columns[e] < features) {
                table->columns[kept] = table->columns[e];
                table->values[kept] = table->values[e];
                kept++;
            }
        }
        from = to;
        table->offsets[r + 1] = kept;
    }
}

static muster_status agree_on_features(muster_table *table, uint32_t features,
                                       const char *name,
                                       muster_error *error_out)
{
    if (table->features != features && !table->sparse) {
        return muster_error_set(error_out, MUSTER_ERR_INPUT,
                                "%s: %u features, but the training set has %u",
                                name, table->features, features);
    }
    if (table->features > features) {
        drop_columns(table, features);
    }
    table->features = features;
    return MUSTER_OK;
}

// The file of the test set. Beside a training set there may be none: NULL. One
// that is named itself is the file, or for a folder the test set in it, or
// else the one file that it holds.
static muster_status find_test(const char *spec, bool beside,
                               muster_error *error_out, char **path_out)
{
    char *path = NULL;
    muster_status status = muster_find_train(spec, error_out, &path);
    if (status == MUSTER_OK && (beside || muster_find_is_folder(spec))) {
        status = muster_find_test(path, error_out, path_out);
    }
    if (status == MUSTER_OK && !beside && *path_out == NULL) {
        *path_out = path;
        return MUSTER_OK;
    }
    muster_mem_free(path);
    return status;
}

// What later data has to agree with.
typedef struct agreement {
    uint32_t features;
    const muster_labels *labels;
    const muster_label_column *label;
    bool may_unlabel; // other labels than these: it counts as unlabelled
} agreement;

// A test set: found by find_test, or the generator's held-out samples (whoever
// names the generator for tests means samples kept apart from training).
static muster_status load_later(const char *spec, bool beside,
                                const agreement *agreed,
                                muster_error *error_out,
                                muster_dataset **dataset_out)
{
    muster_table table = {0};
    char *path = NULL;
    const char *name = spec;
    muster_status status;
    if (muster_synthetic_is(spec)) {
        status = make_samples(spec, true, agreed->label, error_out, &table);
    } else {
        status = find_test(spec, beside, error_out, &path);
        if (status == MUSTER_OK && path != NULL) {
            status = read_file(path, agreed->label, error_out, &table);
        }
        name = path != NULL ? path : name;
    }
    if (status == MUSTER_OK && table.samples > 0) {
        status = agree_on_features(&table, agreed->features, name, error_out);
    }
    if (status == MUSTER_OK && table.samples == 0) {
        *dataset_out = NULL;
    } else if (status == MUSTER_OK) {
        status = create(&table, name, agreed->labels, agreed->may_unlabel,
                        error_out, dataset_out);
    }
    muster_table_fini(&table);
    muster_mem_free(path);
    return status;
}

muster_status muster_dataset_load_test(const char *spec, const char *train_spec,
                                       const muster_dataset *train,
                                       muster_error *error_out,
                                       muster_dataset **dataset_out)
{
    bool beside = spec == NULL;
    const muster_label_column label = muster_dataset_label(train);
    const agreement agreed = {train->table.features, &train->labels, &label,
                              false};
    return load_later(beside ? train_spec : spec, beside, &agreed, error_out,
                      dataset_out);
}

muster_status muster_dataset_load_as(const char *spec,
                                     const muster_dataset_form *form,
                                     muster_error *error_out,
                                     muster_dataset **dataset_out)
{
    muster_labels labels;
    muster_status status = muster_labels_from_values(
        form->class_values, form->classes, error_out, &labels);
    muster_dataset *dataset = NULL;
    if (status == MUSTER_OK) {
        muster_label_column label = form->label;
        label.unlabelled = form->features;
        const agreement agreed = {form->features, &labels, &label, true};
        status = load_later(spec, false, &agreed, error_out, &dataset);
    }
    if (status == MUSTER_OK && dataset == NULL) {
        status = muster_error_set(error_out, MUSTER_ERR_INVALID,
                                  "%s: no samples are held out", spec);
    }
    if (status == MUSTER_OK) {
        *dataset_out = dataset;
    }
    return status;
}

void muster_dataset_use_targets(muster_dataset *dataset)
{
    float *labels = dataset->table.labels;
    for (uint64_t i = 0; dataset->labels.classes > 0 && labels != NULL &&
                         i < dataset->table.samples;
         i++) {
        uint32_t class_number = labels[i] > 0 ? (uint32_t)labels[i] : 0;
        labels[i] = muster_dataset_class_value(dataset, class_number);
    }
    dataset->labels.classes = 0;
}

muster_status muster_dataset_take_target(muster_dataset *dataset,
                                         const char *target,
                                         muster_error *error_out)
{
    if (target != NULL && strcmp(target, "value") == 0) {
        muster_dataset_use_targets(dataset);
    } else if (target != NULL && dataset->labels.classes == 0) {
        return muster_error_set(error_out, MUSTER_ERR_INPUT,
                                "--target class: the labels of %s are not all "
                                "whole numbers from -1000 to 1000",
                                dataset->name);
    }
    return MUSTER_OK;
}

void muster_dataset_free(muster_dataset *dataset)
{
    if (dataset != NULL) {
        muster_table_fini(&dataset->table);
        muster_mem_free(dataset->name);
        muster_mem_free(dataset);
    }
}

muster_dataset_info muster_dataset_describe(const muster_dataset *dataset)
{
    const muster_table *table = &dataset->table;
    muster_dataset_info info = {
        .samples = table->samples,
        .features = table->features,
        .classes = dataset->labels.classes,
        .sparse = table->sparse,
        .image = table->image,
        .nonzeros = table->samples * table->features,
        .bytes = table->samples * sizeof(float),
    };
    if (table->sparse) {
        info.nonzeros = table->offsets[table->samples];
        info.bytes += (table->samples + 1) * sizeof(uint64_t) +
                      info.nonzeros * sizeof(uint32_t);
    }
    info.bytes += info.nonzeros * sizeof(float);
    return info;
}

muster_label_column muster_dataset_label(const muster_dataset *dataset)
{
    return (muster_label_column){
        .name = dataset->label_by_number ? NULL : dataset->table.label_name,
        .number = dataset->table.label_column,
    };
}

// "4" or "4 'price'".
static void name_column(const muster_table *table, char text[PLACE_MAX])
{
    bool named = table->label_name != NULL;
    (void)snprintf(text, PLACE_MAX, "%u%s%.200s%s", table->label_column,
                   named ? " '" : "", named ? table->label_name : "",
                   named ? "'" : "");
}

void muster_dataset_tell_label(const muster_dataset *dataset)
{
    const muster_table *table = &dataset->table;
    if (table->label_column == 0) {
        return;
    }
    char column[PLACE_MAX];
    char text[MUSTER_LABELS_TEXT_MAX];
    uint32_t classes = dataset->labels.classes;
    name_column(table, column);
    if (table->labels == NULL) {
        muster_log(MUSTER_LOG_INFO, "%s: column %s is left out as the label%s",
                   dataset->name, column, table->label_why);
        return;
    }
    muster_labels_describe(&dataset->labels, table->labels, table->samples,
                           text, sizeof(text));
    muster_log(MUSTER_LOG_INFO, "%s: the label is column %s%s: %s",
               dataset->name, column, table->label_why, text);
    if (classes > MANY_CLASSES && classes > table->samples / 4) {
        muster_log(MUSTER_LOG_WARN,
                   "%s: %u classes in %llu samples: is this column the label? "
                   "--label chooses another; --target value takes it as a "
                   "number to be predicted",
                   dataset->name, classes, (unsigned long long)table->samples);
    }
}

float muster_dataset_class_value(const muster_dataset *dataset,
                                 uint32_t class_number)
{
    MUSTER_ASSERT(class_number < dataset->labels.classes);
    return (float)dataset->labels.values[class_number];
}

muster_rows muster_dataset_rows(const muster_dataset *dataset, uint64_t first,
                                uint32_t count)
{
    const muster_table *table = &dataset->table;
    MUSTER_ASSERT(first <= table->samples && count <= table->samples - first);
    muster_rows rows = {
        .count = count,
        .features = table->features,
        .labels = table->labels != NULL ? table->labels + first : NULL,
    };
    if (table->sparse) {
        rows.offsets = table->offsets + first;
        rows.columns = table->columns;
        rows.values = table->values;
    } else {
        rows.dense = table->dense + first * table->features;
        rows.stride = table->features;
    }
    return rows;
}
