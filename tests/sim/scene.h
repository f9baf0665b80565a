/*
 * scene.h -- what the tests of named histories share; cmocka.h comes before.
 */
#ifndef MUSTER_TESTS_SIM_SCENE_H
#define MUSTER_TESTS_SIM_SCENE_H

#include "toy.h"

#define SECONDS(n) ((int64_t)(n)*MUSTER_NS_PER_S)

static toy_opts plain(const char *code, uint32_t workers, uint64_t steps)
{
    return (toy_opts){
        .seed = 7, .code = code, .workers = workers, .steps = steps};
}

static inline void run_to_end(toy *t)
{
    muster_sim_run(t->sim, SECONDS(300));
    assert_true(t->over);
}

static inline void assert_right(const toy *t)
{
    assert_int_equal(t->status, MUSTER_OK);
    assert_int_equal(t->serial_step, t->steps);
    assert_true(t->wrong < 1e-3 && t->off < 1e-1 && t->loose < 1e-2);
    assert_true(t->wrong_model < 1e-3 && !t->disorder && !t->miscounted);
    assert_false(t->premature);
    assert_int_equal(t->results, 1);
}

static inline void start_coordinator(muster_sim *sim, void *context,
                                     uint64_t value)
{
    (void)sim;
    (void)value;
    toy_start_coordinator(context);
}

static inline void start_coordinator_at(toy *t, int64_t at_ns)
{
    muster_sim_at(t->sim, at_ns, start_coordinator, t, 0);
}

#endif // MUSTER_TESTS_SIM_SCENE_H
