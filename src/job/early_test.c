/*
 * early_test.c -- DECODE: however far a step's messages had come when they were
 * decoded, its UPDATE gives the same bits as one that began with whole ones.
 */
#include "job/job_test.h"

#define STEPS 6u

/* Two runs of the same job: one decodes early, the other does not. */
typedef struct two_runs {
    testbed plain, early;
} two_runs;

static void open_runs(two_runs *runs, const char *code, uint32_t threads)
{
    static const bed_option options[] = {
        {"data", "synthetic:samples=8,features=150000,classes=2,test=0"},
        {"model", "mlp:hidden=10"},
        {"batch", "8"},
        {"optimizer", "momentum:beta=0.9"},
        {"clip", "1"},
        {"local", "4"}};
    testbed *beds[] = {&runs->plain, &runs->early};
    for (size_t i = 0; i < 2; i++) {
        *beds[i] =
            (testbed){.config = bed_config(options, 6), .threads = threads};
        bed_start(beds[i], code, 4);
    }
}

static void close_runs(two_runs *runs)
{
    bed_close(&runs->plain);
    bed_close(&runs->early);
}

/* The same input as the UPDATE has. */
static muster_job decode_job(const muster_job *update)
{
    muster_job job = *update;
    job.kind = MUSTER_JOB_DECODE;
    job.decoding = muster_decoding_ref(update->decoding);
    job.list = muster_job_list_create(update->message_count);
    job.messages = job.list->blobs;
    for (uint32_t i = 0; i < job.message_count; i++) {
        job.messages[i] = muster_blob_ref(update->messages[i]);
    }
    return job;
}

/* So much of each message is there. */
static void show(const muster_job *job, double share)
{
    for (uint32_t i = 0; i < job->message_count; i++) {
        muster_blob *message = job->messages[i];
        double here = share * (double)message->bytes;
        muster_blob_set_missing(message, message->bytes - (size_t)here);
    }
}

/* Decode while the messages come, and end when so much is there. Returns how
 * many tiles were decoded. */
static uint32_t decode_to(testbed *bed, const muster_job *update, double share)
{
    muster_job job = decode_job(update);
    muster_job_result result;
    uint32_t tiles = 0;
    muster_executor_begin(bed->coordinator, &job);
    for (double come = 0; come <= share; come += 0.125) {
        show(update, come);
        muster_status status = MUSTER_IN_PROGRESS;
        while (status == MUSTER_IN_PROGRESS) {
            status = muster_executor_piece(bed->coordinator);
            tiles += status != MUSTER_ERR_AGAIN;
        }
        assert_int_equal(status, come < 1 ? MUSTER_ERR_AGAIN : MUSTER_OK);
    }
    muster_executor_end(bed->coordinator, &result);
    assert_int_equal(result.status,
                     share < 1 ? MUSTER_ERR_CANCELLED : MUSTER_OK);
    assert_null(result.output);
    show(update, 1);
    return tiles;
}

static muster_job_result update(testbed *bed, muster_job job)
{
    muster_job_result result = bed_run_ok(bed, bed->coordinator, job);
    bed->step++;
    return result;
}

static void check_same(const muster_job_result *a, const muster_job_result *b)
{
    assert_memory_equal(a->output->data, b->output->data, a->output->bytes);
    assert_memory_equal(&a->loss, &b->loss, sizeof(double));
    assert_memory_equal(&a->grad_err, &b->grad_err, sizeof(double));
    assert_memory_equal(&a->theta_norm, &b->theta_norm, sizeof(double));
    muster_blob_unref(a->output);
    muster_blob_unref(b->output);
}

static void check_code(const char *code, uint32_t threads)
{
    static const double shares[STEPS] = {0, 0.375, 0.75, 0.875, 1, 0.5};
    two_runs runs;
    open_runs(&runs, code, threads);
    uint32_t before = 0;
    for (uint32_t step = 0; step < STEPS; step++) {
        // One straggler; it is another one each time.
        muster_job plain = bed_update_job(&runs.plain, step % 4);
        muster_job early = bed_update_job(&runs.early, step % 4);
        uint32_t tiles = decode_to(&runs.early, &early, shares[step]);
        assert_true(shares[step] < 0.7 || tiles > 0);
        assert_true(step > 4 || tiles >= before);
        before = tiles;
        uint64_t pieces = runs.plain.pieces;
        muster_job_result a = update(&runs.plain, plain);
        pieces = runs.plain.pieces - pieces;
        uint64_t left = runs.early.pieces;
        muster_job_result b = update(&runs.early, early);
        left = runs.early.pieces - left;
        assert_true(tiles < 2 || left < pieces); // it went on from there
        check_same(&a, &b);
    }
    close_runs(&runs);
}

static void an_update_has_the_same_bits_however_much_was_decoded(void **state)
{
    (void)state;
    check_code("frc:s=1", 1);
    check_code("linear:tuned:s=1,m=2", 1);
    check_code("cyclic-mds:s=1", 2);
}

/* A message that had begun was lost: others take its place. */
static void an_update_of_other_messages_begins_anew(void **state)
{
    (void)state;
    two_runs runs;
    open_runs(&runs, "cyclic-mds:s=1", 1);
    muster_job lost = bed_update_job(&runs.early, 0);
    assert_true(decode_to(&runs.early, &lost, 0.5) > 0);
    // Again from the first byte on, and then with other messages.
    muster_job other = bed_update_job(&runs.early, 1);
    assert_true(decode_to(&runs.early, &other, 0.5) > 0);
    assert_true(decode_to(&runs.early, &lost, 0.75) > 0);
    muster_job_result b = update(&runs.early, other);
    muster_job_result a = update(&runs.plain, bed_update_job(&runs.plain, 1));
    check_same(&a, &b);
    muster_job_fini(&lost);
    close_runs(&runs);
}

/* The same messages again: it goes on where it was. */
static void a_decoding_that_gave_way_goes_on(void **state)
{
    (void)state;
    two_runs runs;
    open_runs(&runs, "cyclic-mds:s=1", 1);
    muster_job early = bed_update_job(&runs.early, 0);
    uint32_t tiles = decode_to(&runs.early, &early, 0.5);
    uint32_t more = decode_to(&runs.early, &early, 1);
    two_runs whole;
    open_runs(&whole, "cyclic-mds:s=1", 1);
    muster_job at_once = bed_update_job(&whole.early, 0);
    assert_int_equal(decode_to(&whole.early, &at_once, 1), tiles + more);
    assert_true(tiles > 0 && more > 0);
    muster_job_result a = update(&whole.early, at_once);
    muster_job_result b = update(&runs.early, early);
    check_same(&a, &b);
    close_runs(&whole);
    close_runs(&runs);
}

/* Nothing of it changes the run, and nothing of it is needed. */
static void a_decoding_that_fails_changes_nothing(void **state)
{
    (void)state;
    two_runs runs;
    open_runs(&runs, "frc:s=1", 1);
    muster_job early = bed_update_job(&runs.early, 0);
    for (uint64_t allowed = 0; allowed < 3; allowed++) {
        muster_job job = decode_job(&early);
        muster_mem_fail_after(allowed);
        muster_job_result result =
            bed_run(&runs.early, runs.early.coordinator, job);
        muster_mem_fail_after(UINT64_MAX);
        assert_true(result.status == MUSTER_ERR_NO_MEMORY ||
                    result.status == MUSTER_OK);
    }
    muster_job wrong = decode_job(&early);
    wrong.step = 9;
    assert_int_equal(bed_run(&runs.early, runs.early.coordinator, wrong).status,
                     MUSTER_ERR_INVALID);
    muster_job_result b = update(&runs.early, early);
    muster_job_result a = update(&runs.plain, bed_update_job(&runs.plain, 0));
    check_same(&a, &b);
    close_runs(&runs);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_update_has_the_same_bits_however_much_was_decoded),
        cmocka_unit_test(an_update_of_other_messages_begins_anew),
        cmocka_unit_test(a_decoding_that_gave_way_goes_on),
        cmocka_unit_test(a_decoding_that_fails_changes_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
