/*
 * mf_test.c -- the order of the cells: parts and runs cover them all, and the
 * tours of an epoch start apart and where the one before ended.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/resource.h>

#include <cmocka.h>

#include "base/mem.h"
#include "task/mf.h"

static muster_mf make(uint32_t parts)
{
    muster_mf m = {.parts = parts};
    muster_ratings_zipf zipf = MUSTER_RATINGS_ZIPF_INIT;
    zipf.rows = 60;
    zipf.cols = 40;
    zipf.cells = 900;
    assert_int_equal(muster_ratings_make_zipf(&zipf, &m.train), MUSTER_OK);
    assert_int_equal(muster_mf_arrange(&m), MUSTER_OK);
    return m;
}

static void end(muster_mf *m)
{
    muster_ratings_fini(&m->train);
    muster_mem_free(m->parts_at);
    muster_mem_free(m->runs);
    muster_mem_free(m->settled);
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
            assert_true(cell.row >= part->row && cell.row < part[1].row);
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

/* The rule in words: a row falls to the part that the cells before it fill. */
static void parts_are_cut_where_their_cells_are(void **state)
{
    (void)state;
    for (uint32_t parts = 1; parts <= 70; parts += 3) {
        muster_mf m = make(parts);
        uint64_t before[2] = {0};
        uint32_t ends[2] = {m.train.rows, m.train.cols};
        for (uint32_t i = 0; i < ends[0] || i < ends[1]; i++) {
            uint64_t found[2] = {0};
            for (uint32_t p = 1; p < parts; p++) {
                found[0] += m.parts_at[p].row <= i;
                found[1] += m.parts_at[p].block <= i;
            }
            for (int side = 0; side < 2 && i < ends[side]; side++) {
                uint64_t part = before[side] * parts / m.train.count;
                assert_true(found[side] == (part < parts ? part : parts - 1));
            }
            for (uint64_t c = 0; c < m.train.count; c++) {
                before[0] += m.train.cells[c].row == i;
                before[1] += m.train.cells[c].col == i;
            }
        }
        assert_int_equal(m.parts_at[parts].row, m.train.rows);
        assert_int_equal(m.parts_at[parts].block, m.train.cols);
        end(&m);
    }
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
    assert_int_equal(m.parts_at[1].row, 6);
    assert_int_equal(m.parts_at[2].row, 100000001);
    assert_int_equal(m.parts_at[3].row, 200000000);
    assert_int_equal(cells[0].row, 5);
    assert_int_equal(cells[1].row, 100000000);
    assert_int_equal(cells[2].row, 199999999);
    muster_mem_free(m.parts_at);
    muster_mem_free(m.runs);
    muster_mem_free(m.settled);
}

static void tours_start_apart_and_where_the_last_one_ended(void **state)
{
    (void)state;
    enum { PARTS = 3 };
    muster_mf m = make(PARTS);
    for (uint32_t epoch = 0; epoch < 7; epoch++) {
        uint32_t seen[PARTS] = {0}; // blocks that some part starts with
        for (uint32_t p = 0; p < PARTS; p++) {
            const muster_mf_run *runs = m.runs + m.parts_at[p].run;
            uint32_t block = (p + 7 * PARTS - epoch) % PARTS;
            uint64_t start = muster_mf_start(&m, p, epoch);
            uint32_t col = runs[start].col;
            // The first column of the block that this part has cells in.
            assert_true(col >= m.parts_at[block].block);
            assert_true(start == 0 ||
                        runs[start - 1].col < m.parts_at[block].block);
            // A tour from `block` on ends with the block before it.
            uint64_t next = muster_mf_start(&m, p, epoch + 1);
            uint32_t before = (block + PARTS - 1) % PARTS;
            assert_true(runs[next].col >= m.parts_at[before].block);
            seen[block]++;
        }
        assert_true(seen[0] == 1 && seen[1] == 1 && seen[2] == 1);
    }
    end(&m);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(parts_and_runs_cover_every_cell_once),
        cmocka_unit_test(parts_are_cut_where_their_cells_are),
        cmocka_unit_test(
            memory_goes_by_cells_and_not_by_the_size_of_the_matrix),
        cmocka_unit_test(tours_start_apart_and_where_the_last_one_ended),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
