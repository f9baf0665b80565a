/*
 * slow_wire.c -- a wire between a worker and its coordinator that goes bad.
 *
 * Usage: slow_wire PORT TO HOW BYTES: listens at PORT of 127.0.0.1 and passes
 * what comes on to port TO of it, both ways. After BYTES from the worker,
 *     trickle   one byte passes every 100 ms
 *     cut       nothing passes any more, either way; nothing is closed
 * Connections after the first go bad at once. Ends with its parent.
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

enum { CHUNK = 4096, TRICKLE_MS = 100, NUMBER_BASE = 10 };

typedef struct wire {
    int worker;
    int coordinator;
    long left;   // bytes from the worker until it goes bad
    int trickle; // else it is cut
} wire;

static struct sockaddr_in at_port(const char *text)
{
    struct sockaddr_in at = {.sin_family = AF_INET};
    at.sin_port = htons((unsigned short)strtol(text, NULL, NUMBER_BASE));
    at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    return at;
}

static void nap(void)
{
    const struct timespec while_ns = {.tv_nsec = TRICKLE_MS * 1000000l};
    (void)nanosleep(&while_ns, NULL);
}

/* Pass on at most `most` bytes; 0: one end has closed. */
static int pass(int from, int to, size_t most)
{
    char bytes[CHUNK];
    ssize_t count = read(from, bytes, most < CHUNK ? most : CHUNK);
    ssize_t done = 0;
    while (done < count) {
        ssize_t some = write(to, bytes + done, (size_t)(count - done));
        if (some < 0) {
            return 0;
        }
        done += some;
    }
    return (int)count;
}

static void serve(wire *w)
{
    for (;;) {
        struct pollfd ends[2] = {{w->worker, POLLIN, 0},
                                 {w->coordinator, POLLIN, 0}};
        if (w->left <= 0 && !w->trickle) {
            (void)pause();
        }
        if (poll(ends, 2, -1) < 0) {
            return;
        }
        if (ends[1].revents != 0 &&
            pass(w->coordinator, w->worker, CHUNK) <= 0) {
            return;
        }
        if (ends[0].revents == 0) {
            continue;
        }
        int count = pass(w->worker, w->coordinator, w->left > 0 ? CHUNK : 1);
        if (count <= 0) {
            return;
        }
        w->left -= count;
        if (w->left <= 0) {
            nap();
        }
    }
}

int main(int argc, char **argv)
{
    if (argc != 5 || prctl(PR_SET_PDEATHSIG, SIGKILL) != 0) {
        fprintf(stderr, "usage: slow_wire PORT TO trickle|cut BYTES\n");
        return EXIT_FAILURE;
    }
    struct sockaddr_in here = at_port(argv[1]);
    struct sockaddr_in there = at_port(argv[2]);
    wire w = {.left = strtol(argv[4], NULL, NUMBER_BASE),
              .trickle = strcmp(argv[3], "trickle") == 0};
    int on = 1;
    int listener = socket(AF_INET, SOCK_STREAM, 0);
    (void)setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
    if (bind(listener, (struct sockaddr *)&here, sizeof(here)) != 0 ||
        listen(listener, 4) != 0) {
        perror("slow_wire");
        return EXIT_FAILURE;
    }
    (void)signal(SIGCHLD, SIG_IGN);
    (void)signal(SIGPIPE, SIG_IGN);
    (void)puts("listening");
    (void)fflush(stdout);
    for (;;) {
        w.worker = accept(listener, NULL, NULL);
        w.coordinator = socket(AF_INET, SOCK_STREAM, 0);
        if (connect(w.coordinator, (struct sockaddr *)&there, sizeof(there)) ==
                0 &&
            fork() == 0) {
            (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
            serve(&w);
            return EXIT_SUCCESS;
        }
        (void)close(w.worker);
        (void)close(w.coordinator);
        w.left = 0;
    }
}
