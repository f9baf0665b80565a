/*
 * act.c -- action lists (role.h), their writers (act.h), jobs (job.h).
 */
#include "role/act.h"

#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "base/assert.h"
#include "base/mem.h"

muster_actions muster_actions_make(void)
{
    return (muster_actions){muster_vec_make(sizeof(muster_action))};
}

void muster_actions_clear(muster_actions *actions)
{
    muster_action *list = actions->list.data;
    for (size_t i = 0; i < actions->list.count; i++) {
        if (list[i].kind == MUSTER_ACTION_SEND) {
            muster_blob_unref(list[i].as.send.payload);
        } else if (list[i].kind == MUSTER_ACTION_COMPUTE) {
            muster_job_fini(&list[i].as.job);
        }
    }
    muster_vec_clear(&actions->list);
}

void muster_actions_fini(muster_actions *actions)
{
    muster_actions_clear(actions);
    muster_vec_fini(&actions->list);
}

/* The bytes of an action that are cleared: not the room for texts that their
 * writers end themselves. */
static size_t cleared_bytes(muster_action_kind kind)
{
    size_t head = offsetof(muster_action, as);
    switch (kind) {
    case MUSTER_ACTION_COMPUTE:
        return head + sizeof(muster_job);
    case MUSTER_ACTION_REPORT:
        return head + offsetof(muster_report, as) +
               sizeof(((muster_report *)NULL)->as.end);
    case MUSTER_ACTION_SET_TIMER:
        return head + sizeof(((muster_action *)NULL)->as.timer);
    case MUSTER_ACTION_CANCEL:
        return head + sizeof(((muster_action *)NULL)->as.cancel);
    case MUSTER_ACTION_DROP:
        return head + sizeof(((muster_action *)NULL)->as.drop);
    case MUSTER_ACTION_EXPECT:
        return head + sizeof(((muster_action *)NULL)->as.expect);
    case MUSTER_ACTION_SEND:
    case MUSTER_ACTION_CONNECT:
    case MUSTER_ACTION_STOP:
        break;
    }
    return sizeof(muster_action);
}

/* One whose first bytes are zero. */
static muster_action *add(muster_actions *actions, muster_action_kind kind,
                          size_t bytes)
{
    muster_vec *list = &actions->list;
    if (list->count == list->capacity) {
        MUSTER_ASSERT(muster_vec_reserve(list, list->count + 1));
    }
    muster_action *action = (muster_action *)list->data + list->count++;
    memset(action, 0, bytes);
    action->kind = kind;
    return action;
}

muster_action *muster_act(muster_actions *actions, muster_action_kind kind)
{
    return add(actions, kind, cleared_bytes(kind));
}

muster_action *muster_act_send(muster_actions *actions,
                               const muster_message *message)
{
    muster_action *action = add(actions, MUSTER_ACTION_SEND,
                                offsetof(muster_action, as.send.message));
    muster_message_copy(&action->as.send.message, message);
    return action;
}

void muster_act_connect(muster_actions *actions, const char *address,
                        uint64_t token)
{
    muster_action *action = muster_act(actions, MUSTER_ACTION_CONNECT);
    snprintf(action->as.connect.address, sizeof(action->as.connect.address),
             "%s", address);
    action->as.connect.token = token;
}

void muster_act_drop(muster_actions *actions, muster_role_peer peer)
{
    muster_act(actions, MUSTER_ACTION_DROP)->as.drop.peer = peer;
}

void muster_act_expect(muster_actions *actions, uint64_t floats)
{
    muster_act(actions, MUSTER_ACTION_EXPECT)->as.expect.payload_bytes_max =
        4 * sizeof(float) * floats + MUSTER_EXPECT_BYTES;
}

void muster_act_timer(muster_actions *actions, uint32_t id, int64_t at_ns)
{
    muster_action *action = muster_act(actions, MUSTER_ACTION_SET_TIMER);
    action->as.timer.id = id;
    action->as.timer.at_ns = at_ns;
}

muster_job *muster_act_compute(muster_actions *actions, muster_job_kind kind,
                               uint64_t id)
{
    muster_job *job = &muster_act(actions, MUSTER_ACTION_COMPUTE)->as.job;
    job->kind = kind;
    job->id = id;
    return job;
}

void muster_act_cancel(muster_actions *actions, uint64_t job_id)
{
    muster_act(actions, MUSTER_ACTION_CANCEL)->as.cancel.job_id = job_id;
}

muster_report *muster_act_report(muster_actions *actions,
                                 muster_report_kind kind, int64_t now_ns)
{
    muster_report *report =
        &muster_act(actions, MUSTER_ACTION_REPORT)->as.report;
    report->kind = kind;
    report->now_ns = now_ns;
    return report;
}

void muster_act_notice(muster_actions *actions, int64_t now_ns,
                       muster_log_level level, const char *format, ...)
{
    muster_report *report =
        muster_act_report(actions, MUSTER_REPORT_NOTICE, now_ns);
    report->as.notice.level = level;
    va_list args;
    va_start(args, format);
    vsnprintf(report->as.notice.text, sizeof(report->as.notice.text), format,
              args);
    va_end(args);
}

void muster_act_stop(muster_actions *actions, muster_status status,
                     const char *reason)
{
    muster_action *action = muster_act(actions, MUSTER_ACTION_STOP);
    action->as.stop.status = status;
    snprintf(action->as.stop.reason, sizeof(action->as.stop.reason), "%s",
             reason);
}

muster_job_list *muster_job_list_create(uint32_t room)
{
    muster_job_list *list = muster_mem_array(
        1, sizeof(*list) + (size_t)room * sizeof(muster_blob *));
    if (list != NULL) {
        atomic_init(&list->references, 1);
        list->room = room;
    }
    return list;
}

muster_job_list *muster_job_list_ref(muster_job_list *list)
{
    if (list != NULL) {
        atomic_fetch_add_explicit(&list->references, 1, memory_order_relaxed);
    }
    return list;
}

void muster_job_list_unref(muster_job_list *list)
{
    if (list != NULL && atomic_fetch_sub_explicit(&list->references, 1,
                                                  memory_order_acq_rel) == 1) {
        muster_mem_free(list);
    }
}

bool muster_job_list_is_free(const muster_job_list *list)
{
    return atomic_load_explicit(&list->references, memory_order_acquire) == 1;
}

void muster_job_fini(muster_job *job)
{
    muster_blob_unref(job->input);
    job->input = NULL;
    muster_decoding_unref(job->decoding);
    job->decoding = NULL;
    for (uint32_t i = 0; i < job->message_count; i++) {
        muster_blob_unref(job->messages[i]);
    }
    muster_job_list_unref(job->list);
    job->list = NULL;
    job->messages = NULL;
    job->message_count = 0;
}
