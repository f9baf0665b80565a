/*
 * edge_test.c -- an edge's executor: COMBINE gives what the inner code decodes,
 * with a bound on its rounding behind it; what cannot be combined is refused.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "code/decoding.h"
#include "code/hier.h"
#include "job/executor.h"
#include "job/planner.h"
#include "wire/edge_terms.h"

#define DIM     4001u
#define WORKERS 4u // under an edge

typedef struct scene {
    muster_code *code;
    const muster_code *inner;
    muster_executor *edge;
    muster_decoding *decoding; // without worker 2
    size_t floats;             // of a message
    muster_job_list *list;
} scene;

static muster_status no_code(const muster_config *config,
                             muster_error *error_out, muster_code **code_out)
{
    (void)config;
    (void)error_out;
    (void)code_out;
    return MUSTER_ERR_INVALID;
}

static void scene_init(scene *s)
{
    static const uint32_t heard[] = {0, 1, 3};
    muster_code_opts opts = MUSTER_CODE_OPTS_INIT;
    muster_code_fit fit = MUSTER_CODE_FIT_INIT;
    size_t count = 0;
    opts.name = "hier:se=1,sw=1";
    opts.workers = 4 * WORKERS;
    opts.topology = "4x4";
    assert_int_equal(muster_code_create(&opts, NULL, &s->code), MUSTER_OK);
    s->inner = muster_hier_inner(s->code, 1);
    s->floats = muster_hier_edge_length(s->code, DIM);
    muster_code_decode_term *terms =
        calloc(muster_code_decode_terms_max(s->inner), sizeof(*terms));
    muster_status status =
        muster_code_weights(s->inner, heard, 3, terms, &count, &fit);
    assert_int_equal(status, MUSTER_OK);
    s->decoding = muster_decoding_create(s->inner, status, terms, count, &fit);
    free(terms);
    assert_int_equal(
        muster_executor_create_edge(no_code, &muster_executor_heap, &s->edge),
        MUSTER_OK);
    s->list = muster_job_list_create(WORKERS);
    assert_true(s->decoding != NULL && s->list != NULL);
}

static void scene_fini(scene *s)
{
    muster_job_list_unref(s->list);
    muster_decoding_unref(s->decoding);
    muster_executor_free(s->edge);
    muster_code_free(s->code);
}

/* Worker w's message is w + 1 everywhere, its bound 1e-3. */
static muster_blob *message_of(const scene *s, uint32_t worker, size_t floats)
{
    muster_blob *blob = muster_blob_create((floats + 1) * sizeof(float));
    assert_non_null(blob);
    float *values = blob->data;
    for (size_t i = 0; i < floats; i++) {
        values[i] = (float)(worker + 1);
    }
    values[floats] = 1e-3f;
    (void)s;
    return blob;
}

static muster_job_result combine(scene *s, size_t floats)
{
    muster_job job = {.id = 1,
                      .kind = MUSTER_JOB_COMBINE,
                      .step = 5,
                      .block = s->floats / s->decoding->message_blocks,
                      .decoding = muster_decoding_ref(s->decoding),
                      .messages = s->list->blobs,
                      .message_count = s->decoding->used_count,
                      .list = muster_job_list_ref(s->list)};
    for (uint32_t i = 0; i < job.message_count; i++) {
        job.messages[i] = message_of(s, s->decoding->used[i], floats);
    }
    muster_job_result result;
    muster_executor_begin(s->edge, &job);
    while (muster_executor_piece(s->edge) == MUSTER_IN_PROGRESS) {
    }
    muster_executor_end(s->edge, &result);
    return result;
}

static void the_output_is_what_the_inner_code_decodes(void **state)
{
    (void)state;
    scene s;
    scene_init(&s);
    muster_job_result result = combine(&s, s.floats);
    assert_int_equal(result.status, MUSTER_OK);
    assert_int_equal(result.output->bytes, (s.floats + 1) * sizeof(float));
    const float *out = result.output->data;
    double right = 0;
    for (size_t i = 0; i < s.decoding->term_count; i++) {
        right += s.decoding->terms[i].weight *
                 (double)(s.decoding->terms[i].worker + 1);
    }
    for (size_t i = 0; i < s.floats; i++) {
        assert_true((double)out[i] > right - 1e-5 &&
                    (double)out[i] < right + 1e-5);
    }
    assert_true(out[s.floats] >= 1e-3f && out[s.floats] < 1);
    muster_blob_unref(result.output);
    scene_fini(&s);
}

static void a_short_message_and_another_job_are_refused(void **state)
{
    (void)state;
    scene s;
    scene_init(&s);
    muster_job_result result = combine(&s, s.floats - 1);
    assert_int_equal(result.status, MUSTER_ERR_INVALID);
    assert_non_null(strstr(result.text, "too short"));
    muster_job job = {.id = 2, .kind = MUSTER_JOB_GRADIENT};
    muster_executor_begin(s.edge, &job);
    muster_executor_end(s.edge, &result);
    assert_int_equal(result.status, MUSTER_ERR_INVALID);
    muster_job setup = {.id = 3, .kind = MUSTER_JOB_SETUP};
    muster_executor_begin(s.edge, &setup);
    muster_executor_end(s.edge, &result);
    assert_int_equal(result.status, MUSTER_ERR_PROTOCOL);
    scene_fini(&s);
}

/* PLAN of an edge for hier:se=0,sw=2. */
static muster_blob *plan_blob(void)
{
    const muster_edge_terms terms = {.message_dim = DIM,
                                     .shards = 64,
                                     .worker_stragglers = 2,
                                     .edge_comm = 1,
                                     .worker_comm = 1};
    muster_blob *blob = muster_blob_create(MUSTER_EDGE_TERMS_BYTES);
    assert_non_null(blob);
    muster_edge_terms_write(&terms, blob->data);
    return blob;
}

static void a_plan_names_the_code_that_adopt_makes(void **state)
{
    (void)state;
    scene s;
    scene_init(&s);
    muster_planner planner = muster_planner_make();
    muster_job job = {.kind = MUSTER_JOB_ADOPT, .input = plan_blob()};
    muster_job_result result = {.code = NULL}, again = {.code = NULL};
    assert_int_equal(
        muster_planner_adopt(&planner, &job, s.code, NULL, &result), MUSTER_OK);
    assert_int_equal(muster_planner_adopt(&planner, &job, s.code, NULL, &again),
                     MUSTER_OK);
    assert_ptr_equal(result.code, again.code);
    muster_hier_numbers numbers = muster_hier_numbers_of(result.code);
    assert_int_equal(numbers.edges, 4);
    assert_int_equal(numbers.edge_stragglers, 0);
    assert_int_equal(numbers.worker_stragglers, 2);
    muster_error error;
    assert_int_equal(muster_planner_adopt(&planner, &job, NULL, &error, &again),
                     MUSTER_ERR_PROTOCOL); // before SETUP
    job.input->bytes--;
    assert_int_equal(
        muster_planner_adopt(&planner, &job, s.code, &error, &again),
        MUSTER_ERR_PROTOCOL);
    assert_non_null(strstr(error.text, "not an edge's"));
    job.input->bytes++;
    muster_job_fini(&job);
    muster_planner_fini(&planner);
    scene_fini(&s);
}

/* One worker of the first edge takes a second: only codes of two layers can
 * be adopted there. */
static void plans_for_edges_are_of_two_layers(void **state)
{
    (void)state;
    static const char text[] =
        "version: 1\n"
        "edges:\n"
        "  - workers: [{compute: {shift: 1s}}, "
        "{count: 3, compute: {shift: 10ms}}]\n"
        "  - count: 3\n"
        "    workers: [{count: 4, compute: {shift: 10ms}}]\n";
    scene s;
    scene_init(&s);
    muster_planner planner = muster_planner_make();
    muster_job job = {.kind = MUSTER_JOB_PLAN, .code = s.code};
    job.input = muster_blob_create(sizeof(text));
    assert_non_null(job.input);
    memcpy(job.input->data, text, sizeof(text));
    muster_job_result result = {.code = NULL};
    assert_int_equal(muster_planner_run(&planner, &job, NULL, &result),
                     MUSTER_OK);
    assert_true(muster_code_is_hier(result.code));
    // What is in force is known to the plan, which is no worse.
    assert_true(result.expected_ms <= result.in_force_ms);
    assert_true(result.expected_ms < 100);
    muster_job_fini(&job);
    muster_planner_fini(&planner);
    scene_fini(&s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_plan_names_the_code_that_adopt_makes),
        cmocka_unit_test(plans_for_edges_are_of_two_layers),
        cmocka_unit_test(the_output_is_what_the_inner_code_decodes),
        cmocka_unit_test(a_short_message_and_another_job_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
