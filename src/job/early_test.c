/*
 * early_test.c -- DECODE: however far a step's messages had come when they were
 * decoded, its UPDATE gives the same bits as one that began with whole ones,
 * and no float is read before it has come.
 */
#include "job/job_test.h"

#include "job/inside.h" // after it: its types have names of parameters there

#define STEPS 6u

/* Two runs of the same job: one decodes early, the other does not. */
typedef struct two_runs {
    testbed plain, early;
} two_runs;

static void open_runs_of(two_runs *runs, const char *data, const char *code,
                         uint32_t threads)
{
    const bed_option options[] = {
        {"data", data}, {"model", "mlp:hidden=10"},
        {"batch", "8"}, {"optimizer", "momentum:beta=0.9"},
        {"clip", "1"},  {"local", "4"}};
    testbed *beds[] = {&runs->plain, &runs->early};
    for (size_t i = 0; i < 2; i++) {
        *beds[i] =
            (testbed){.config = bed_config(options, 6), .threads = threads};
        bed_start(beds[i], code, 4);
    }
}

static void open_runs(two_runs *runs, const char *code, uint32_t threads)
{
    open_runs_of(runs, "synthetic:samples=8,features=150000,classes=2,test=0",
                 code, threads);
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

/* The messages of a job while they arrive, all equally far. What has not come
 * is no number, so that the sum shows if it was read. */
typedef struct arriving {
    const muster_job *job;
    muster_blob *whole[BED_ANSWERS_MAX]; // copies
    size_t bytes, here;
} arriving;

static arriving begin_to_arrive(const muster_job *job)
{
    arriving messages = {.job = job, .bytes = job->messages[0]->bytes};
    for (uint32_t i = 0; i < job->message_count; i++) {
        muster_blob *message = job->messages[i];
        muster_blob *copy = muster_blob_create(messages.bytes);
        assert_non_null(copy);
        assert_int_equal(message->bytes, messages.bytes);
        memcpy(copy->data, message->data, messages.bytes);
        memset(message->data, 0xff, messages.bytes);
        muster_blob_set_missing(message, messages.bytes);
        messages.whole[i] = copy;
    }
    return messages;
}

/* So much of each message is there, not less than before. */
static void arrive(arriving *messages, size_t here)
{
    for (uint32_t i = 0; i < messages->job->message_count; i++) {
        muster_blob *message = messages->job->messages[i];
        memcpy((char *)message->data + messages->here,
               (const char *)messages->whole[i]->data + messages->here,
               here - messages->here);
        muster_blob_set_missing(message, messages->bytes - here);
    }
    messages->here = here;
}

static void arrive_whole(arriving *messages)
{
    arrive(messages, messages->bytes);
    for (uint32_t i = 0; i < messages->job->message_count; i++) {
        muster_blob_unref(messages->whole[i]);
    }
}

/* Decode while the messages come, in `all` steps, and end after `count` of
 * them. Returns how many tiles were decoded. */
static uint32_t decode_to(testbed *bed, const muster_job *update, size_t count,
                          size_t all)
{
    arriving messages = begin_to_arrive(update);
    muster_job job = decode_job(update);
    muster_job_result result;
    uint32_t tiles = 0;
    size_t coded = messages.bytes - sizeof(float); // the bound is behind it
    muster_executor_begin(bed->coordinator, &job);
    for (size_t i = 0; i <= count; i++) {
        arrive(&messages, messages.bytes * i / all);
        muster_status status = MUSTER_IN_PROGRESS;
        while (status == MUSTER_IN_PROGRESS) {
            status = muster_executor_piece(bed->coordinator);
            tiles += status != MUSTER_ERR_AGAIN;
        }
        assert_int_equal(status,
                         messages.here < coded ? MUSTER_ERR_AGAIN : MUSTER_OK);
    }
    muster_executor_end(bed->coordinator, &result);
    assert_int_equal(result.status,
                     count < all ? MUSTER_ERR_CANCELLED : MUSTER_OK);
    assert_null(result.output);
    arrive_whole(&messages);
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
    static const size_t eighths[STEPS] = {0, 3, 6, 7, 8, 4};
    two_runs runs;
    open_runs(&runs, code, threads);
    uint32_t before = 0;
    for (uint32_t step = 0; step < STEPS; step++) {
        // One straggler; it is another one each time.
        muster_job plain = bed_update_job(&runs.plain, step % 4);
        muster_job early = bed_update_job(&runs.early, step % 4);
        uint32_t tiles = decode_to(&runs.early, &early, eighths[step], 8);
        assert_true(eighths[step] < 6 || tiles > 0);
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
    // Messages of two blocks.
    check_code("cyclic-mds:s=2", 1);
    check_code("rs:s=1", 2);
}

/* Float by float: a tile that was decoded one too early would show. */
static void a_tile_waits_for_its_last_float(void **state)
{
    static const char *const codes[] = {"frc:s=1", "linear:tuned:s=1,m=2",
                                        "cyclic-mds:s=2"};
    (void)state;
    for (size_t i = 0; i < sizeof(codes) / sizeof(codes[0]); i++) {
        two_runs runs;
        open_runs_of(&runs,
                     "synthetic:samples=8,features=40000,classes=2,test=0",
                     codes[i], 1);
        muster_job early = bed_update_job(&runs.early, 0);
        size_t floats = early.messages[0]->bytes / sizeof(float);
        assert_true(decode_to(&runs.early, &early, floats, floats) > 2);
        muster_job_result b = update(&runs.early, early);
        muster_job_result a =
            update(&runs.plain, bed_update_job(&runs.plain, 0));
        check_same(&a, &b);
        close_runs(&runs);
    }
}

/* A message that had begun was lost: others take its place. */
static void an_update_of_other_messages_begins_anew(void **state)
{
    (void)state;
    two_runs runs;
    open_runs(&runs, "cyclic-mds:s=1", 1);
    muster_job lost = bed_update_job(&runs.early, 0);
    assert_true(decode_to(&runs.early, &lost, 4, 8) > 0);
    // Again from the first byte on, and then with other messages.
    muster_job other = bed_update_job(&runs.early, 1);
    assert_true(decode_to(&runs.early, &other, 4, 8) > 0);
    assert_true(decode_to(&runs.early, &lost, 6, 8) > 0);
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
    uint32_t tiles = decode_to(&runs.early, &early, 4, 8);
    uint32_t more = decode_to(&runs.early, &early, 8, 8);
    two_runs whole;
    open_runs(&whole, "cyclic-mds:s=1", 1);
    muster_job at_once = bed_update_job(&whole.early, 0);
    assert_int_equal(decode_to(&whole.early, &at_once, 8, 8), tiles + more);
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
    uint32_t failed = 0;
    for (uint64_t allowed = 0; allowed < 3; allowed++) {
        muster_job job = decode_job(&early);
        muster_mem_fail_after(allowed);
        muster_job_result result =
            bed_run(&runs.early, runs.early.coordinator, job);
        muster_mem_fail_after(UINT64_MAX);
        assert_true(result.status == MUSTER_ERR_NO_MEMORY ||
                    result.status == MUSTER_OK);
        failed += result.status == MUSTER_ERR_NO_MEMORY;
    }
    assert_true(failed > 0);
    muster_job wrong = decode_job(&early);
    wrong.step = 9;
    assert_int_equal(bed_run(&runs.early, runs.early.coordinator, wrong).status,
                     MUSTER_ERR_INVALID);
    muster_job_result b = update(&runs.early, early);
    muster_job_result a = update(&runs.plain, bed_update_job(&runs.plain, 0));
    check_same(&a, &b);
    close_runs(&runs);
}

/* What a tile reads and writes, of a large model. */
static size_t tile_bytes(size_t terms, uint32_t blocks)
{
    static coordinator self;
    muster_decoding decoding = {.term_count = terms, .gradient_blocks = blocks};
    self.base.job.decoding = &decoding;
    self.update.block = (size_t)1 << 26;
    return muster_job_decode_end(&self) * (terms + blocks) * sizeof(float);
}

static void a_tile_is_about_4_mb_of_256_messages_however_coded(void **state)
{
    static const struct {
        size_t terms;
        uint32_t blocks;
    } sizes[] = {{1, 1}, {3, 1}, {12, 2}, {256, 1}, {512, 2}, {4096, 16}};
    (void)state;
    for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
        assert_in_range(tile_bytes(sizes[i].terms, sizes[i].blocks), 4100000,
                        4300000);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_update_has_the_same_bits_however_much_was_decoded),
        cmocka_unit_test(a_tile_waits_for_its_last_float),
        cmocka_unit_test(an_update_of_other_messages_begins_anew),
        cmocka_unit_test(a_decoding_that_gave_way_goes_on),
        cmocka_unit_test(a_decoding_that_fails_changes_nothing),
        cmocka_unit_test(a_tile_is_about_4_mb_of_256_messages_however_coded),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
