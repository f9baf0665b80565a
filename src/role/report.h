/*
 * role/report.h -- what a role tells people and files; the host decides how.
 */
#ifndef MUSTER_ROLE_REPORT_H
#define MUSTER_ROLE_REPORT_H

#include <stdbool.h>
#include <stdint.h>

#include "base/log.h"
#include "cluster/classes.h"
#include "muster/code.h"

typedef enum muster_report_kind {
    MUSTER_REPORT_NOTICE = 1,     // a line for people
    MUSTER_REPORT_STEP_BEGIN = 2, // faults on demand hang on this
    MUSTER_REPORT_ANSWER = 3,     // a worker's message for a step, also late
    MUSTER_REPORT_STEP_END = 4,   // one line of metrics.jsonl
    MUSTER_REPORT_WORKER = 5,     // joined, ready, lost, returned
    MUSTER_REPORT_RESULT = 6,     // the final evaluation
    MUSTER_REPORT_EVALUATION = 7, // one on the way
    MUSTER_REPORT_BELOW = 8,      // a worker's answer to its edge
} muster_report_kind;

typedef enum muster_worker_change {
    MUSTER_WORKER_JOINED = 1,
    MUSTER_WORKER_READY = 2, // has its parts, counts from the next step on
    MUSTER_WORKER_LOST = 3,
} muster_worker_change;

typedef struct muster_report {
    muster_report_kind kind;
    int64_t now_ns;
    uint64_t step;
    union {
        struct {
            muster_log_level level;
            char text[256];
        } notice;
        struct {
            uint32_t worker;
            bool late; // after the step was decoded
            uint32_t stage;
            bool partial;      // its worker's own share is not complete with it
            double compute_ms; // as the worker measured it, of the share; of
                               // the stage where it is partial
            double arrive_ms;  // since the step began
            // Of the plan that it answers; NULL: of an earlier one.
            const muster_code *code;
            const uint32_t *first_shard;
        } answer;
        struct {
            double loss;
            double step_ms;
            double grad_err;
            uint32_t responders;
            uint32_t stragglers;
            uint32_t parts_missing; // parts that no answer used had
            bool inexact;           // grad_err is more than rounding
            bool degraded;          // inexact, though the code is an exact one
            uint32_t plan;
            // In how many steps of the run each part was in the sum; lent as
            // long as the role lives.
            const uint64_t *parts_received;
            uint32_t part_count;
            const muster_code *code; // in force; lent as long as the run's are
            const uint32_t *first_shard;   // of each part; lent likewise
            const muster_classes *classes; // who is slow; lent likewise
            // Since the last step: answers, models and parts handed over.
            uint64_t bytes_up, bytes_down, messages_up, bytes_moved;
            uint64_t stages_dropped; // computed, or begun, for nothing
        } end;
        struct {
            uint32_t worker;
            uint32_t incarnation;
            muster_worker_change change;
            char reason[200];
        } worker;
        struct {
            double loss, theta_norm, test_loss, test_accuracy, test_auc;
        } result;
        struct { // now_ns: when it came, by the coordinator's clock
            uint32_t edge;
            uint32_t worker; // counted across edges
            bool late;       // after the edge had decoded the step
            bool slow;       // the edge takes it for a slow one
            double compute_ms;
            double arrive_ms;        // since the edge began the step
            const muster_code *code; // of its plan; NULL: one before
        } below;
        struct { // of the model that `step` steps have made
            double loss, test_loss, test_accuracy;
            int64_t model_ns; // when it stood
            bool reached;     // the target
        } evaluation;
    } as;
} muster_report;

#endif // MUSTER_ROLE_REPORT_H
