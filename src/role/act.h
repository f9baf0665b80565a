/*
 * role/act.h -- how a role writes down its actions.
 *
 * Payloads and jobs passed in are handed over, reference and all. The list
 * grows to the largest reaction within the first steps and is reused from then
 * on; a machine without memory for that cannot even be told to stop, so that is
 * an assertion.
 */
#ifndef MUSTER_ROLE_ACT_H
#define MUSTER_ROLE_ACT_H

#include "role/role.h"

/* A message replaces an unsent one of the same slot (replace_slot). */
enum {
    MUSTER_SLOT_MODEL = 1,
    MUSTER_SLOT_HEARTBEAT = 2,
    MUSTER_SLOT_DIRECTORY = 3,
};

/* One zeroed action of `kind` at the end of the list. */
muster_action *muster_act(muster_actions *actions, muster_action_kind kind);

/* One that sends a copy of `message`, to fill in. */
muster_action *muster_act_send(muster_actions *actions,
                               const muster_message *message);
void muster_act_connect(muster_actions *actions, const char *address,
                        uint64_t token);
void muster_act_drop(muster_actions *actions, muster_role_peer peer);
/* Callers send what a code makes of gradients, or models, of so many floats,
 * and small words; nothing longer. */
#define MUSTER_EXPECT_BYTES ((size_t)1 << 20)
void muster_act_expect(muster_actions *actions, uint64_t floats);
/* at_ns < 0 cancels. */
void muster_act_timer(muster_actions *actions, uint32_t id, int64_t at_ns);
/* The job to fill in; id and kind are set. */
muster_job *muster_act_compute(muster_actions *actions, muster_job_kind kind,
                               uint64_t id);
void muster_act_cancel(muster_actions *actions, uint64_t job_id);
/* The report to fill in; kind and now_ns are set. */
muster_report *muster_act_report(muster_actions *actions,
                                 muster_report_kind kind, int64_t now_ns);
void muster_act_notice(muster_actions *actions, int64_t now_ns,
                       muster_log_level level, const char *format, ...)
    __attribute__((format(printf, 4, 5)));
void muster_act_stop(muster_actions *actions, muster_status status,
                     const char *reason);

#endif // MUSTER_ROLE_ACT_H
