/*
 * A task on a thread of its own: it runs while its owner goes on, waiting with
 * a limit comes back before its end, and the struct serves again afterwards.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <pthread.h>

#include "base/background.h"

typedef struct gate {
    pthread_mutex_t mutex; // held by the owner: the task waits for it
    int passed;
} gate;

static void pass_gate(void *context)
{
    gate *g = context;
    pthread_mutex_lock(&g->mutex);
    g->passed++;
    pthread_mutex_unlock(&g->mutex);
}

static void a_task_ends_while_its_owner_goes_on(void **state)
{
    (void)state;
    muster_background background = {.is_running = false};
    gate g = {.mutex = PTHREAD_MUTEX_INITIALIZER};
    assert_true(muster_background_wait(&background, UINT32_MAX)); // idle
    for (int turn = 1; turn <= 3; turn++) {
        pthread_mutex_lock(&g.mutex);
        assert_true(muster_background_start(&background, pass_gate, &g));
        assert_false(muster_background_wait(&background, 0));
        assert_false(muster_background_wait(&background, 2));
        pthread_mutex_unlock(&g.mutex);
        assert_true(muster_background_wait(&background, UINT32_MAX));
        assert_int_equal(g.passed, turn);
        assert_true(muster_background_wait(&background, 0));
    }
    pthread_mutex_destroy(&g.mutex);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_task_ends_while_its_owner_goes_on),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
