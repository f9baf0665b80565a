/*
 * fabric_test.c -- a device of RDMA is found by the state of its port, and what
 * is missing for an engine is named.
 */
#define _GNU_SOURCE
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "net/fabric.h"

/* Make every folder of the path, then the file. */
static void put_file(const char *root, const char *path, const char *text)
{
    char full[512];
    snprintf(full, sizeof(full), "%s/%s", root, path);
    for (char *at = full + strlen(root) + 1; *at != '\0'; at++) {
        if (*at == '/') {
            *at = '\0';
            (void)mkdir(full, 0700);
            *at = '/';
        }
    }
    FILE *file = fopen(full, "w");
    assert_non_null(file);
    fputs(text, file);
    fclose(file);
}

static void rdma_is_a_device_with_an_active_port(void **state)
{
    (void)state;
    char root[] = "/tmp/muster-fabric-XXXXXX";
    char device[64] = "";
    char command[128];
    assert_non_null(mkdtemp(root));
    assert_false(muster_fabric_rdma(root, device, sizeof(device)));
    put_file(root, "class/infiniband/mlx5_0/ports/1/state", "1: DOWN\n");
    assert_false(muster_fabric_rdma(root, device, sizeof(device)));
    put_file(root, "class/infiniband/mlx5_1/ports/1/state", "4: ACTIVE\n");
    assert_true(muster_fabric_rdma(root, device, sizeof(device)));
    assert_string_equal(device, "mlx5_1");
    snprintf(command, sizeof(command), "rm -r %s", root);
    assert_int_equal(system(command), 0);
}

static void a_missing_module_is_named(void **state)
{
    (void)state;
    const muster_fabric_module *module = NULL;
    muster_error error = {0};
    assert_int_equal(muster_fabric_load("nothing", &error, &module),
                     MUSTER_ERR_UNSUPPORTED);
    assert_non_null(strstr(error.text, "muster-nothing.so"));
    assert_non_null(strstr(error.text, "libucx"));
    assert_null(module);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rdma_is_a_device_with_an_active_port),
        cmocka_unit_test(a_missing_module_is_named),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
