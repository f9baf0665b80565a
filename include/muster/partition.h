/*
 * muster/partition.h -- which worker gets which sample.
 *
 * A partition gives every sample one owner. Workers differ in speed: worker j
 * of speed r_j gets the share p_j = r_j / sum r of every class, rounded so
 * that counts add up. Within these quotas the method `submodular` makes the
 * samples of each worker look like the whole class: with s(u, a) =
 * max(0, cosine of the feature rows u and a) it raises, class by class, the
 * smallest of
 *
 *     f(A_j) = sum over samples u of the class of max over a in A_j of s(u, a)
 *
 * (facility location) by greedy choice, then swaps samples between workers
 * until the class means of all workers are closer to the mean of the class
 * than those of a random partition. The other methods are baselines.
 *
 *   Promise      Every sample has one owner below `workers`. Worker j owns
 *                q(j, c) samples of class c, within 1 of p_j n_c, and its
 *                total is within 1 of p_j N (proportional methods).
 *   Ownership    The caller owns every buffer; nothing is kept after a call.
 *   Threads      Calls are independent. A call starts `threads` - 1 threads of
 *                its own and ends them before it returns. It never changes
 *                the number of threads of BLAS.
 *   Allocation   Control path. Dense kernels take 4 n_c^2 bytes for each class
 *                under way (one a thread), sparse ones about 24 k n_c.
 *   Determinism  Equal options give equal owners for any number of threads,
 *                on one machine with one build and one number of threads of
 *                BLAS: its products may differ by that in their last bits.
 *   Not here     Reading files, measuring speeds, moving data.
 *   Versions     Structs that begin with struct_size grow at their end; start
 *                them from the _INIT macro (docs/compatibility.md).
 *
 * Background: docs/design/partition.md; for users: docs/placement.md.
 */
#ifndef MUSTER_PARTITION_H
#define MUSTER_PARTITION_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "muster/export.h"
#include "muster/rows.h"
#include "muster/status.h"

#ifdef __cplusplus
extern "C" {
#endif

#define MUSTER_PARTITION_WORKERS_MAX 65536u
#define MUSTER_PARTITION_CLASSES_MAX 65536u
#define MUSTER_PARTITION_THREADS_MAX 1024u

/* Values are stored in files: append, never renumber. */
typedef enum muster_partition_method {
    MUSTER_PARTITION_NONE = 0,             // catches zeroed options
    MUSTER_PARTITION_EQUAL_RANDOM = 1,     // equal sizes; classes as they fall
    MUSTER_PARTITION_EQUAL_STRATIFIED = 2, // equal shares of every class
    MUSTER_PARTITION_PROPORTIONAL_RANDOM = 3, // sizes by speed
    MUSTER_PARTITION_PROPORTIONAL_STRATIFIED = 4,
    MUSTER_PARTITION_SUBMODULAR = 5,   // quotas as the one above
    MUSTER_PARTITION_CLASS_SORTED = 6, // sizes by speed, cut from the samples
                                       // sorted by class: the worst case
} muster_partition_method;

/* What the labels of the rows say. */
typedef enum muster_partition_labels {
    MUSTER_PARTITION_UNLABELLED = 0, // labels are not read: one class
    MUSTER_PARTITION_CLASSES = 1,    // equal values are one class
    MUSTER_PARTITION_TARGETS = 2,    // real numbers: classes are quantiles
} muster_partition_labels;

/* How similarities are kept. */
typedef enum muster_partition_kernel {
    MUSTER_PARTITION_KERNEL_AUTO = 0,   // by the size of the class
    MUSTER_PARTITION_KERNEL_DENSE = 1,  // all pairs of a class
    MUSTER_PARTITION_KERNEL_SPARSE = 2, // nearest neighbours
} muster_partition_kernel;

/* Which worker of a class takes its next sample. */
typedef enum muster_partition_turn {
    MUSTER_PARTITION_MIN_BLOCK = 0,   // the one with the smallest f
    MUSTER_PARTITION_ROUND_ROBIN = 1, // the one with the smallest filled share
} muster_partition_turn;

/*
 * Called now and then with the share of the work done, in 0..1, ascending;
 * from one thread at a time, not always the caller's. False cancels the call.
 */
typedef bool (*muster_partition_progress)(void *context, double share);

/* What to do. Start from MUSTER_PARTITION_OPTS_INIT, then set fields. */
typedef struct muster_partition_opts {
    uint32_t struct_size; // sizeof(muster_partition_opts)
    uint32_t method;      // a muster_partition_method; no default
    uint32_t workers; // in 1..MUSTER_PARTITION_WORKERS_MAX and at most the rows
    uint32_t label_kind;  // a muster_partition_labels; default: unlabelled
    const double *speeds; // `workers` of them, positive; NULL: all equal
    muster_rows rows;     // features, dense or CSR, and labels. The random
                          // methods and class-sorted read the labels alone.
    uint64_t seed;        // default 1
    uint32_t quantiles;   // classes made of real targets; default 10
    uint32_t kernel;      // a muster_partition_kernel; default: auto
    uint32_t turn;        // a muster_partition_turn; default: min-block
    uint32_t neighbours;  // k of a sparse kernel; default 64
    uint32_t sample;      // most rows of a class that a sparse kernel covers;
                          // a larger class is sampled; default 16384
    uint32_t project;     // features become so many by a random projection;
                          // 0 (default): as given, but CSR rows of more than
                          // 4096 columns are projected to 256
    uint32_t threads;     // 0 (default) and 1: the calling thread alone
    double drift;         // swap until the drift of each class mean is at most
                          // this share of a random partition's; 0: no swaps;
                          // default 0.8
    uint32_t swaps;       // most swaps tried for each sample; default 10
    muster_partition_progress on_progress; // may be NULL
    void *progress_context;
} muster_partition_opts;

#define MUSTER_PARTITION_OPTS_INIT                                           \
    {                                                                        \
        (uint32_t)sizeof(muster_partition_opts), 0, 0, 0, NULL,              \
            {0, 0, NULL, 0, NULL, NULL, NULL, NULL}, 1, 10, 0, 0, 64, 16384, \
            0, 0, 0.8, 10, NULL, NULL                                        \
    }

/* How it went. Start from MUSTER_PARTITION_REPORT_INIT. */
typedef struct muster_partition_report {
    uint32_t struct_size;    // sizeof(muster_partition_report)
    uint32_t classes;        // classes found
    uint32_t classes_small;  // classes in which some worker gets no sample
    uint32_t workers_empty;  // workers without any sample
    uint32_t classes_dense;  // classes with a dense kernel
    uint32_t classes_sparse; // classes with a sparse one
    uint32_t features;       // columns that similarities were computed from
    double recall;           // of the pairs (row, one of its k nearest rows of
                             // the class), the share that sparse kernels hold;
                             // measured on some rows; 1 for dense kernels
    uint64_t evaluations;    // gains computed by the greedy choice
    uint64_t swaps_tried;
    uint64_t swaps_done;
    double kernel_cpu_s; // CPU seconds of all threads of the call; what BLAS
    double greedy_cpu_s; // does in threads of its own is not counted
    double refine_cpu_s;
    char warning[512]; // which workers get no sample of which class; "" if none
} muster_partition_report;

#define MUSTER_PARTITION_REPORT_INIT                                         \
    {                                                                        \
        (uint32_t)sizeof(muster_partition_report), 0, 0, 0, 0, 0, 0, 0.0, 0, \
            0, 0, 0.0, 0.0, 0.0,                                             \
        {                                                                    \
            0                                                                \
        }                                                                    \
    }

/*
 * Make a partition. owners_out has rows.count entries. report_out may be NULL.
 *
 * MUSTER_ERR_INVALID    an option is out of range; a speed is not a positive
 *                       number (names the worker); a feature or a label is
 *                       not finite (names the row); a row without labels
 *                       where the options want them; too many classes
 * MUSTER_ERR_NO_MEMORY  kernels or scratch do not fit
 * MUSTER_ERR_CANCELLED  on_progress said so
 *
 * Cost, for n_c rows of d features in a class: dense n_c^2 d operations and
 * about 50 n_c^2 for the choice; sparse n_c min(n_c, sample) d and about
 * 50 k n_c.
 */
MUSTER_API MUSTER_CHECKED muster_status muster_partition_make(
    const muster_partition_opts *opts, muster_error *error_out,
    uint32_t *owners_out, muster_partition_report *report_out);

/* How good a partition is. Start from MUSTER_PARTITION_MEASURES_INIT. */
typedef struct muster_partition_measures {
    uint32_t struct_size;
    uint32_t coverage_worker; // the one of coverage_min
    uint32_t drift_worker;    // the one of drift_worst
    uint32_t drift_class;     // classes count from 0, by ascending value
    double coverage_min;      // coverage of a worker: mean over all rows u of
    double coverage_mean;     // max over its rows a of u's class of s(u, a)
    double drift_worst;   // largest distance between a worker's mean of a class
                          // and the mean of the class, of unit-length features
    double balance_worst; // largest difference between the share of a class in
                          // a worker's samples and in all samples
} muster_partition_measures;

#define MUSTER_PARTITION_MEASURES_INIT                                       \
    {                                                                        \
        (uint32_t)sizeof(muster_partition_measures), 0, 0, 0, 0.0, 0.0, 0.0, \
            0.0                                                              \
    }

/*
 * Measure any partition: opts as for muster_partition_make(), of which the
 * method, the speeds and the options of the choice are not read. Coverage is
 * over at most `sample` rows of each class, drawn by the seed. Workers without
 * samples count for coverage alone, with 0. coverage_out: NULL, or the
 * coverage of each worker.
 *
 * MUSTER_ERR_INVALID    as above; an owner that is not below `workers` (names
 *                       the row); rows without features
 * MUSTER_ERR_NO_MEMORY, MUSTER_ERR_CANCELLED
 */
MUSTER_API MUSTER_CHECKED muster_status muster_partition_measure(
    const muster_partition_opts *opts, const uint32_t *owners,
    muster_error *error_out, double *coverage_out,
    muster_partition_measures *measures_out);

/* The name of a method as the command spells it ("equal-random"); NULL for
 * another number. The number of a name; MUSTER_PARTITION_NONE for another. */
MUSTER_API const char *muster_partition_method_name(uint32_t method);
MUSTER_API uint32_t muster_partition_method_number(const char *name);

/* Which rows stand best for all: start from MUSTER_PARTITION_SELECT_INIT. */
typedef struct muster_partition_select_opts {
    uint32_t struct_size;
    uint32_t budget;     // rows to choose, in 1..count
    const float *kernel; // similarities, finite (below 0 is 0): row i: how well
                         // row i stands for each row. NULL: cosines of `rows`
    uint32_t kernel_count;          // rows and columns of `kernel`
    size_t kernel_stride;           // floats from a kernel row to the next
    muster_partition_opts features; // where kernel is NULL: rows, kernel,
                                    // neighbours, sample, project, seed. In
                                    // any case: threads and progress
} muster_partition_select_opts;

#define MUSTER_PARTITION_SELECT_INIT                                   \
    {                                                                  \
        (uint32_t)sizeof(muster_partition_select_opts), 0, NULL, 0, 0, \
            MUSTER_PARTITION_OPTS_INIT                                 \
    }

/*
 * Choose `budget` rows by greedy facility location, the best first: picks_out
 * gets their numbers; gains_out (may be NULL) what each added; value_out (may
 * be NULL) the f of all of them. The choice is that of the plain greedy
 * algorithm, the lower number first where gains are equal (with a sparse
 * kernel: in an order drawn by the seed).
 *
 * MUSTER_ERR_INVALID    budget, sizes or features out of range; a kernel entry
 *                       that is not finite (names the row)
 * MUSTER_ERR_NO_MEMORY, MUSTER_ERR_CANCELLED
 */
MUSTER_API MUSTER_CHECKED muster_status muster_partition_select(
    const muster_partition_select_opts *opts, muster_error *error_out,
    uint32_t *picks_out, double *gains_out, double *value_out);

#ifdef __cplusplus
}
#endif
#endif // MUSTER_PARTITION_H
