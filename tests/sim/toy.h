/*
 * toy.h -- runs of the toy job in the simulator: a coordinator, its workers,
 * and what their reports say of how it went.
 *
 * What echoes (opts.echo) is spoiled where a correct role never uses it: every
 * payload of an earlier connection, and an answer that was heard before.
 */
#ifndef MUSTER_TESTS_SIM_TOY_H
#define MUSTER_TESTS_SIM_TOY_H

#include "code/numbers.h"
#include "role/coordinator.h"
#include "role/edge.h"
#include "role/worker.h"
#include "toy_job.h"

static void toy_kill(muster_sim *sim, void *context, uint64_t host)
{
    (void)context;
    muster_sim_kill(sim, (uint32_t)host);
}

/* Of what the coordinator decodes of a code. */
static const muster_code_info *toy_numbers(const toy *t,
                                           const muster_code *code)
{
    return muster_code_numbers(t->edges > 0 ? muster_hier_outer(code) : code);
}

/* The first step of a plan of another code. */
static void toy_recoded(toy *t, const muster_report *report)
{
    MUSTER_ASSERT(t->change_code != NULL && report->step > t->change_step);
    t->info = *muster_code_numbers(t->change_code);
    MUSTER_ASSERT(report->as.end.part_count == t->info.parts &&
                  report->as.end.parts_missing == 0);
    for (uint32_t part = 0; part < t->info.parts; part++) {
        t->received[part] = report->as.end.parts_received[part];
    }
}

/* grad_err, the parts missing, those received and the flag must tell the same
 * story. */
static void toy_step_end(toy *t, const muster_report *report)
{
    double err = report->as.end.grad_err;
    double least =
        sqrt((double)report->as.end.parts_missing / (double)t->info.parts);
    bool inexact = report->as.end.inexact;
    MUSTER_ASSERT(inexact == (err > 1e-6));
    MUSTER_ASSERT(err > least - 1e-9);
    MUSTER_ASSERT(!t->info.exact || err < 1 + 1e-6); // least squares
    MUSTER_ASSERT(report->as.end.degraded == (inexact && t->info.exact));
    MUSTER_ASSERT(!report->as.end.degraded || t->degrade || t->deadline_ns > 0);
    t->degraded += report->as.end.degraded ? 1 : 0;
    t->plan = report->as.end.plan;
    t->steps_without += report->as.end.parts_missing;
    if (t->plan_code_count > 0) {
        t->info = *toy_numbers(t, report->as.end.code);
        return; // parts of other codes are others
    }
    if (report->as.end.part_count != t->info.parts) {
        toy_recoded(t, report);
        return;
    }
    if (t->resumed) { // maybe from a state of the other code
        memcpy(t->received, report->as.end.parts_received,
               t->info.parts * sizeof(t->received[0]));
        t->resumed = false;
        return;
    }
    uint64_t missed = t->info.parts;
    for (uint32_t part = 0; part < t->info.parts; part++) {
        uint64_t more = report->as.end.parts_received[part] - t->received[part];
        MUSTER_ASSERT(more <= 1);
        missed -= more;
        t->received[part] = report->as.end.parts_received[part];
    }
    MUSTER_ASSERT(missed == report->as.end.parts_missing);
}

/* The newest answers of each are told once, and a step has as many responders
 * as were told to be complete. */
static void toy_answer(toy *t, const muster_report *report)
{
    uint32_t id = report->as.answer.worker;
    MUSTER_ASSERT(id < t->workers && report->step <= t->next_step);
    bool late = report->as.answer.late;
    t->late += late;
    bool whole = !report->as.answer.partial;
    uint64_t bit = UINT64_C(1) << report->as.answer.stage;
    if (t->heard_steps[id] < report->step + 1) {
        t->heard_steps[id] = report->step + 1;
        t->heard_stages[id] = 0;
    }
    bool newest = t->heard_steps[id] == report->step + 1;
    if ((newest && (t->heard_stages[id] & bit) != 0) ||
        (!late && whole && t->answered[id])) {
        t->miscounted = true;
    }
    t->heard_stages[id] |= newest ? bit : 0;
    t->answered[id] = t->answered[id] || (!late && whole);
}

static void toy_count_answers(toy *t, const muster_report *report)
{
    uint32_t answers = 0;
    for (uint32_t id = 0; id < t->workers; id++) {
        answers += t->answered[id];
        t->answered[id] = false;
    }
    t->miscounted =
        t->miscounted || report->as.end.responders != answers ||
        report->as.end.responders + report->as.end.stragglers != t->workers;
}

static void toy_worker_change(toy *t, const muster_report *report)
{
    uint32_t id = report->as.worker.worker;
    const char *reason = report->as.worker.reason;
    MUSTER_ASSERT(id < t->workers);
    switch (report->as.worker.change) {
    case MUSTER_WORKER_JOINED:
        // The processes say their host's number as their pid.
        MUSTER_ASSERT(sscanf(reason, "pid %u", &t->host_of[id]) == 1);
        MUSTER_ASSERT(!t->here[id]);
        t->here[id] = true;
        t->heard_steps[id] = 0;
        t->incarnation_of[id] = report->as.worker.incarnation;
        t->life_of[id] = t->lives[t->host_of[id]];
        t->id_of[t->host_of[id]] = id;
        break;
    case MUSTER_WORKER_READY:
        MUSTER_ASSERT(t->here[id] && !t->is_ready[id]);
        t->is_ready[id] = true;
        t->ready++;
        break;
    case MUSTER_WORKER_LOST:
        MUSTER_ASSERT(t->here[id]);
        t->here[id] = t->is_ready[id] = false;
        t->lost++;
        t->lost_worker = id;
        t->lost_ns = report->now_ns;
        t->offences += strstr(reason, "of another run or life") != NULL;
        snprintf(t->lost_reason, sizeof(t->lost_reason), "%s", reason);
        break;
    }
}

static void toy_notice(toy *t, const char *text)
{
    size_t used = strlen(t->notices);
    snprintf(t->notices + used, sizeof(t->notices) - used, "%s\n", text);
    bool dropped = strstr(text, "; dropped") != NULL;
    bool twice = dropped && strstr(text, " twice; dropped") != NULL;
    bool stray = dropped && strstr(text, " of an earlier life;") != NULL;
    t->twice += twice;
    t->strays += stray;
    t->rejected += dropped && !twice && !stray;
}

static void toy_report(void *context, uint32_t host,
                       const muster_report *report)
{
    toy *t = context;
    if (host != 0) {
        return;
    }
    switch (report->kind) {
    case MUSTER_REPORT_STEP_BEGIN:
        t->disorder = t->disorder || report->step != t->next_step;
        if (t->kill_at_step == report->step + 1) {
            muster_sim_at(t->sim, report->now_ns, toy_kill, t, t->kill_host);
            t->kill_at_step = 0;
        }
        break;
    case MUSTER_REPORT_STEP_END:
        t->ends++;
        t->disorder = t->disorder || report->step != t->next_step++;
        t->bytes_up += report->as.end.bytes_up;
        t->bytes_down += report->as.end.bytes_down;
        t->messages_up += report->as.end.messages_up;
        t->bytes_moved += report->as.end.bytes_moved;
        toy_step_end(t, report);
        toy_count_answers(t, report);
        if (t->on_step_end != NULL) {
            t->on_step_end(t);
        }
        break;
    case MUSTER_REPORT_ANSWER:
        toy_answer(t, report);
        break;
    case MUSTER_REPORT_WORKER:
        toy_worker_change(t, report);
        break;
    case MUSTER_REPORT_RESULT:
        t->results++;
        break;
    case MUSTER_REPORT_EVALUATION:
        break;
    case MUSTER_REPORT_BELOW:
        break;
    case MUSTER_REPORT_NOTICE:
        toy_notice(t, report->as.notice.text);
        break;
    }
}

/* A model is offered to those who have adopted its plan and hold its parts; one
 * whose process has ended may be thought of so for a while. */
static bool toy_may_be_offered(const toy *t, const muster_message *model)
{
    uint32_t id = 0;
    while (id < t->workers &&
           (!t->here[id] || t->incarnation_of[id] != model->incarnation)) {
        id++;
    }
    MUSTER_ASSERT(id < t->workers);
    uint32_t host = t->host_of[id];
    const toy_process *process = &t->processes[host];
    if (!muster_sim_is_up(t->sim, host) || t->life_of[id] != t->lives[host]) {
        return true;
    }
    const toy_plan *plan =
        toy_plan_of(process, model->plan & MUSTER_PLAN_NUMBER);
    bool all = plan != NULL;
    for (uint32_t j = 0; all && j < plan->terms.part_count; j++) {
        all = toy_holds(process, &plan->terms.parts[j]);
    }
    return all;
}

/* The coordinator gives up for want of workers when its patience ends: its last
 * checkpoint is asked for by a timer, every other one after an update. */
static void toy_action(void *context, uint32_t host, const muster_event *event,
                       const muster_action *action)
{
    toy *t = context;
    const muster_message *message = &action->as.send.message;
    bool shard = host == 0 && action->kind == MUSTER_ACTION_SEND &&
                 (message->kind == MUSTER_MSG_SHARD ||
                  message->kind == MUSTER_MSG_FORGET);
    MUSTER_ASSERT(!shard || message->as.shard.shard < t->shards);
    if (host == 0 && action->kind == MUSTER_ACTION_SEND &&
        message->kind == MUSTER_MSG_MODEL && t->edges == 0 &&
        !toy_may_be_offered(t, message)) {
        t->premature = true;
    }
    if (host == 0 && event->kind == MUSTER_EVENT_TIMER &&
        action->kind == MUSTER_ACTION_COMPUTE &&
        action->as.job.kind == MUSTER_JOB_SNAPSHOT) {
        t->gave_up++;
        if (t->on_gave_up != NULL) {
            t->on_gave_up(t);
        }
    }
}

/* Another payload instead of this, whose use does not go unseen. */
static muster_blob *toy_spoil(muster_blob *payload)
{
    muster_blob *spoiled = toy_blob(payload->data, payload->bytes);
    float *values = spoiled->data;
    for (size_t i = 0; i < payload->bytes / sizeof(float); i++) {
        values[i] += 1;
    }
    muster_blob_unref(payload);
    return spoiled;
}

static muster_blob *toy_echo(void *context, const muster_message *message,
                             bool earlier, muster_blob *payload)
{
    toy *t = context;
    if (!earlier && message->kind != MUSTER_MSG_GRADIENT &&
        message->kind != MUSTER_MSG_STAGE) {
        return payload;
    }
    t->echoes++;
    return toy_spoil(payload);
}

static void toy_stopped(void *context, uint32_t host, muster_status status,
                        const char *reason)
{
    toy *t = context;
    if (host != 0) {
        t->stopped_workers++;
        t->worker_status = status;
        return;
    }
    t->over = true;
    t->status = status;
    snprintf(t->reason, sizeof(t->reason), "%s", reason);
    muster_sim_halt(t->sim);
}

/* The host of an edge, and that of a worker (numbered across edges). */
static uint32_t toy_edge_host(uint32_t edge)
{
    return 1 + edge;
}

static uint32_t toy_worker_host(const toy *t, uint32_t worker)
{
    return 1 + t->edges + worker;
}

/* Start, or restart from the newest snapshot, the coordinator on host 0. */
static void toy_start_coordinator(toy *t)
{
    muster_coordinator_opts opts = MUSTER_COORDINATOR_OPTS_INIT;
    opts.code = t->code;
    opts.edges = t->edges > 0;
    opts.run = TOY_RUN;
    opts.first_step = t->disk.step;
    t->next_step = t->disk.step;
    memcpy(t->received, t->disk.received, sizeof(t->received));
    memset(t->here, 0, sizeof(t->here));
    memset(t->heard_steps, 0, sizeof(t->heard_steps));
    memset(t->answered, 0, sizeof(t->answered));
    memset(t->is_ready, 0, sizeof(t->is_ready));
    opts.last_step = t->steps;
    opts.message_dim = TOY_DIM;
    memcpy(t->theta, t->disk.theta, sizeof(t->theta));
    opts.model = toy_blob(t->theta, sizeof(t->theta));
    opts.setup = toy_blob("setup", 5);
    opts.patience_ns = 20 * MUSTER_NS_PER_S;
    opts.grace_ns = 3 * MUSTER_NS_PER_S;
    opts.checkpoint_every = 4;
    opts.evaluate_at_end = true;
    opts.shuffle = t->shuffle;
    opts.eager = true; // where a code does not say
    opts.deadline_ns = t->deadline_ns;
    opts.degrade = t->degrade;
    opts.shards = t->shards;
    opts.change_code = t->change_code;
    t->resumed = t->change_code != NULL && t->disk.step > 0;
    opts.change_step = t->change_step;
    opts.replan = t->plan_code_count > 0;
    t->info = *toy_numbers(t, t->code);
    opts.saved = t->disk.role_bytes > 0 ? t->disk.role : NULL;
    opts.saved_bytes = t->disk.role_bytes;
    muster_role role;
    muster_error error;
    muster_status status = muster_coordinator_create(&opts, &error, &role);
    MUSTER_ASSERT(status == MUSTER_OK);
    muster_blob_unref(opts.model);
    muster_blob_unref(opts.setup);
    muster_sim_start(t->sim, 0, role);
}

static void toy_start_edge(toy *t, uint32_t host, uint32_t wish)
{
    muster_edge_opts opts = MUSTER_EDGE_OPTS_INIT;
    snprintf(opts.address, sizeof(opts.address), "sim:0");
    opts.id = wish;
    opts.pid = host;
    opts.patience_ns = 20 * MUSTER_NS_PER_S;
    muster_role role;
    muster_error error;
    muster_status status = muster_edge_create(&opts, &error, &role);
    MUSTER_ASSERT(status == MUSTER_OK);
    muster_sim_start(t->sim, host, role);
}

static void toy_start_worker(toy *t, uint32_t host, uint32_t wish)
{
    muster_worker_opts opts = MUSTER_WORKER_OPTS_INIT;
    uint32_t leader = 0;
    if (t->edges > 0) {
        uint32_t worker = host - toy_worker_host(t, 0);
        leader = toy_edge_host(muster_hier_edge_of(t->code, worker));
    }
    snprintf(opts.address, sizeof(opts.address), "sim:%u", leader);
    opts.id = wish;
    opts.pid = host;
    opts.patience_ns = 20 * MUSTER_NS_PER_S;
    muster_role role;
    muster_error error;
    muster_status status = muster_worker_create(&opts, &error, &role);
    MUSTER_ASSERT(status == MUSTER_OK);
    muster_sim_start(t->sim, host, role);
}

typedef struct toy_opts {
    uint64_t seed;
    const char *code;
    muster_code *made; // the same, made before; lent; or NULL
    uint32_t workers;
    const char *topology; // of a hier code: edges join; NULL: workers do
    uint32_t spares;      // hosts beyond those, down at first
    uint64_t steps;
    double duplicate;
    double echo;
    size_t begun_bytes; // as in sim.h
    double pace;        // 0: 1
    int64_t jitter_ns;
    double bytes_per_s; // 0: no limit
    const char *shuffle;
    int64_t deadline_ns;
    bool degrade;
    uint32_t shards;         // 0: one a part
    const char *change_code; // NULL: none
    uint64_t change_step;
    const char *const *plan_codes; // ended by NULL; NULL: none
    void (*on_trace)(void *context, const char *line);
} toy_opts;

static muster_code *toy_make_code(const char *name, uint32_t workers,
                                  const char *topology)
{
    muster_code_opts opts = MUSTER_CODE_OPTS_INIT;
    muster_code *code = NULL;
    muster_error error;
    opts.name = name;
    opts.workers = workers;
    opts.topology = topology;
    muster_status status = muster_code_create(&opts, &error, &code);
    if (status != MUSTER_OK) {
        fprintf(stderr, "%s: %s\n", name, error.text);
    }
    MUSTER_ASSERT(status == MUSTER_OK);
    return code;
}

static void toy_init_code(toy *t, const toy_opts *opts)
{
    t->code = opts->made;
    t->code_lent = opts->made != NULL;
    if (!t->code_lent) {
        t->code = toy_make_code(opts->code, opts->workers, opts->topology);
    }
    if (opts->change_code != NULL) {
        t->change_code = toy_make_code(opts->change_code, opts->workers, NULL);
        t->change_step = opts->change_step;
    }
    for (size_t i = 0; opts->plan_codes != NULL && opts->plan_codes[i] != NULL;
         i++) {
        MUSTER_ASSERT(t->plan_code_count < TOY_PLAN_CODES);
        t->plan_codes[t->plan_code_count++] =
            toy_make_code(opts->plan_codes[i], opts->workers, opts->topology);
    }
    t->info = *muster_code_numbers(t->code);
    MUSTER_ASSERT(t->info.parts <= TOY_PARTS_MAX &&
                  t->info.workers == opts->workers);
    t->workers = opts->workers;
    if (opts->topology != NULL) {
        t->edges = muster_hier_numbers_of(t->code).edges;
        t->workers = t->edges;
        t->info = *toy_numbers(t, t->code);
    }
    t->shards = opts->shards != 0 ? opts->shards : t->info.parts;
    MUSTER_ASSERT(t->shards <= TOY_SHARDS_MAX);
}

/* Everybody up, nothing has happened yet. Hosts: 0 coordinator, then edges,
 * then workers, and then the spares, which are down. */
static void toy_init(toy *t, const toy_opts *opts)
{
    memset(t, 0, sizeof(*t));
    t->planner = muster_planner_make();
    toy_init_code(t, opts);
    uint32_t hosts = t->edges + opts->workers + opts->spares + 1;
    MUSTER_ASSERT(hosts <= TOY_HOSTS_MAX);
    t->steps = opts->steps;
    t->shuffle = opts->shuffle;
    t->deadline_ns = opts->deadline_ns;
    t->degrade = opts->degrade;
    t->pace = opts->pace > 0 ? opts->pace : 1;
    t->rng = muster_rng_make(opts->seed, 2);
    muster_sim_opts sim = {
        .seed = opts->seed,
        .compute = {t, toy_begin, toy_end, toy_reset, NULL, NULL},
        .link = {100000, opts->jitter_ns, opts->bytes_per_s},
        .duplicate = opts->duplicate,
        .echo = opts->echo,
        .begun_bytes = opts->begun_bytes,
        .context = t,
        .on_report = toy_report,
        .on_stop = toy_stopped,
        .on_action = toy_action,
        .on_echo = toy_echo,
        .on_trace = opts->on_trace};
    muster_status status = muster_sim_create(&sim, hosts, &t->sim);
    MUSTER_ASSERT(status == MUSTER_OK);
    toy_start_coordinator(t);
    for (uint32_t edge = 0; edge < t->edges; edge++) {
        toy_start_edge(t, toy_edge_host(edge), edge);
    }
    for (uint32_t worker = 0; worker < opts->workers; worker++) {
        toy_start_worker(t, toy_worker_host(t, worker), worker);
    }
}

static void toy_fini(toy *t)
{
    muster_sim_free(t->sim);
    for (uint32_t host = 0; host < TOY_HOSTS_MAX; host++) {
        toy_reset(t, host);
    }
    if (!t->code_lent) {
        muster_code_free(t->code);
    }
    muster_code_free(t->change_code);
    muster_planner_fini(&t->planner);
    for (uint32_t i = 0; i < t->plan_code_count; i++) {
        muster_code_free(t->plan_codes[i]);
    }
}

#endif // MUSTER_TESTS_SIM_TOY_H
