/*
 * launch.c -- muster_launch() of muster/launch.h: one program, several times.
 *
 * One thread: it sleeps in poll() on two pipes a process and a signalfd. A
 * process leads a process group of its own, which gets the signals, so that
 * what it starts is ended with it.
 *
 * Invariants
 *   1. A line comes out whole, with its process's number; one that is longer
 *      than the buffer in pieces.
 *   2. After the first failure of a required process, all get SIGTERM once and
 *      SIGKILL GRACE_NS later; the first failure's code is the one told.
 */
#define _GNU_SOURCE
#include "muster/launch.h"

#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/log.h"
#include "base/mem.h"
#include "muster/key.h"

#define COUNT_MAX  1024u
#define LINE_BYTES 4096u
#define GRACE_NS   (5 * MUSTER_NS_PER_S)
#define PORT_FIRST 20000u
#define PORT_TRIES 200u

/* A pipe from one process, and what has come of its last line. */
typedef struct stream {
    int fd; // -1: at its end
    int to; // STDOUT_FILENO or STDERR_FILENO
    size_t length;
    char line[LINE_BYTES];
} stream;

typedef struct process {
    pid_t pid; // 0: has ended
    stream streams[2];
} process;

typedef struct launch {
    const muster_launch_opts *opts;
    process *all;
    struct pollfd *polled; // two a process, then the signals
    uint32_t running;
    uint32_t open_streams;
    int signals;
    sigset_t mask_before;
    int code;
    bool ending;
    bool killed;
    int64_t kill_ns;
    char folder[200]; // of the key; "": the key was there
    char key[216];
    char master[32];
} launch;

/* the key and the port ---------------------------------------------------- */

static muster_status make_key(launch *self, muster_error *error_out)
{
    const char *given = getenv("MUSTER_KEY_FILE");
    char text[MUSTER_KEY_TEXT_BYTES];
    if (given != NULL && given[0] != '\0') {
        return MUSTER_OK;
    }
    const char *own = getenv("XDG_RUNTIME_DIR");
    const char *parent = own != NULL && own[0] == '/' ? own : "/tmp";
    int length = snprintf(self->folder, sizeof(self->folder),
                          "%s/muster-launch-XXXXXX", parent);
    if (length >= (int)sizeof(self->folder) || mkdtemp(self->folder) == NULL) {
        self->folder[0] = '\0';
        return muster_error_set(error_out, MUSTER_ERR_SYSTEM,
                                "cannot make a folder in %s: %s", parent,
                                strerror(errno));
    }
    (void)snprintf(self->key, sizeof(self->key), "%s/run.key", self->folder);
    int fd = open(self->key, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC,
                  S_IRUSR | S_IWUSR);
    bool written = fd >= 0 && muster_key_make(text) == MUSTER_OK &&
                   write(fd, text, strlen(text)) == (ssize_t)strlen(text);
    if (fd >= 0) {
        (void)close(fd);
    }
    explicit_bzero(text, sizeof(text));
    return written ? MUSTER_OK
                   : muster_error_set(error_out, MUSTER_ERR_SYSTEM,
                                      "cannot write %s: %s", self->key,
                                      strerror(errno));
}

static bool is_port_free(uint32_t port)
{
    struct sockaddr_in at = {.sin_family = AF_INET,
                             .sin_port = htons((uint16_t)port),
                             .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    bool is_free =
        fd >= 0 && bind(fd, (const struct sockaddr *)&at, sizeof(at)) == 0;
    if (fd >= 0) {
        (void)close(fd);
    }
    return is_free;
}

/* As many ports in a row as there are processes: nodes have one each. */
static void choose_port(launch *self)
{
    uint32_t port = PORT_FIRST + (uint32_t)getpid() % 10000u;
    uint32_t in_row = 0;
    for (uint32_t i = 0;
         in_row < self->opts->count && i < PORT_TRIES + self->opts->count;
         i++) {
        in_row = is_port_free(port + i) ? in_row + 1 : 0;
        if (in_row == self->opts->count) {
            port += i + 1 - in_row;
        }
    }
    (void)snprintf(self->master, sizeof(self->master), "127.0.0.1:%u", port);
}

/* starting ---------------------------------------------------------------- */

static void set_number(const char *name, uint32_t value)
{
    char text[16];
    (void)snprintf(text, sizeof(text), "%u", value);
    (void)setenv(name, text, 1);
}

static _Noreturn void be_process(const launch *self, uint32_t rank,
                                 const int *ends)
{
    (void)prctl(PR_SET_PDEATHSIG, SIGTERM);
    (void)setpgid(0, 0);
    (void)sigprocmask(SIG_SETMASK, &self->mask_before, NULL);
    int none = open("/dev/null", O_RDONLY | O_CLOEXEC);
    (void)dup2(none, STDIN_FILENO);
    (void)dup2(ends[0], STDOUT_FILENO);
    (void)dup2(ends[1], STDERR_FILENO);
    set_number("MUSTER_RANK", rank);
    set_number("MUSTER_SIZE", self->opts->count);
    (void)setenv("MUSTER_MASTER", self->master, 1);
    if (self->folder[0] != '\0') {
        (void)setenv("MUSTER_KEY_FILE", self->key, 1);
    }
    (void)execvp(self->opts->argv[0],
                 (char *const *)(uintptr_t)self->opts->argv);
    (void)fprintf(stderr, "%s: %s\n", self->opts->argv[0], strerror(errno));
    _exit(errno == ENOENT ? 127 : 126);
}

static muster_status start(launch *self, uint32_t rank, muster_error *error_out)
{
    process *one = &self->all[rank];
    int out[2] = {-1, -1};
    int err[2] = {-1, -1};
    bool piped = pipe2(out, O_CLOEXEC) == 0 && pipe2(err, O_CLOEXEC) == 0;
    pid_t pid = piped ? fork() : -1;
    if (pid == 0) {
        const int ends[2] = {out[1], err[1]};
        be_process(self, rank, ends);
    }
    int failed = errno;
    (void)close(out[1]);
    (void)close(err[1]);
    if (pid < 0) {
        (void)close(out[0]);
        (void)close(err[0]);
        return muster_error_set(error_out, MUSTER_ERR_SYSTEM,
                                "cannot start process %u: %s", rank,
                                strerror(failed));
    }
    (void)setpgid(pid, pid); // whoever comes first
    one->pid = pid;
    one->streams[0].fd = out[0];
    one->streams[1].fd = err[0];
    self->running++;
    self->open_streams += 2;
    return MUSTER_OK;
}

/* output ------------------------------------------------------------------ */

static void put_line(const stream *from, uint32_t rank, size_t length)
{
    char label[16];
    int labelled = snprintf(label, sizeof(label), "[%u] ", rank);
    FILE *file = from->to == STDOUT_FILENO ? stdout : stderr;
    (void)fwrite(label, 1, (size_t)labelled, file);
    (void)fwrite(from->line, 1, length, file);
    (void)fputc('\n', file);
    (void)fflush(file);
}

/* Put out the whole lines; at the end also a line without its newline. */
static void put_lines(stream *from, uint32_t rank, bool at_end)
{
    for (;;) {
        char *newline = memchr(from->line, '\n', from->length);
        bool full = from->length == LINE_BYTES || (at_end && from->length > 0);
        if (newline == NULL && !full) {
            return;
        }
        size_t length =
            newline != NULL ? (size_t)(newline - from->line) : from->length;
        put_line(from, rank, length);
        size_t used = length + (newline != NULL);
        from->length -= used;
        memmove(from->line, from->line + used, from->length);
    }
}

static void read_stream(launch *self, stream *from, uint32_t rank)
{
    ssize_t got =
        read(from->fd, from->line + from->length, LINE_BYTES - from->length);
    if (got < 0 && (errno == EINTR || errno == EAGAIN)) {
        return;
    }
    from->length += got > 0 ? (size_t)got : 0;
    put_lines(from, rank, got <= 0);
    if (got <= 0) {
        (void)close(from->fd);
        from->fd = -1;
        self->open_streams--;
    }
}

/* the end ----------------------------------------------------------------- */

static void signal_all(const launch *self, int number)
{
    for (uint32_t i = 0; i < self->opts->count; i++) {
        if (self->all[i].pid > 0) {
            (void)kill(-self->all[i].pid, number);
        }
    }
}

static void note_end(launch *self, uint32_t rank, int status)
{
    int code =
        WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
    self->all[rank].pid = 0;
    self->running--;
    if (code == 0 || self->ending) {
        return;
    }
    muster_log(MUSTER_LOG_WARN, "process %u ended with %s %d", rank,
               WIFSIGNALED(status) ? "signal" : "exit code",
               WIFSIGNALED(status) ? WTERMSIG(status) : code);
    if (rank < self->opts->required_to) {
        self->code = code;
        self->ending = true;
        self->kill_ns = muster_clock_ns() + GRACE_NS;
        signal_all(self, SIGTERM);
    }
}

static void reap(launch *self)
{
    for (uint32_t i = 0; i < self->opts->count; i++) {
        int status = 0;
        if (self->all[i].pid > 0 &&
            waitpid(self->all[i].pid, &status, WNOHANG) == self->all[i].pid) {
            note_end(self, i, status);
        }
    }
}

/* Pass on what asks for the end; children are reaped in any case. */
static void take_signals(launch *self)
{
    struct signalfd_siginfo got;
    while (read(self->signals, &got, sizeof(got)) == (ssize_t)sizeof(got)) {
        if (got.ssi_signo != SIGCHLD) {
            signal_all(self, (int)got.ssi_signo);
            if (!self->ending) {
                self->ending = true;
                self->code = 128 + (int)got.ssi_signo;
                self->kill_ns = muster_clock_ns() + 2 * GRACE_NS;
            }
        }
    }
    reap(self);
}

static int wait_ms(const launch *self)
{
    if (!self->ending || self->killed) {
        // Who has the pipes of an ended process open is not waited for long.
        return self->running == 0 ? 100 : -1;
    }
    int64_t left_ns = self->kill_ns - muster_clock_ns();
    return left_ns > 0 ? (int)(left_ns / MUSTER_NS_PER_MS) + 1 : 0;
}

static void serve(launch *self)
{
    size_t count = self->opts->count;
    bool idle = false;
    while (self->running > 0 || (self->open_streams > 0 && !idle)) {
        for (size_t i = 0; i < 2 * count; i++) {
            self->polled[i] = (struct pollfd){
                .fd = self->all[i / 2].streams[i % 2].fd, .events = POLLIN};
        }
        self->polled[2 * count] =
            (struct pollfd){.fd = self->signals, .events = POLLIN};
        int ready = poll(self->polled, 2 * count + 1, wait_ms(self));
        idle = ready == 0;
        for (size_t i = 0; ready > 0 && i < 2 * count; i++) {
            if (self->polled[i].revents != 0) {
                read_stream(self, &self->all[i / 2].streams[i % 2],
                            (uint32_t)(i / 2));
            }
        }
        take_signals(self);
        if (self->ending && !self->killed &&
            muster_clock_ns() >= self->kill_ns) {
            self->killed = true;
            signal_all(self, SIGKILL);
        }
    }
}

static muster_status open_signals(launch *self, muster_error *error_out)
{
    sigset_t wanted;
    (void)sigemptyset(&wanted);
    (void)sigaddset(&wanted, SIGINT);
    (void)sigaddset(&wanted, SIGTERM);
    (void)sigaddset(&wanted, SIGHUP);
    (void)sigaddset(&wanted, SIGCHLD);
    (void)sigprocmask(SIG_BLOCK, &wanted, &self->mask_before);
    self->signals = signalfd(-1, &wanted, SFD_CLOEXEC | SFD_NONBLOCK);
    return self->signals >= 0 ? MUSTER_OK
                              : muster_error_set(error_out, MUSTER_ERR_SYSTEM,
                                                 "cannot wait for signals: %s",
                                                 strerror(errno));
}

static void finish(launch *self)
{
    if (self->signals >= 0) {
        (void)close(self->signals);
    }
    (void)sigprocmask(SIG_SETMASK, &self->mask_before, NULL);
    for (uint32_t i = 0; self->all != NULL && i < 2 * self->opts->count; i++) {
        if (self->all[i / 2].streams[i % 2].fd >= 0) {
            (void)close(self->all[i / 2].streams[i % 2].fd);
        }
    }
    if (self->folder[0] != '\0') {
        (void)unlink(self->key);
        (void)rmdir(self->folder);
    }
    muster_mem_free(self->all);
    muster_mem_free(self->polled);
}

static muster_status start_all(launch *self, muster_error *error_out)
{
    uint32_t count = self->opts->count;
    muster_status status = MUSTER_OK;
    self->all = muster_mem_array(count, sizeof(process));
    self->polled =
        muster_mem_array(2 * (size_t)count + 1, sizeof(struct pollfd));
    if (self->all == NULL || self->polled == NULL) {
        return muster_error_set(error_out, MUSTER_ERR_NO_MEMORY,
                                "no memory for %u processes", count);
    }
    for (uint32_t i = 0; i < 2 * count; i++) {
        self->all[i / 2].streams[i % 2].fd = -1;
        self->all[i / 2].streams[i % 2].to =
            i % 2 == 0 ? STDOUT_FILENO : STDERR_FILENO;
    }
    for (uint32_t i = 0; i < count && status == MUSTER_OK; i++) {
        status = start(self, i, error_out);
    }
    if (status != MUSTER_OK) { // those that run have to go
        signal_all(self, SIGKILL);
        self->ending = true;
        self->killed = true;
    }
    return status;
}

muster_status muster_launch(const muster_launch_opts *opts,
                            muster_error *error_out, int *code_out)
{
    if (opts->struct_size != sizeof(*opts) || opts->count < 1 ||
        opts->count > COUNT_MAX || opts->argv == NULL ||
        opts->argv[0] == NULL) {
        return muster_error_set(error_out, MUSTER_ERR_INVALID,
                                "launch: 1..%u processes of a program",
                                COUNT_MAX);
    }
    launch self = {.opts = opts, .signals = -1};
    muster_status status = open_signals(&self, error_out);
    if (status == MUSTER_OK) {
        status = make_key(&self, error_out);
    }
    if (status == MUSTER_OK) {
        choose_port(&self);
        status = start_all(&self, error_out);
        serve(&self);
    }
    finish(&self);
    *code_out = self.code;
    return status;
}
