/*
 * The area under the ROC curve against the count over all pairs, its
 * definition, on random scores with many ties; and the corners.
 */
#include "model/auc.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

#include "base/rng.h"

#define ROWS 200u

/* Of all pairs of both classes, how many are in order; ties count one half. */
static double by_pairs(const muster_scored_row *rows, size_t count)
{
    double right = 0;
    double pairs = 0;
    for (size_t i = 0; i < count; i++) {
        for (size_t j = 0; rows[i].label > 0 && j < count; j++) {
            if (rows[j].label > 0) {
                continue;
            }
            pairs += 1;
            right += rows[i].score > rows[j].score   ? 1
                     : rows[i].score < rows[j].score ? 0
                                                     : 0.5;
        }
    }
    return right / pairs;
}

static void it_is_the_share_of_pairs_in_order(void **state)
{
    (void)state;
    for (uint32_t levels = 1; levels < 300; levels += 37) {
        muster_rng rng = muster_rng_make(5, levels);
        muster_scored_row rows[ROWS];
        for (uint32_t i = 0; i < ROWS; i++) {
            float score = (float)muster_rng_below(&rng, levels);
            float noise = (float)muster_rng_below(&rng, levels);
            rows[i] = (muster_scored_row){score, score > noise ? 1.0f : -1.0f};
        }
        rows[0].label = 1;
        rows[1].label = 0; // classes come as 0 and 1 as well
        double pairs = by_pairs(rows, ROWS);
        assert_true(fabs(muster_auc(rows, ROWS) - pairs) < 1e-12);
    }
}

static void what_cannot_be_ranked_has_none(void **state)
{
    (void)state;
    muster_scored_row one_class[] = {{1, 1}, {2, 1}};
    muster_scored_row no_number[] = {{NAN, 1}, {2, -1}};
    muster_scored_row infinite[] = {{INFINITY, 1}, {-INFINITY, -1}};
    assert_true(isnan(muster_auc(one_class, 2)));
    assert_true(isnan(muster_auc(no_number, 2)));
    assert_true(isnan(muster_auc(one_class, 0)));
    assert_true(muster_auc(infinite, 2) == 1);
}

static void one_score_and_two_scores_of_a_row_are_ranked_alike(void **state)
{
    (void)state;
    const float one[] = {0.5f, -1.0f};
    const float two[] = {1.0f, 1.5f, 3.0f, 2.0f};
    const float labels[] = {1, -1};
    const muster_rows rows = {.count = 2, .labels = labels};
    const muster_model binary = {.kind = MUSTER_MODEL_BINARY, .outputs = 1};
    const muster_model classes = {.kind = MUSTER_MODEL_CLASSES, .outputs = 2};
    const muster_model others[] = {
        {.kind = MUSTER_MODEL_CLASSES, .outputs = 3},
        {.kind = MUSTER_MODEL_REGRESSION, .outputs = 1},
    };
    muster_scored_row a[2];
    muster_scored_row b[2];
    assert_true(muster_auc_applies(&binary) && muster_auc_applies(&classes));
    assert_false(muster_auc_applies(&others[0]) ||
                 muster_auc_applies(&others[1]));
    muster_auc_collect(&binary, &rows, one, a);
    muster_auc_collect(&classes, &rows, two, b);
    for (size_t i = 0; i < 2; i++) {
        assert_true(a[i].score == b[i].score && a[i].label == b[i].label);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(it_is_the_share_of_pairs_in_order),
        cmocka_unit_test(what_cannot_be_ranked_has_none),
        cmocka_unit_test(one_score_and_two_scores_of_a_row_are_ranked_alike),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
