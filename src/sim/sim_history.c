/*
 * sim_history.c -- what has happened, as a hash and in words.
 *
 * Everything that a role can see of an event, and everything that people can
 * see of it (reports, the end), goes into the hash, field by field: two
 * histories with one hash differ in nothing that matters. Structs are never
 * hashed as bytes; what lies between their fields is nobody's history.
 */
#include <stdio.h>
#include <string.h>

#include "sim/sim_inside.h"

static void mix(uint64_t *hash, uint64_t value)
{
    // FNV-1a over whole words, with a shift that spreads the high bits.
    *hash = (*hash ^ value) * 0x100000001b3u;
    *hash ^= *hash >> 29;
}

static void mix_real(uint64_t *hash, double value)
{
    uint64_t bits;
    memcpy(&bits, &value, sizeof(bits));
    mix(hash, bits);
}

static void mix_bytes(uint64_t *hash, const void *data, size_t bytes)
{
    const uint8_t *at = data;
    mix(hash, bytes);
    while (bytes > 0) {
        uint64_t word = 0;
        size_t some = bytes < sizeof(word) ? bytes : sizeof(word);
        memcpy(&word, at, some);
        mix(hash, word);
        at += some;
        bytes -= some;
    }
}

static void mix_text(uint64_t *hash, const char *text)
{
    mix_bytes(hash, text, text != NULL ? strlen(text) : 0);
}

uint64_t muster_sim_digest(muster_sim *sim, muster_blob *payload)
{
    if (payload == NULL) {
        return 0;
    }
    // A model goes to everybody at once: it is looked at once. The reference
    // keeps another payload from having the same address meanwhile.
    if (payload != sim->digested) {
        muster_blob_unref(sim->digested);
        sim->digested = muster_blob_ref(payload);
        sim->digest = 0xcbf29ce484222325u;
        if (payload->data != NULL) {
            mix_bytes(&sim->digest, payload->data, payload->bytes);
        } else {
            mix(&sim->digest, payload->bytes);
        }
    }
    return sim->digest;
}

/* What the wire would carry: the numbers of the frequent kinds themselves, the
 * bytes of the others. */
static void mix_message(uint64_t *hash, const muster_message *message)
{
    mix(hash, (uint64_t)message->kind << 32 | message->incarnation);
    mix(hash, message->run);
    mix(hash, message->step);
    mix(hash, message->plan);
    if (message->kind == MUSTER_MSG_HEARTBEAT) {
        mix(hash, message->as.heartbeat.progress);
        mix(hash, message->as.heartbeat.busy);
    } else if (message->kind == MUSTER_MSG_GRADIENT) {
        mix(hash, message->as.gradient.compute_ns);
    } else if (message->kind != MUSTER_MSG_MODEL) {
        uint8_t bytes[MUSTER_MESSAGE_BYTES_MAX];
        mix_bytes(hash, bytes, muster_message_write(message, bytes));
    }
}

static void mix_result(uint64_t *hash, const muster_job_result *result)
{
    mix(hash, result->id);
    mix(hash, (uint64_t)result->kind << 32 | (uint32_t)result->status);
    mix(hash, result->step);
    mix(hash, result->shard);
    mix(hash, (uint64_t)result->busy_ns);
    mix(hash, result->output != NULL ? result->output->bytes + 1 : 0);
    mix_real(hash, result->loss);
    mix_real(hash, result->grad_err);
    mix_real(hash, result->theta_norm);
    mix_real(hash, result->test_loss);
    mix_real(hash, result->test_accuracy);
    mix_real(hash, result->test_auc);
    mix_text(hash, result->status < 0 ? result->text : NULL);
}

static void mix_event(uint64_t *hash, const muster_event *event,
                      uint64_t digest)
{
    switch (event->kind) {
    case MUSTER_EVENT_PEER_UP:
        mix(hash, event->as.up.incoming);
        mix(hash, event->as.up.token);
        break;
    case MUSTER_EVENT_PEER_DOWN:
        mix(hash, (uint64_t)event->as.down.status);
        mix(hash, event->as.down.token);
        mix_text(hash, event->as.down.reason);
        break;
    case MUSTER_EVENT_MESSAGE:
    case MUSTER_EVENT_BEGUN:
        mix_message(hash, event->as.message.message);
        mix(hash, digest);
        break;
    case MUSTER_EVENT_TIMER:
        mix(hash, event->as.timer.id);
        break;
    case MUSTER_EVENT_COMPUTED:
        mix_result(hash, &event->as.computed);
        break;
    case MUSTER_EVENT_SENT:
        mix(hash, event->as.sent.token);
        mix(hash, (uint64_t)event->as.sent.status);
        break;
    case MUSTER_EVENT_START:
    case MUSTER_EVENT_STOP:
    case MUSTER_EVENT_HEARD:
        break;
    }
}

static void trace(const muster_sim *sim, uint32_t host,
                  const muster_event *event)
{
    static const char *const names[] = {
        "?",        "start", "peer up", "peer down", "message", "timer",
        "computed", "sent",  "stop",    "heard",     "begun"};
    char line[256];
    int used = snprintf(line, sizeof(line), "%12.6f ms host %u: %s",
                        (double)sim->now_ns * 1e-6, host, names[event->kind]);
    size_t at = used > 0 ? (size_t)used : 0;
    if (event->kind == MUSTER_EVENT_MESSAGE ||
        event->kind == MUSTER_EVENT_BEGUN) {
        const muster_message *message = event->as.message.message;
        snprintf(line + at, sizeof(line) - at,
                 " %s peer %llu life %u plan %u step %llu",
                 muster_message_name(message->kind),
                 (unsigned long long)event->peer, message->incarnation,
                 message->plan, (unsigned long long)message->step);
    } else if (event->kind == MUSTER_EVENT_COMPUTED) {
        snprintf(line + at, sizeof(line) - at, " job %llu kind %d: %d",
                 (unsigned long long)event->as.computed.id,
                 (int)event->as.computed.kind, (int)event->as.computed.status);
    } else {
        snprintf(line + at, sizeof(line) - at, " peer %llu",
                 (unsigned long long)event->peer);
    }
    sim->opts.on_trace(sim->opts.context, line);
}

void muster_sim_note(muster_sim *sim, uint32_t host, const muster_event *event,
                     uint64_t digest)
{
    sim->events++;
    mix(&sim->hash, (uint64_t)event->now_ns);
    mix(&sim->hash, (uint64_t)host << 8 | (uint64_t)event->kind);
    mix(&sim->hash, event->peer);
    mix(&sim->hash, event->progress);
    mix_event(&sim->hash, event, digest);
    if (sim->opts.on_trace != NULL) {
        trace(sim, host, event);
    }
}

static void mix_step_end(uint64_t *hash, const muster_report *report)
{
    mix_real(hash, report->as.end.loss);
    mix_real(hash, report->as.end.step_ms);
    mix_real(hash, report->as.end.grad_err);
    mix(hash,
        (uint64_t)report->as.end.responders << 32 | report->as.end.stragglers);
    mix(hash,
        (uint64_t)report->as.end.parts_missing << 32 | report->as.end.plan);
    mix(hash, (uint64_t)report->as.end.inexact << 1 | report->as.end.degraded);
    mix(hash, report->as.end.bytes_up);
    mix(hash, report->as.end.bytes_down);
    mix(hash, report->as.end.messages_up);
    mix(hash, report->as.end.bytes_moved);
    for (uint32_t i = 0; i < report->as.end.part_count; i++) {
        mix(hash, report->as.end.parts_received[i]);
    }
}

static void mix_report(uint64_t *hash, const muster_report *report)
{
    mix(hash, (uint64_t)report->kind);
    mix(hash, report->step);
    switch (report->kind) {
    case MUSTER_REPORT_NOTICE:
        mix(hash, (uint64_t)report->as.notice.level);
        mix_text(hash, report->as.notice.text);
        break;
    case MUSTER_REPORT_ANSWER:
        mix(hash, (uint64_t)report->as.answer.stage << 40 |
                      (uint64_t)report->as.answer.worker << 1 |
                      report->as.answer.late);
        mix_real(hash, report->as.answer.compute_ms);
        mix_real(hash, report->as.answer.arrive_ms);
        break;
    case MUSTER_REPORT_BELOW:
        mix(hash, (uint64_t)report->as.below.worker << 2 |
                      report->as.below.late << 1 | report->as.below.slow);
        mix_real(hash, report->as.below.compute_ms);
        mix_real(hash, report->as.below.arrive_ms);
        break;
    case MUSTER_REPORT_STEP_END:
        mix_step_end(hash, report);
        break;
    case MUSTER_REPORT_WORKER:
        mix(hash, (uint64_t)report->as.worker.worker << 32 |
                      report->as.worker.incarnation);
        mix(hash, (uint64_t)report->as.worker.change);
        mix_text(hash, report->as.worker.reason);
        break;
    case MUSTER_REPORT_RESULT:
        mix_real(hash, report->as.result.loss);
        mix_real(hash, report->as.result.theta_norm);
        mix_real(hash, report->as.result.test_loss);
        mix_real(hash, report->as.result.test_accuracy);
        mix_real(hash, report->as.result.test_auc);
        break;
    case MUSTER_REPORT_EVALUATION:
        mix_real(hash, report->as.evaluation.loss);
        mix_real(hash, report->as.evaluation.test_loss);
        mix_real(hash, report->as.evaluation.test_accuracy);
        break;
    case MUSTER_REPORT_STEP_BEGIN:
        break;
    }
}

void muster_sim_note_action(muster_sim *sim, const muster_action *action)
{
    if (action->kind == MUSTER_ACTION_REPORT) {
        mix_report(&sim->hash, &action->as.report);
    } else if (action->kind == MUSTER_ACTION_STOP) {
        mix(&sim->hash, (uint64_t)action->as.stop.status);
        mix_text(&sim->hash, action->as.stop.reason);
    }
}
