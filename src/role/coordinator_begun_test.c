/*
 * coordinator_begun_test.c -- answers that have begun: when a DECODE is asked
 * for, with which messages, what a loss does, and that an UPDATE is asked for
 * by whole answers alone.
 */
#include "role/coordinator_test.h"

#define FRC_WORKERS 4u

/* A message of a worker begins to arrive, in this blob. */
static void begin_message(stage *s, uint32_t worker, muster_message message,
                          muster_blob *payload)
{
    message.run = RUN;
    message.incarnation = s->incarnations[worker];
    muster_event event = {.kind = MUSTER_EVENT_BEGUN, .peer = worker + 1};
    event.as.message.message = &message;
    event.as.message.payload = payload;
    feed(s, event);
}

static muster_message answer_to(uint64_t step)
{
    return (muster_message){
        .kind = MUSTER_MSG_GRADIENT, .plan = 1, .step = step};
}

static muster_blob *make_part(const stage *s)
{
    muster_blob *part = muster_blob_create(s->answer->bytes);
    assert_non_null(part);
    muster_blob_set_missing(part, part->bytes);
    return part;
}

/* The job of a kind that was asked for last, or NULL. */
static const muster_job *asked(const stage *s, muster_job_kind kind)
{
    const muster_action *list = s->actions.list.data;
    for (size_t i = 0; i < s->actions.list.count; i++) {
        if (list[i].kind == MUSTER_ACTION_COMPUTE &&
            list[i].as.job.kind == kind) {
            return &list[i].as.job;
        }
    }
    return NULL;
}

static uint64_t decode_of(const stage *s, uint32_t messages)
{
    const muster_job *decode = asked(s, MUSTER_JOB_DECODE);
    assert_non_null(decode);
    assert_int_equal(decode->message_count, messages);
    return decode->id;
}

static void end_decode(stage *s, uint64_t id, muster_status status)
{
    computed(s, (muster_job_result){
                    .id = id, .kind = MUSTER_JOB_DECODE, .status = status});
}

static void all_that_is_needed_has_begun_and_is_decoded(void **state)
{
    (void)state;
    stage s = make_stage();
    gather(&s);
    muster_blob *parts[WORKERS];
    for (uint64_t step = 0; step < 20; step++) {
        for (uint32_t w = 0; w < WORKERS; w++) {
            parts[w] = make_part(&s);
        }
        if (step >= 2) { // by then every list has its size
            muster_mem_fail_after(0);
        }
        answer(&s, 0, step); // one is whole before the others begin
        for (uint32_t w = 1; w < WORKERS; w++) {
            assert_null(asked(&s, MUSTER_JOB_DECODE));
            begin_message(&s, w, answer_to(step), parts[w]);
        }
        uint64_t id = decode_of(&s, WORKERS);
        assert_ptr_equal(asked(&s, MUSTER_JOB_DECODE)->messages[0], s.answer);
        for (uint32_t w = 1; w < WORKERS; w++) {
            assert_ptr_equal(asked(&s, MUSTER_JOB_DECODE)->messages[w],
                             parts[w]);
        }
        for (uint32_t w = 1; w < WORKERS; w++) {
            assert_null(asked(&s, MUSTER_JOB_UPDATE));
            say(&s, w, answer_to(step), parts[w]);
            assert_null(asked(&s, MUSTER_JOB_DECODE));
        }
        const muster_job *update = asked(&s, MUSTER_JOB_UPDATE);
        assert_non_null(update);
        assert_ptr_equal(update->messages[1], parts[1]);
        uint64_t update_id = update->id;
        end_decode(&s, id, MUSTER_ERR_CANCELLED); // it gave way
        assert_int_equal(s.actions.list.count, 0);
        computed(&s, (muster_job_result){.id = update_id,
                                         .kind = MUSTER_JOB_UPDATE,
                                         .step = step,
                                         .output = s.blob});
        assert_int_equal(count_sends(&s, MUSTER_MSG_MODEL), WORKERS);
        muster_mem_fail_after(UINT64_MAX);
        for (uint32_t w = 0; w < WORKERS; w++) {
            muster_blob_unref(parts[w]);
        }
    }
    end_stage(&s);
}

static void what_is_no_answer_to_the_step_is_not_decoded(void **state)
{
    (void)state;
    stage s = make_stage_of("frc:s=3", FRC_WORKERS, NULL); // any is enough
    gather(&s);
    muster_blob *part = make_part(&s);
    muster_blob *shorter = muster_blob_create(s.answer->bytes - 4);
    muster_message late = answer_to(7);
    muster_message other_plan = answer_to(0);
    muster_message model = answer_to(0);
    other_plan.plan = 2;
    model.kind = MUSTER_MSG_MODEL;
    begin_message(&s, 0, late, part);
    begin_message(&s, 0, other_plan, part);
    begin_message(&s, 0, model, part);
    begin_message(&s, 0, answer_to(0), shorter);
    s.incarnations[1]++; // of another life
    begin_message(&s, 1, answer_to(0), part);
    s.incarnations[1]--;
    assert_int_equal(s.actions.list.count, 0);
    begin_message(&s, 2, answer_to(0), part);
    assert_int_equal(decode_of(&s, 1), 1);
    // A second one is not needed.
    begin_message(&s, 3, answer_to(0), part);
    assert_int_equal(s.actions.list.count, 0);
    end_stage(&s);
    muster_blob_unref(part);
    muster_blob_unref(shorter);
}

/* An answer of worker 2 is being decoded when worker 1's is whole. Returns the
 * number of the UPDATE; *decode_out is that of the DECODE. */
static uint64_t overtake(stage *s, muster_blob *part, uint64_t *decode_out)
{
    begin_message(s, 2, answer_to(0), part);
    *decode_out = decode_of(s, 1);
    answer(s, 1, 0);
    const muster_job *update = asked(s, MUSTER_JOB_UPDATE);
    assert_non_null(update);
    assert_ptr_equal(update->messages[0], s->answer);
    return update->id;
}

/* Another worker was faster: the step takes what is whole. */
static void what_is_whole_first_is_used(void **state)
{
    (void)state;
    stage s = make_stage_of("frc:s=3", FRC_WORKERS, NULL);
    gather(&s);
    muster_blob *part = make_part(&s);
    uint64_t id = 0;
    uint64_t update_id = overtake(&s, part, &id);
    end_decode(&s, id, MUSTER_ERR_CANCELLED);
    assert_int_equal(s.actions.list.count, 0);
    computed(&s, (muster_job_result){.id = update_id,
                                     .kind = MUSTER_JOB_UPDATE,
                                     .output = s.blob});
    // It is whole too late, and nothing is kept of it.
    say(&s, 2, answer_to(0), part);
    end_stage(&s);
    assert_int_equal(atomic_load(&part->references), 1);
    muster_blob_unref(part);
}

/* The update finds that an answer is no gradient: the step is decoded anew,
 * with one that began before the update and was whole after. */
static void an_answer_that_is_whole_too_late_is_a_spare_one(void **state)
{
    (void)state;
    stage s = make_stage_of("frc:s=3", FRC_WORKERS, NULL);
    gather(&s);
    muster_blob *part = make_part(&s);
    uint64_t id = 0;
    uint64_t update_id = overtake(&s, part, &id);
    end_decode(&s, id, MUSTER_ERR_CANCELLED);
    say(&s, 2, answer_to(0), part);
    // As an answer alone, and here.
    assert_int_equal(atomic_load(&part->references), 2);
    muster_blob *marks = muster_blob_create(1);
    assert_non_null(marks);
    *(uint8_t *)marks->data = MUSTER_MARK_NOT_FINITE;
    computed(&s, (muster_job_result){.id = update_id,
                                     .kind = MUSTER_JOB_UPDATE,
                                     .status = MUSTER_INEXACT,
                                     .output = marks});
    muster_blob_unref(marks);
    assert_null(asked(&s, MUSTER_JOB_DECODE));
    const muster_job *update = asked(&s, MUSTER_JOB_UPDATE);
    assert_non_null(update);
    assert_int_equal(update->message_count, 1);
    assert_ptr_equal(update->messages[0], part);
    end_stage(&s);
    assert_int_equal(atomic_load(&part->references), 1);
    muster_blob_unref(part);
}

static void lose(stage *s, uint32_t worker)
{
    muster_event event = {.kind = MUSTER_EVENT_PEER_DOWN, .peer = worker + 1};
    event.as.down.reason = "gone";
    feed(s, event);
}

static void a_lost_worker_ends_the_decoding_of_its_part(void **state)
{
    (void)state;
    stage s = make_stage_of("frc:s=3", FRC_WORKERS, NULL);
    gather(&s);
    muster_blob *lost = make_part(&s);
    muster_blob *left = make_part(&s);
    begin_message(&s, 0, answer_to(0), lost);
    uint64_t id = decode_of(&s, 1);
    begin_message(&s, 3, answer_to(0), left);
    lose(&s, 0);
    const muster_action *cancel = find(&s, MUSTER_ACTION_CANCEL);
    assert_non_null(cancel);
    assert_int_equal(cancel->as.cancel.job_id, id);
    // One at a time: the next when it has ended.
    assert_null(asked(&s, MUSTER_JOB_DECODE));
    end_decode(&s, id, MUSTER_ERR_CANCELLED);
    assert_int_equal(decode_of(&s, 1), id + 1);
    assert_ptr_equal(asked(&s, MUSTER_JOB_DECODE)->messages[0], left);
    lose(&s, 1); // had not begun
    assert_null(find(&s, MUSTER_ACTION_CANCEL));
    end_stage(&s);
    assert_int_equal(atomic_load(&lost->references), 1);
    assert_int_equal(atomic_load(&left->references), 1);
    muster_blob_unref(lost);
    muster_blob_unref(left);
}

/* What went wrong there shows in UPDATE, if it matters. */
static void a_decoding_that_fails_ends_nothing(void **state)
{
    (void)state;
    stage s = make_stage_of("frc:s=3", FRC_WORKERS, NULL);
    gather(&s);
    muster_blob *part = make_part(&s);
    begin_message(&s, 0, answer_to(0), part);
    end_decode(&s, decode_of(&s, 1), MUSTER_ERR_NO_MEMORY);
    assert_int_equal(s.actions.list.count, 0);
    say(&s, 0, answer_to(0), part);
    update_model(&s, 0);
    assert_int_equal(count_sends(&s, MUSTER_MSG_MODEL), FRC_WORKERS);
    end_stage(&s);
    muster_blob_unref(part);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(all_that_is_needed_has_begun_and_is_decoded),
        cmocka_unit_test(what_is_no_answer_to_the_step_is_not_decoded),
        cmocka_unit_test(what_is_whole_first_is_used),
        cmocka_unit_test(an_answer_that_is_whole_too_late_is_a_spare_one),
        cmocka_unit_test(a_lost_worker_ends_the_decoding_of_its_part),
        cmocka_unit_test(a_decoding_that_fails_ends_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
