/*
 * own_data_test.c -- workers that read the data themselves compute the bits of
 * workers that were sent it, keep of the file what a plan needs, and use no row
 * that the coordinator does not have.
 */
#define _POSIX_C_SOURCE 200809L
#include "base/folder_test.h"
#include "job/job_test.h"

#define DATA     "synthetic:samples=400,features=6,classes=3,seed=4"
#define COUNT(a) (sizeof(a) / sizeof((a)[0]))

static void open_bed(testbed *bed, const char *data, const char *where)
{
    const bed_option options[] = {
        {"data", data}, {"data-at", where}, {"steps", "9"}, {"batch", "100"}};
    bed_open(bed, "frc:s=1", 4, options, COUNT(options));
}

static muster_blob *make_shard(testbed *bed, uint32_t shard)
{
    return bed_run_ok(bed, bed->coordinator,
                      (muster_job){.kind = MUSTER_JOB_SHARD, .shard = shard})
        .output;
}

static void the_model_is_that_of_shards_that_were_sent(void **state)
{
    (void)state;
    testbed sent, listed;
    open_bed(&sent, DATA, "coordinator");
    open_bed(&listed, DATA, "workers");
    for (int i = 0; i < 9; i++) {
        bed_step(&sent, UINT32_MAX);
        bed_step(&listed, UINT32_MAX);
    }
    muster_blob *a = muster_executor_model_blob(sent.coordinator);
    muster_blob *b = muster_executor_model_blob(listed.coordinator);
    assert_memory_equal(a->data, b->data, a->bytes);
    muster_blob_unref(a);
    muster_blob_unref(b);
    bed_close(&sent);
    bed_close(&listed);
}

static void refused(testbed *bed, muster_blob *listing, uint32_t shard,
                    const char *why)
{
    muster_job_result result =
        bed_run(bed, bed->workers[0],
                (muster_job){
                    .kind = MUSTER_JOB_LOAD, .shard = shard, .input = listing});
    assert_true(result.status < 0);
    if (strstr(result.text, why) == NULL) {
        fail_msg("'%s' does not say '%s'", result.text, why);
    }
}

static void write_rows(const char *path)
{
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    for (int i = 0; i < 200; i++) {
        (void)fprintf(file, "%d.5,%d,%d\n", i % 7, i % 11, i % 3);
    }
    assert_int_equal(fclose(file), 0);
}

/* Load a shard that was forgotten. */
static void reload(testbed *bed, uint32_t shard)
{
    bed_run_ok(bed, bed->workers[0],
               (muster_job){.kind = MUSTER_JOB_FORGET, .shard = shard});
    bed_give(bed, 0, shard);
}

static void
the_rows_are_let_go_once_and_kept_after_the_second_reading(void **state)
{
    char path[64];
    (void)snprintf(path, sizeof(path), "%s/rows.csv", (const char *)*state);
    write_rows(path);
    testbed bed;
    open_bed(&bed, path, "workers");
    bed_step(&bed, UINT32_MAX);
    assert_int_equal(remove(path), 0);
    refused(&bed, make_shard(&bed, 0), 0, "No such file");
    write_rows(path);
    reload(&bed, 0);
    bed_step(&bed, UINT32_MAX);
    assert_int_equal(remove(path), 0);
    reload(&bed, 1);
    bed_step(&bed, UINT32_MAX);
    bed_close(&bed);
}

static void a_listing_that_fits_nothing_is_refused(void **state)
{
    (void)state;
    testbed bed, sent, other;
    open_bed(&bed, DATA, "workers");
    open_bed(&sent, DATA, "coordinator");
    open_bed(&other, "synthetic:samples=400,features=6,classes=3,seed=5",
             "workers");
    refused(&bed, make_shard(&bed, 1), 0, "another number");
    refused(&sent, make_shard(&bed, 0), 0, "no data named");
    refused(&bed, make_shard(&other, 0), 0, "another hash");
    muster_blob *cut_short = make_shard(&bed, 0);
    cut_short->bytes--;
    refused(&bed, cut_short, 0, "cut short");
    bed_close(&bed);
    bed_close(&sent);
    bed_close(&other);
}

static void
a_job_that_is_cut_off_while_the_file_is_read_harms_nothing(void **state)
{
    (void)state;
    testbed bed;
    open_bed(&bed, DATA, "workers");
    bed_step(&bed, UINT32_MAX);
    muster_blob *listing = make_shard(&bed, 0);
    bed_run_ok(&bed, bed.workers[0], (muster_job){.kind = MUSTER_JOB_FORGET});
    muster_job_result result;
    muster_job job = {.kind = MUSTER_JOB_LOAD,
                      .input = muster_blob_ref(listing)};
    muster_executor_begin(bed.workers[0], &job);
    muster_executor_end(bed.workers[0], &result);
    assert_int_equal(result.status, MUSTER_ERR_CANCELLED);
    bed_run_ok(&bed, bed.workers[0],
               (muster_job){.kind = MUSTER_JOB_LOAD, .input = listing});
    bed_step(&bed, UINT32_MAX);
    bed_close(&bed);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_model_is_that_of_shards_that_were_sent),
        cmocka_unit_test_setup_teardown(
            the_rows_are_let_go_once_and_kept_after_the_second_reading,
            folder_setup, folder_teardown),
        cmocka_unit_test(a_listing_that_fits_nothing_is_refused),
        cmocka_unit_test(
            a_job_that_is_cut_off_while_the_file_is_read_harms_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
