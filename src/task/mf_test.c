/*
 * mf_test.c -- the order of the cells: parts and runs cover them all, rows are
 * dealt evenly, and the tours of an epoch start apart and where the one before
 * ended. Some cells are held out, and the mean is taken off all.
 */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/resource.h>

#include <cmocka.h>

#include "base/mem.h"
#include "task/mf.h"
#include "task/mf_deal.h"
#include "task/mf_random.h"
#include "task/mf_tour.h"

static muster_mf make(uint32_t parts)
{
    muster_mf m = {.parts = parts};
    muster_ratings_zipf zipf = MUSTER_RATINGS_ZIPF_INIT;
    zipf.rows = 60;
    zipf.cols = 40;
    zipf.cells = 900;
    assert_int_equal(muster_ratings_make_zipf(&zipf, 1, &m.train), MUSTER_OK);
    assert_int_equal(muster_mf_arrange(&m), MUSTER_OK);
    return m;
}

static void end(muster_mf *m)
{
    muster_ratings_fini(&m->valid);
    muster_ratings_fini(&m->train);
    muster_ratings_fini(&m->test);
    muster_mf_arranged_free(m);
}

/* The part that has `row`, by looking at every group. */
static uint32_t part_of(const muster_mf *m, uint32_t row)
{
    uint32_t found = UINT32_MAX;
    for (uint32_t p = 0; p < m->parts; p++) {
        for (uint64_t g = m->parts_at[p].group; g < m->parts_at[p + 1].group;
             g++) {
            if (m->groups[g].row <= row && row < m->groups[g].end) {
                assert_int_equal(found, UINT32_MAX);
                assert_int_equal(m->groups[g].part, p);
                found = p;
            }
        }
    }
    return found;
}

static void check_part(const muster_mf *m, uint32_t p)
{
    const muster_mf_part *part = &m->parts_at[p];
    assert_true(m->runs[part->run].cell == part->cell);
    for (uint64_t r = part->run; r < part[1].run; r++) {
        assert_true(m->runs[r].cell < m->runs[r + 1].cell);
        assert_true(r == part->run || m->runs[r].col > m->runs[r - 1].col);
        for (uint64_t i = m->runs[r].cell; i < m->runs[r + 1].cell; i++) {
            muster_cell cell = m->train.cells[i];
            assert_int_equal(cell.col, m->runs[r].col);
            assert_int_equal(part_of(m, cell.row), p);
        }
    }
}

static void parts_and_runs_cover_every_cell_once(void **state)
{
    (void)state;
    for (uint32_t parts = 1; parts <= 5; parts++) {
        muster_mf m = make(parts);
        assert_true(m.parts_at[0].cell == 0);
        assert_true(m.parts_at[parts].cell == m.train.count);
        assert_true(m.runs[m.parts_at[parts].run].cell == m.train.count);
        for (uint32_t p = 0; p < parts; p++) {
            check_part(&m, p);
        }
        end(&m);
    }
}

/* The first column of a part's block. */
static uint32_t block_of(const muster_mf *m, uint32_t part)
{
    return m->cuts[(size_t)MUSTER_MF_CUTS * part];
}

/* The rule in words: a column falls to the block that the cells before it
 * fill. */
static void blocks_are_cut_where_their_cells_are(void **state)
{
    (void)state;
    for (uint32_t parts = 1; parts <= 70; parts += 3) {
        muster_mf m = make(parts);
        uint64_t before = 0;
        for (uint32_t i = 0; i < m.train.cols; i++) {
            uint64_t found = 0;
            for (uint32_t p = 1; p < parts; p++) {
                found += block_of(&m, p) <= i;
            }
            uint64_t block = before * parts / m.train.count;
            assert_true(found == (block < parts ? block : parts - 1));
            for (uint64_t c = 0; c < m.train.count; c++) {
                before += m.train.cells[c].col == i;
            }
        }
        assert_int_equal(block_of(&m, parts), m.train.cols);
        end(&m);
    }
}

/* The heaviest group that is left; of equal ones the first. */
static const muster_mf_group *heaviest(const muster_mf *m, const bool *dealt)
{
    const muster_mf_group *found = NULL;
    for (uint64_t g = 0; g < m->group_count; g++) {
        const muster_mf_group *group = &m->groups[g];
        if (!dealt[g] &&
            (found == NULL || group->cells > found->cells ||
             (group->cells == found->cells && group->row < found->row))) {
            found = group;
        }
    }
    return found;
}

/* The rule in words: the heaviest goes to the part with the fewest cells. */
static void rows_are_dealt_evenly(void **state)
{
    (void)state;
    for (uint32_t parts = 1; parts <= 70; parts += 3) {
        muster_mf m = make(parts);
        bool dealt[60] = {false};
        uint64_t cells[70] = {0};
        assert_true(m.group_count > 20 && m.group_count <= 60);
        for (uint64_t i = 0; i < m.group_count; i++) {
            const muster_mf_group *group = heaviest(&m, dealt);
            uint32_t fewest = 0;
            for (uint32_t p = 1; p < parts; p++) {
                fewest = cells[p] < cells[fewest] ? p : fewest;
            }
            assert_int_equal(group->part, fewest);
            cells[fewest] += group->cells;
            dealt[group - m.groups] = true;
        }
        for (uint32_t p = 0; p < parts; p++) {
            assert_true(cells[p] ==
                        m.parts_at[p + 1].cell - m.parts_at[p].cell);
        }
        assert_true(m.parts_at[parts].group == m.group_count);
        end(&m);
    }
}

static void count_rows(const muster_mf *m, uint32_t part, uint32_t *seen)
{
    muster_mf_cursor at = muster_mf_rows_of(m, part, part + 1);
    uint32_t rows[7];
    uint32_t count;
    while ((count = muster_mf_next_rows(&at, rows, 7)) > 0) {
        for (uint32_t i = 0; i < count; i++) {
            assert_int_equal(part_of(m, rows[i]), part);
            seen[rows[i]]++;
        }
    }
}

static void a_cursor_finds_every_row_of_its_parts_once(void **state)
{
    (void)state;
    for (uint32_t parts = 1; parts <= 70; parts += 3) {
        muster_mf m = make(parts);
        uint32_t seen[60] = {0};
        assert_int_equal(m.train.rows, 60);
        for (uint32_t p = 0; p < parts; p++) {
            count_rows(&m, p, seen);
        }
        for (uint32_t i = 0; i < m.train.rows; i++) {
            assert_int_equal(seen[i], 1);
        }
        muster_mf_cursor none = muster_mf_rows_of(&m, parts, parts);
        assert_int_equal(muster_mf_next_rows(&none, seen, 60), 0);
        end(&m);
    }
}

/* Test cells go to the part of their row, also one that has no other cells. */
static void test_cells_are_measured_where_their_rows_are(void **state)
{
    (void)state;
    muster_mf m = {.parts = 3};
    muster_ratings_zipf zipf = MUSTER_RATINGS_ZIPF_INIT;
    zipf.rows = 50;
    zipf.cols = 40;
    zipf.cells = 300;
    assert_int_equal(muster_ratings_make_zipf(&zipf, 1, &m.train), MUSTER_OK);
    zipf.rows = 60;
    zipf.seed++;
    assert_int_equal(muster_ratings_make_zipf(&zipf, 1, &m.test), MUSTER_OK);
    m.train.rows = m.test.rows;
    assert_int_equal(muster_mf_arrange(&m), MUSTER_OK);
    assert_true(m.parts_at[0].test == 0);
    assert_true(m.parts_at[3].test == m.test.count);
    for (uint32_t p = 0; p < 3; p++) {
        for (uint64_t i = m.parts_at[p].test; i < m.parts_at[p + 1].test; i++) {
            assert_int_equal(part_of(&m, m.test.cells[i].row), p);
            assert_true(i == m.parts_at[p].test ||
                        m.test.cells[i - 1].row <= m.test.cells[i].row);
        }
    }
    end(&m);
}

static void memory_goes_by_cells_and_not_by_the_size_of_the_matrix(void **state)
{
    (void)state;
    muster_cell cells[3] = {
        {199999999, 7, 1}, {5, 199999998, 1}, {100000000, 7, 1}};
    muster_mf m = {
        .parts = 3,
        .train = {
            .cells = cells, .count = 3, .rows = 200000000, .cols = 200000000}};
    struct rusage before;
    struct rusage after;
    assert_int_equal(getrusage(RUSAGE_SELF, &before), 0);
    assert_int_equal(muster_mf_arrange(&m), MUSTER_OK);
    assert_int_equal(getrusage(RUSAGE_SELF, &after), 0);
    // KiB at most; a word for each row and column would be 1.6 GB.
    assert_true(after.ru_maxrss - before.ru_maxrss < 65536);
    assert_int_equal(m.group_count, 3);
    assert_int_equal(m.groups[0].row, 0);
    assert_int_equal(m.groups[1].row, 100000000);
    assert_int_equal(m.groups[2].row, 199999999);
    assert_int_equal(m.groups[2].end, 200000000);
    assert_int_equal(cells[0].row, 5);
    assert_int_equal(cells[1].row, 100000000);
    assert_int_equal(cells[2].row, 199999999);
    muster_mf_arranged_free(&m);
}

static void tours_start_apart_and_where_the_last_one_ended(void **state)
{
    (void)state;
    enum { PARTS = 3, PIECES = PARTS * MUSTER_MF_CUTS };
    muster_mf m = make(PARTS);
    for (uint32_t epoch = 0; epoch < 7; epoch++) {
        uint32_t seen[PARTS] = {0}; // blocks that some part starts with
        for (uint32_t p = 0; p < PARTS; p++) {
            uint32_t piece = muster_mf_first_piece(&m, p, epoch);
            assert_int_equal(piece % MUSTER_MF_CUTS, 0);
            // A tour from `piece` on ends with the block before it.
            assert_int_equal(muster_mf_first_piece(&m, p, epoch + 1),
                             (piece + PIECES - MUSTER_MF_CUTS) % PIECES);
            seen[piece / MUSTER_MF_CUTS]++;
        }
        assert_true(seen[0] == 1 && seen[1] == 1 && seen[2] == 1);
    }
    end(&m);
}

static void a_run_is_found_by_its_column(void **state)
{
    (void)state;
    muster_mf m = make(3);
    for (uint32_t p = 0; p < 3; p++) {
        const muster_mf_run *runs = m.runs + m.parts_at[p].run;
        uint64_t count = m.parts_at[p + 1].run - m.parts_at[p].run;
        for (uint32_t col = 0; col <= m.train.cols; col++) {
            uint64_t run = muster_mf_run_at(&m, p, col);
            assert_true(run == count || runs[run].col >= col);
            assert_true(run == 0 || runs[run - 1].col < col);
        }
    }
    end(&m);
}

static uint64_t find(const muster_ratings *in, muster_cell cell)
{
    uint64_t found = 0;
    for (uint64_t i = 0; i < in->count; i++) {
        found += in->cells[i].row == cell.row && in->cells[i].col == cell.col &&
                 in->cells[i].value == cell.value;
    }
    return found;
}

static void held_out_cells_are_nobodys_to_train_on(void **state)
{
    (void)state;
    muster_mf m = make(1);
    muster_mf all = make(1);
    m.seed = 5;
    assert_int_equal(muster_mf_hold_out(&m, 0.2), MUSTER_OK);
    assert_true(m.valid.count > 120 && m.valid.count < 240);
    assert_true(m.train.count + m.valid.count == all.train.count);
    for (uint64_t i = 0; i < all.train.count; i++) {
        muster_cell cell = all.train.cells[i];
        assert_true(find(&m.train, cell) + find(&m.valid, cell) ==
                    find(&all.train, cell));
    }
    end(&m);
    end(&all);
}

static void one_cell_is_never_held_out(void **state)
{
    (void)state;
    muster_cell cell = {3, 4, 5};
    muster_mf m = {.parts = 1,
                   .train = {.cells = &cell, .count = 1, .rows = 4, .cols = 5}};
    assert_int_equal(muster_mf_hold_out(&m, 0.9), MUSTER_OK);
    assert_true(m.train.count == 1 && m.valid.count == 0);
    muster_mf_centre(&m);
    assert_true(m.mean == 5 && m.unit == 1 && cell.value == 0);
}

static void centred_values_have_mean_0_and_the_unit_measures_them(void **state)
{
    (void)state;
    muster_mf m = make(1);
    double sum = 0;
    double squares = 0;
    for (uint64_t i = 0; i < m.train.count; i++) {
        m.train.cells[i].value = 40 + 9 * m.train.cells[i].value;
    }
    muster_mf_centre(&m);
    for (uint64_t i = 0; i < m.train.count; i++) {
        double value = (double)m.train.cells[i].value;
        sum += value;
        squares += value * value;
    }
    double count = (double)m.train.count;
    assert_true(fabs(m.mean - 40) < 2);
    assert_true(fabs(sum / count) < 1e-5);
    assert_true(fabs(pow(m.unit, 4) - squares / count) < 1e-3);
    end(&m);
}

/* ---- the random order ---------------------------------------------------- */

enum { MANY_CELLS = 5000 };

static muster_mf make_random(uint32_t parts)
{
    muster_mf m = {.parts = parts,
                   .options = {.order = MUSTER_MF_ORDER_RANDOM},
                   .seed = 3};
    muster_ratings_zipf zipf = MUSTER_RATINGS_ZIPF_INIT;
    zipf.rows = 300;
    zipf.cols = 200;
    zipf.cells = MANY_CELLS;
    assert_int_equal(muster_ratings_make_zipf(&zipf, 1, &m.train), MUSTER_OK);
    assert_int_equal(muster_mf_arrange(&m), MUSTER_OK);
    return m;
}

/* Count the visits of an epoch by cell, and return a sum that depends on their
 * order. */
static uint64_t visit_part(const muster_mf *m, uint32_t part, uint32_t epoch,
                           uint32_t *visited)
{
    muster_mf_visits v = muster_mf_visits_make(m, part, epoch);
    uint64_t sum = 0;
    for (uint64_t i = 0; i < v.blocks; i++) {
        muster_mf_block block = muster_mf_visits_at(&v, i);
        assert_true(block.from <= block.middle && block.middle < block.end);
        for (const muster_cell *at = block.from; at < block.end; at++) {
            assert_true(at == block.from || at->col >= at[-1].col);
            visited[at - m->train.cells]++;
        }
        sum = 31 * sum + (uint64_t)(block.middle - m->train.cells);
    }
    muster_mf_block none = muster_mf_visits_at(&v, v.blocks);
    assert_true(none.from == none.end && none.middle == none.end);
    return sum;
}

static void random_blocks_visit_every_cell_once_in_every_epoch(void **state)
{
    (void)state;
    for (uint32_t parts = 1; parts <= 3; parts++) {
        muster_mf m = make_random(parts);
        uint64_t before = 0;
        for (uint32_t epoch = 0; epoch < 3; epoch++) {
            uint32_t visited[MANY_CELLS] = {0};
            uint64_t sum = 0;
            for (uint32_t p = 0; p < parts; p++) {
                sum += visit_part(&m, p, epoch, visited);
            }
            for (uint32_t i = 0; i < m.train.count; i++) {
                assert_int_equal(visited[i], 1);
            }
            assert_true(sum != before); // another order
            before = sum;
        }
        end(&m);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(random_blocks_visit_every_cell_once_in_every_epoch),
        cmocka_unit_test(parts_and_runs_cover_every_cell_once),
        cmocka_unit_test(blocks_are_cut_where_their_cells_are),
        cmocka_unit_test(rows_are_dealt_evenly),
        cmocka_unit_test(a_cursor_finds_every_row_of_its_parts_once),
        cmocka_unit_test(test_cells_are_measured_where_their_rows_are),
        cmocka_unit_test(
            memory_goes_by_cells_and_not_by_the_size_of_the_matrix),
        cmocka_unit_test(tours_start_apart_and_where_the_last_one_ended),
        cmocka_unit_test(a_run_is_found_by_its_column),
        cmocka_unit_test(held_out_cells_are_nobodys_to_train_on),
        cmocka_unit_test(one_cell_is_never_held_out),
        cmocka_unit_test(centred_values_have_mean_0_and_the_unit_measures_them),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
