/*
 * sparse_nodes.c -- see sparse_nodes.h. Everything that exec needs is made
 * before fork.
 */
#define _GNU_SOURCE
#include "run/sparse_nodes.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/log.h"
#include "base/mem.h"

#define GO_BY_ITSELF_NS (2 * MUSTER_NS_PER_S)

enum { ARGUMENTS_MAX = 40 };

#define NODE_ROOM "0000000000" // the last argument is written over it

typedef struct arguments {
    char *text[ARGUMENTS_MAX + 1];
    size_t count;
    bool full;
} arguments;

static void add(arguments *args, const char *text)
{
    char *copy = args->count < ARGUMENTS_MAX ? muster_mem_string(text) : NULL;
    args->full = args->full || copy == NULL;
    if (copy != NULL) {
        args->text[args->count++] = copy;
    }
}

static void add_pair(arguments *args, const char *name, const char *value)
{
    add(args, name);
    add(args, value);
}

/* What a node must know to do the same task. */
static void fill(arguments *args, const muster_config *config,
                 const char *program)
{
    static const struct {
        muster_option option;
        const char *name;
    } same[] = {
        {MUSTER_OPT_MODEL, "model"},
        {MUSTER_OPT_DATA, "data"},
        {MUSTER_OPT_TEST, "test"},
        {MUSTER_OPT_EPOCHS, "epochs"},
        {MUSTER_OPT_OPTIMIZER, "optimizer"},
        {MUSTER_OPT_LR, "lr"},
        {MUSTER_OPT_L2, "l2"},
        {MUSTER_OPT_SEED, "seed"},
        {MUSTER_OPT_THREADS, "threads"},
        {MUSTER_OPT_NODES, "nodes"},
        {MUSTER_OPT_MANAGE, "manage"},
        {MUSTER_OPT_HEARTBEAT, "heartbeat"},
        {MUSTER_OPT_ON_LOSS, "on-loss"},
    };
    add(args, program);
    add(args, "train");
    for (size_t i = 0; i < sizeof(same) / sizeof(same[0]); i++) {
        char flag[32];
        if (muster_config_is_set(config, same[i].option)) {
            (void)snprintf(flag, sizeof(flag), "--%s", same[i].name);
            add_pair(args, flag, muster_config_get(config, same[i].name));
        }
    }
    add(args, "--quiet");
}

static void run_child(const arguments *args, const char *program, pid_t parent)
{
    (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent) {
        _exit(1);
    }
    (void)setpgid(0, 0);
    int null = open("/dev/null", O_RDWR | O_CLOEXEC);
    (void)dup2(null, STDIN_FILENO);
    (void)dup2(null, STDOUT_FILENO);
    (void)execv(program, args->text);
    _exit(127);
}

static muster_status spawn(const arguments *args, const char *program,
                           muster_local_nodes *nodes, uint32_t node,
                           muster_error *error_out)
{
    (void)snprintf(args->text[args->count - 1], sizeof(NODE_ROOM), "%u", node);
    pid_t parent = getpid();
    pid_t pid = fork();
    if (pid == 0) {
        run_child(args, program, parent);
    }
    if (pid < 0) {
        return muster_error_set(error_out, MUSTER_ERR_SYSTEM,
                                "cannot start node %u: %s", node,
                                strerror(errno));
    }
    nodes->pids[node] = pid;
    return MUSTER_OK;
}

static void forget(arguments *args)
{
    for (size_t i = 0; i < args->count; i++) {
        muster_mem_free(args->text[i]);
    }
}

/* Everything up to the node's number, which is the last. */
static muster_status prepare(arguments *args, const muster_config *config,
                             const char *program,
                             const muster_local_nodes *nodes, bool replace,
                             muster_error *error_out)
{
    const char *run = muster_config_string(config, MUSTER_OPT_RUN);
    bool resumed = muster_config_string(config, MUSTER_OPT_RESUME) != NULL;
    fill(args, config, program);
    if (run != NULL) {
        add_pair(args, resumed && !replace ? "--resume" : "--run", run);
    }
    if (replace) {
        add(args, "--replace");
    }
    add_pair(args, "--mesh", nodes->folder);
    add_pair(args, "--node", NODE_ROOM);
    return args->full ? muster_error_set(error_out, MUSTER_ERR_NO_MEMORY,
                                         "no memory to start nodes")
                      : MUSTER_OK;
}

muster_status muster_local_nodes_start(const muster_config *config,
                                       const char *program,
                                       muster_error *error_out,
                                       muster_local_nodes *nodes_out)
{
    const char *base = getenv("XDG_RUNTIME_DIR");
    muster_local_nodes *nodes = nodes_out;
    *nodes = (muster_local_nodes){
        .count = (uint32_t)muster_config_uint(config, MUSTER_OPT_NODES)};
    if (base == NULL || base[0] != '/' || strlen(base) > 40) {
        base = "/tmp";
    }
    (void)snprintf(nodes->folder, sizeof(nodes->folder), "%s/muster-XXXXXX",
                   base);
    if (mkdtemp(nodes->folder) == NULL) {
        muster_status failed = muster_error_set(error_out, MUSTER_ERR_SYSTEM,
                                                "%s: cannot make a folder: %s",
                                                nodes->folder, strerror(errno));
        nodes->folder[0] = '\0';
        return failed;
    }
    arguments args = {{NULL}, 0, false};
    muster_status status =
        prepare(&args, config, program, nodes, false, error_out);
    for (uint32_t i = 1; i < nodes->count && status == MUSTER_OK; i++) {
        status = spawn(&args, program, nodes, i, error_out);
    }
    forget(&args);
    if (status != MUSTER_OK) {
        muster_local_nodes_stop(nodes, 0);
    }
    return status;
}

static void tell_end(uint32_t node, int how)
{
    if (WIFSIGNALED(how)) {
        muster_log(MUSTER_LOG_WARN, "node %u was ended by signal %d", node,
                   WTERMSIG(how));
    } else if (WEXITSTATUS(how) != 0) {
        muster_log(MUSTER_LOG_WARN, "node %u ended with exit code %d", node,
                   WEXITSTATUS(how));
    }
}

bool muster_local_nodes_ended(muster_local_nodes *nodes, uint32_t node)
{
    int how = 0;
    if (nodes->pids[node] != 0 &&
        waitpid(nodes->pids[node], &how, WNOHANG) != 0) {
        tell_end(node, how);
        nodes->pids[node] = 0;
    }
    return nodes->pids[node] == 0;
}

/* A process that was given up: it may stand still, and would wake too late. */
static void end_now(muster_local_nodes *nodes, uint32_t node)
{
    int how = 0;
    if (!muster_local_nodes_ended(nodes, node)) {
        (void)kill(nodes->pids[node], SIGKILL);
        (void)waitpid(nodes->pids[node], &how, 0);
        nodes->pids[node] = 0;
    }
}

muster_status muster_local_nodes_replace(muster_local_nodes *nodes,
                                         const muster_config *config,
                                         const char *program, uint32_t node,
                                         muster_error *error_out)
{
    arguments args = {{NULL}, 0, false};
    end_now(nodes, node);
    muster_status status =
        prepare(&args, config, program, nodes, true, error_out);
    if (status == MUSTER_OK) {
        status = spawn(&args, program, nodes, node, error_out);
    }
    forget(&args);
    return status;
}

void muster_local_nodes_stop(muster_local_nodes *nodes, uint64_t lost)
{
    const struct timespec nap = {.tv_nsec = 5 * MUSTER_NS_PER_MS};
    int64_t end = muster_clock_ns() + GO_BY_ITSELF_NS;
    uint32_t left;
    do {
        left = 0;
        for (uint32_t i = 1; i < nodes->count; i++) {
            if ((lost >> i & 1) != 0 || muster_clock_ns() > end) {
                end_now(nodes, i);
            }
            left += !muster_local_nodes_ended(nodes, i);
        }
        (void)(left == 0 || nanosleep(&nap, NULL) == 0);
    } while (left > 0);
    if (nodes->folder[0] == '\0') {
        return;
    }
    for (uint32_t i = 0; i < nodes->count; i++) {
        char path[96];
        (void)snprintf(path, sizeof(path), "%s/node-%u", nodes->folder, i);
        (void)unlink(path);
    }
    (void)rmdir(nodes->folder);
    nodes->folder[0] = '\0';
}
