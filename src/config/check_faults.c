/*
 * check_faults.c -- faults on demand: there must be such a worker or edge, it
 * must have gone before it can come back, and it must be ours to disturb.
 */
#include <inttypes.h>

#include "base/error.h"
#include "config/fault.h"
#include "config/state.h"

#define INVALID(...) \
    muster_error_set(error_out, MUSTER_ERR_INVALID, __VA_ARGS__)

static muster_option option_of(muster_fault_kind kind)
{
    switch (kind) {
    case MUSTER_FAULT_KILL:
        return MUSTER_OPT_KILL;
    case MUSTER_FAULT_REJOIN:
        return MUSTER_OPT_REJOIN;
    case MUSTER_FAULT_STOP:
        return MUSTER_OPT_STOP;
    case MUSTER_FAULT_CONT:
        return MUSTER_OPT_CONT;
    case MUSTER_FAULT_SLOW_BY:
    case MUSTER_FAULT_SLOW_TIMES:
        break;
    }
    return MUSTER_OPT_SLOW;
}

/* The value as the user wrote it, for the error line. */
static const char *written(const muster_config *config,
                           const muster_fault *fault)
{
    muster_option option = option_of(fault->kind);
    size_t count = muster_config_list_count(config, option);
    for (size_t i = 0; i < count; i++) {
        const char *text = muster_config_list_at(config, option, i);
        muster_fault same = {0};
        if (muster_fault_parse(option, text, NULL, &same) == MUSTER_OK &&
            same.worker == fault->worker && same.edge == fault->edge &&
            same.step == fault->step) {
            return text;
        }
    }
    return "";
}

/* A worker must have gone before it can come back. `faults` ascend by step. */
static bool has_gone(const muster_fault *faults, size_t before)
{
    const muster_fault *back = &faults[before];
    muster_fault_kind going = back->kind == MUSTER_FAULT_REJOIN
                                  ? MUSTER_FAULT_KILL
                                  : MUSTER_FAULT_STOP;
    for (size_t i = before; i-- > 0;) {
        if (faults[i].worker == back->worker && faults[i].edge == back->edge &&
            faults[i].kind == going) {
            return true;
        }
    }
    return false;
}

static muster_status check_fault(const muster_config *config,
                                 const muster_fault *faults, size_t index,
                                 muster_error *error_out)
{
    const muster_fault *fault = &faults[index];
    const char *name = muster_option_get(option_of(fault->kind))->name;
    const char *noun = fault->edge ? "edge" : "worker";
    uint32_t count = fault->edge ? muster_config_edges(config)
                                 : muster_config_workers(config);
    if (count == 0) {
        return INVALID("--%s %.60s: there are no edges without --topology",
                       name, written(config, fault));
    }
    if (fault->worker >= count) {
        return INVALID("--%s %.60s: there %s %" PRIu32
                       " %s%s, numbered 0 to %" PRIu32,
                       name, written(config, fault), count == 1 ? "is" : "are",
                       count, noun, count == 1 ? "" : "s", count - 1);
    }
    bool is_return =
        fault->kind == MUSTER_FAULT_REJOIN || fault->kind == MUSTER_FAULT_CONT;
    if (is_return && !has_gone(faults, index)) {
        return INVALID("--%s %.60s: %s %" PRIu32 " is not %s before", name,
                       written(config, fault), noun, fault->worker,
                       fault->kind == MUSTER_FAULT_REJOIN ? "killed"
                                                          : "stopped");
    }
    return MUSTER_OK;
}

muster_status muster_config_check_faults(const muster_config *config,
                                         muster_error *error_out)
{
    muster_vec faults = muster_vec_make(sizeof(muster_fault));
    muster_status status = muster_faults_read(config, error_out, &faults);
    bool disturbed = faults.count > 0 ||
                     muster_config_string(config, MUSTER_OPT_DELAY) != NULL;
    if (status == MUSTER_OK && disturbed &&
        muster_config_string(config, MUSTER_OPT_LISTEN) != NULL &&
        muster_config_uint(config, MUSTER_OPT_LOCAL) == 0) {
        status = INVALID(
            "--slow, --delay, --kill, --stop and the like need --local: "
            "workers that join are not ours to disturb");
    }
    for (size_t i = 0; status == MUSTER_OK && i < faults.count; i++) {
        status = check_fault(config, faults.data, i, error_out);
    }
    muster_vec_fini(&faults);
    return status;
}
