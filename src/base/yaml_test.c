/*
 * yaml_test.c -- nested text becomes a tree with lines and paths; what a tree
 * does not take is refused with its line; every allocation may fail.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "base/mem.h"
#include "base/yaml.h"

static const char cluster[] = "# a cluster\n"
                              "version: 1\n"
                              "links: {latency: 50us}\n"
                              "workers:\n"
                              "  - name: a\n"
                              "    speed: 2\n"
                              "  - name: b\n"
                              "    gpus: [0, 1]\n";

static muster_yaml *parse(const char *text)
{
    muster_yaml *yaml = NULL;
    muster_error error = {.text = ""};
    muster_status status =
        muster_yaml_parse(text, strlen(text), "c.yaml", &error, &yaml);
    if (status != MUSTER_OK) {
        fail_msg("%s", error.text);
    }
    return yaml;
}

static void nested_text_becomes_a_tree(void **state)
{
    (void)state;
    muster_yaml *yaml = parse(cluster);
    const muster_yaml_node *top = muster_yaml_top(yaml);
    assert_int_equal(top->kind, MUSTER_YAML_MAP);
    assert_int_equal(top->count, 3);
    assert_string_equal(muster_yaml_get(top, "version")->text, "1");
    assert_null(muster_yaml_get(top, "none"));
    const muster_yaml_node *workers = muster_yaml_get(top, "workers");
    assert_int_equal(workers->kind, MUSTER_YAML_LIST);
    assert_int_equal(workers->count, 2);
    assert_int_equal(workers->key_line, 4);
    assert_int_equal(workers->line, 5);
    assert_null(muster_yaml_get(workers, "name"));
    const muster_yaml_node *second = workers->first->next;
    assert_null(second->next);
    const muster_yaml_node *gpu = muster_yaml_get(second, "gpus")->first->next;
    assert_string_equal(gpu->text, "1");
    assert_int_equal(gpu->line, 8);
    char path[64];
    muster_yaml_path(gpu, path, sizeof(path));
    assert_string_equal(path, "workers[1].gpus[1]");
    muster_yaml_path(gpu, path, 10);
    assert_string_equal(path, "workers[1");
    muster_error error = {.text = ""};
    assert_int_equal(muster_yaml_refuse(yaml, gpu, "no", &error),
                     MUSTER_ERR_INVALID);
    assert_string_equal(error.text, "c.yaml:8: workers[1].gpus[1]: no");
    assert_int_equal(muster_yaml_refuse(yaml, top, "no", &error),
                     MUSTER_ERR_INVALID);
    assert_string_equal(error.text, "c.yaml:2: no");
    muster_yaml_free(yaml);
}

static void text_without_content_has_no_top(void **state)
{
    (void)state;
    static const char *const texts[] = {"", "# only this\n", "---\n"};
    for (size_t i = 0; i < 3; i++) {
        muster_yaml *yaml = parse(texts[i]);
        assert_null(muster_yaml_top(yaml));
        muster_yaml_free(yaml);
    }
    muster_yaml_free(NULL);
}

static void refused(const char *text, const char *expected)
{
    muster_yaml *yaml = NULL;
    muster_error error = {.text = ""};
    assert_int_equal(
        muster_yaml_parse(text, strlen(text), "c.yaml", &error, &yaml),
        MUSTER_ERR_INVALID);
    assert_null(yaml);
    if (strncmp(error.text, expected, strlen(expected)) != 0) {
        fail_msg("'%s' is not '%s'", error.text, expected);
    }
}

static void what_no_tree_takes_is_refused_with_its_line(void **state)
{
    (void)state;
    refused("a: 1\nb:\n  c: 1\n  c: 2\n", "c.yaml:4: b.c: given twice");
    refused("a: &x 1\nb: *x\n", "c.yaml:2: aliases are not supported");
    refused("a: 1\n---\nb: 2\n", "c.yaml:2: a second document");
    refused("a: 1\n[b]: 2\n", "c.yaml:2: a list does not belong here");
    refused("? {b: 1}\n: 2\n", "c.yaml:1: a mapping does not belong here");
    refused("a: \"x\\0y\"\n", "c.yaml:1: a value holds a zero byte");
    refused("a: [1, 2\n", "c.yaml:2: not YAML: ");
    char deep[64] = "";
    memset(deep, '[', MUSTER_YAML_DEPTH_MAX + 1);
    refused(deep, "c.yaml:1: nested too deep");
    static char many[16 * (MUSTER_YAML_KEYS_MAX + 1)];
    size_t used = 0;
    for (uint32_t i = 0; i <= MUSTER_YAML_KEYS_MAX; i++) {
        used +=
            (size_t)snprintf(many + used, sizeof(many) - used, "k%u: 1\n", i);
    }
    refused(many, "c.yaml:1025: too many keys");
}

static void every_allocation_may_fail(void **state)
{
    (void)state;
    muster_status status = MUSTER_ERR_NO_MEMORY;
    uint64_t allowed = 0;
    for (; status != MUSTER_OK; allowed++) {
        muster_yaml *yaml = NULL;
        muster_mem_fail_after(allowed);
        status =
            muster_yaml_parse(cluster, strlen(cluster), "c.yaml", NULL, &yaml);
        muster_mem_fail_after(UINT64_MAX);
        assert_true(status == MUSTER_OK || status == MUSTER_ERR_NO_MEMORY);
        muster_yaml_free(yaml);
    }
    assert_true(allowed > 20);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(nested_text_becomes_a_tree),
        cmocka_unit_test(text_without_content_has_no_top),
        cmocka_unit_test(what_no_tree_takes_is_refused_with_its_line),
        cmocka_unit_test(every_allocation_may_fail),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
