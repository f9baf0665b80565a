/*
 * hostile_key_test.c -- what can be done over TCP to a hub that has a run key:
 * by whoever has none, by crowds, and by one that has the key and lies.
 *
 * A friend with the key is connected all the while and must not notice.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <sys/resource.h>

#include "base/clock.h"
#include "muster/log.h"
#include "net/tls.h"
#include "scene.h"

#define CROWD 2000

static const muster_run_key the_key = {{7, 7, 7}};
static const muster_run_key other_key = {{7, 7, 8}};

static scene *locked_open(int64_t hello_timeout_ms)
{
    const scene_opts opts = {.listen_at = "tcp:127.0.0.1:0",
                             .hello_timeout_ms = hello_timeout_ms,
                             .key = &the_key};
    return scene_open_with(&opts);
}

static void plain_http_is_refused(void **state)
{
    (void)state;
    scene *it = locked_open(0);
    put(it->fd, "GET / HTTP/1.1\r\nHost: x\r\n\r\n", 27);
    expect_end(it, MUSTER_ERR_PROTOCOL, "not TLS");
    scene_close(it);
}

/* It gets a TLS alert, by which it can tell its user that a key is wanted. */
static void a_peer_without_a_key_is_told_so(void **state)
{
    (void)state;
    scene *it = locked_open(0);
    uint8_t alert[7];
    put_hello(it->fd);
    expect_end(it, MUSTER_ERR_REFUSED, "it has no run key");
    assert_int_equal(recv(it->fd, alert, sizeof(alert), MSG_WAITALL), 7);
    assert_int_equal(alert[0], MUSTER_TLS_ALERT_BYTE);
    scene_close(it);
}

static void another_runs_key_is_refused_at_both_ends(void **state)
{
    (void)state;
    scene *it = locked_open(0);
    muster_net_opts opts = MUSTER_NET_OPTS_INIT;
    opts.key = &other_key;
    node *stranger = calloc(1, sizeof(*stranger));
    node *all[] = {&it->hub, &it->friend, stranger};
    muster_peer peer = 0;
    node_open(stranger, &sock, &opts);
    assert_int_equal(
        muster_net_connect(stranger->net, it->hub.address, NULL, &peer),
        MUSTER_OK);
    drive(all, 3, &stranger->downs, 1);
    assert_int_equal(stranger->down_status, MUSTER_ERR_REFUSED);
    assert_non_null(strstr(stranger->down_reason, "another run key"));
    expect_end(it, MUSTER_ERR_REFUSED, "another run key");
    assert_int_equal(muster_net_count(it->hub.net).strangers, 1);
    node_close(stranger);
    free(stranger);
    scene_close(it);
}

/* The first flight of a handshake, as a peer with the key would send it. */
static size_t first_flight(uint8_t *bytes, size_t room)
{
    muster_tls_context *context = NULL;
    assert_int_equal(muster_tls_context_create(&the_key, NULL, &context),
                     MUSTER_OK);
    muster_tls *tls = muster_tls_create(context, false);
    size_t count = 0;
    assert_int_equal(muster_tls_step(tls, NULL), MUSTER_IN_PROGRESS);
    const uint8_t *out = muster_tls_out(tls, &count);
    assert_in_range(count, 1, room);
    memcpy(bytes, out, count);
    muster_tls_free(tls);
    muster_tls_context_free(context);
    return count;
}

static void half_a_handshake_is_given_up(void **state)
{
    (void)state;
    uint8_t bytes[2000];
    size_t count = first_flight(bytes, sizeof(bytes));
    scene *it = locked_open(0);
    put(it->fd, bytes, count / 2);
    drive_on(it->both, 2);
    close(it->fd);
    it->fd = -1;
    expect_end(it, MUSTER_ERR_PEER_LOST, "closed the connection");
    scene_close(it);
    it = locked_open(200);
    put(it->fd, bytes, count); // whole, and then nothing more
    expect_end(it, MUSTER_ERR_TIMED_OUT, "hello in time");
    scene_close(it);
}

/* Bytes do not buy time. */
static void a_handshake_byte_by_byte_runs_out_of_time(void **state)
{
    (void)state;
    uint8_t bytes[2000];
    size_t count = first_flight(bytes, sizeof(bytes));
    scene *it = locked_open(200);
    for (size_t i = 0; it->hub.downs == 0; i++) {
        ssize_t sent = send(it->fd, bytes + (i < count ? i : count - 1),
                            i < count, MSG_NOSIGNAL | MSG_DONTWAIT);
        (void)sent; // it may be over
        assert_int_equal(muster_net_poll(it->hub.net, 2000000), MUSTER_OK);
    }
    expect_end(it, MUSTER_ERR_TIMED_OUT, "hello in time");
    scene_close(it);
}

/* one that has the key ---------------------------------------------------- */

typedef struct insider {
    muster_tls_context *context;
    muster_tls *tls;
    int fd;
} insider;

static void insider_flush(insider *self)
{
    size_t bytes = 0;
    const uint8_t *out = muster_tls_out(self->tls, &bytes);
    if (bytes > 0) {
        put(self->fd, out, bytes);
        muster_tls_out_taken(self->tls, bytes);
    }
}

/* A bare peer that has proved the key. */
static insider insider_open(scene *it)
{
    insider self = {.fd = it->fd};
    assert_int_equal(muster_tls_context_create(&the_key, NULL, &self.context),
                     MUSTER_OK);
    self.tls = muster_tls_create(self.context, false);
    assert_non_null(self.tls);
    for (int turn = 0;
         turn < 1000 && muster_tls_step(self.tls, NULL) != MUSTER_OK; turn++) {
        insider_flush(&self);
        drive_on(it->both, 2);
        size_t room = 0;
        uint8_t *in = muster_tls_in_room(self.tls, &room);
        ssize_t got = recv(self.fd, in, room, MSG_DONTWAIT);
        muster_tls_in_added(self.tls, got > 0 ? (size_t)got : 0);
    }
    assert_true(muster_tls_is_ready(self.tls));
    insider_flush(&self);
    return self;
}

static void insider_close(insider *self)
{
    muster_tls_free(self->tls);
    muster_tls_context_free(self->context);
}

static void insider_say(insider *self, const void *bytes, size_t count)
{
    assert_true(muster_tls_write(self->tls, bytes, count));
    insider_flush(self);
}

static void insider_hello(insider *self)
{
    const muster_hello hello = {.version = MUSTER_PROTOCOL_VERSION};
    uint8_t bytes[MUSTER_HELLO_BYTES];
    muster_hello_write(&hello, bytes);
    insider_say(self, bytes, sizeof(bytes));
}

static void a_length_of_a_gigabyte_is_refused(void **state)
{
    (void)state;
    scene *it = locked_open(0);
    insider peer = insider_open(it);
    uint8_t bytes[MUSTER_FRAME_BYTES];
    const muster_frame frame = {.kind = MUSTER_FRAME_MESSAGE,
                                .flags = MUSTER_FRAME_PAYLOAD,
                                .payload_bytes = (uint64_t)1 << 30,
                                .sequence = 1};
    insider_hello(&peer);
    drive(it->both, 2, &it->hub.ups, 2);
    muster_frame_write(&frame, bytes);
    insider_say(&peer, bytes, sizeof(bytes));
    expect_end(it, MUSTER_ERR_PROTOCOL, "at most 262144");
    insider_close(&peer);
    scene_close(it);
}

static void whoever_says_hello_and_nothing_else_goes(void **state)
{
    (void)state;
    scene *it = locked_open(200);
    insider peer = insider_open(it);
    insider_hello(&peer);
    drive(it->both, 2, &it->hub.ups, 2);
    expect_end(it, MUSTER_ERR_TIMED_OUT, "no message in time");
    insider_close(&peer);
    scene_close(it);
}

static void rubbish_inside_tls_is_refused(void **state)
{
    (void)state;
    scene *it = locked_open(0);
    insider peer = insider_open(it);
    insider_say(&peer, "GET / HTTP/1.1\r\n\r\n", 18);
    expect_end(it, MUSTER_ERR_PROTOCOL, "not Muster's hello");
    insider_close(&peer);
    scene_close(it);
}

static void bytes_that_fail_the_check_end_it(void **state)
{
    (void)state;
    scene *it = locked_open(0);
    insider peer = insider_open(it);
    insider_hello(&peer);
    drive(it->both, 2, &it->hub.ups, 2);
    put(it->fd, "\x17\x03\x03\x00\x20 this is no record of this key...", 37);
    expect_end(it, MUSTER_ERR_PROTOCOL, "fail TLS's check");
    insider_close(&peer);
    scene_close(it);
}

/* a crowd ----------------------------------------------------------------- */

static long resident_pages(void)
{
    long total = 0;
    long resident = 0;
    FILE *file = fopen("/proc/self/statm", "re");
    assert_non_null(file);
    assert_int_equal(fscanf(file, "%ld %ld", &total, &resident), 2);
    fclose(file);
    return resident;
}

static void count_line(void *context, muster_log_level level, const char *line)
{
    (void)level;
    *(int *)context += strncmp(line, "refused ", 8) == 0;
}

/* As many descriptors as the crowd needs; returns how large it may be. */
static int raise_limit(void)
{
    struct rlimit limit;
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &limit), 0);
    rlim_t wanted = CROWD + 400;
    limit.rlim_cur = limit.rlim_max < wanted ? limit.rlim_max : wanted;
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &limit), 0);
    return (int)limit.rlim_cur - 400;
}

/* 2,000 connections that say nothing: a worker that returns gets in, the friend
 * is served, memory stays bounded, and the log is not flooded. */
static void two_thousand_silent_callers_keep_nobody_out(void **state)
{
    (void)state;
    int size = raise_limit();
    int *crowd = calloc((size_t)size, sizeof(int));
    scene *it = locked_open(0);
    node *worker = calloc(1, sizeof(*worker));
    node *all[] = {&it->hub, &it->friend, worker};
    muster_net_opts opts = MUSTER_NET_OPTS_INIT;
    muster_peer peer = 0;
    int lines = 0;
    long before = resident_pages();
    int64_t start_ns = muster_clock_ns();
    muster_log_to(count_line, &lines, MUSTER_LOG_WARN);
    opts.key = &the_key;
    node_open(worker, &sock, &opts);
    for (int i = 0; i < size; i++) {
        crowd[i] = bare_connect(it->hub.address);
        assert_int_equal(muster_net_poll(it->hub.net, 0), MUSTER_OK);
    }
    it->hub.echo = true;
    for (int turn = 0; turn < 100000 && it->hub.messages == 0; turn++) {
        if (peer == 0 || worker->downs > 0) { // made to give way: again
            worker->downs = 0;
            assert_int_equal(
                muster_net_connect(worker->net, it->hub.address, NULL, &peer),
                MUSTER_OK);
            assert_int_equal(node_say(worker, peer, 99), MUSTER_OK);
        }
        assert_int_equal(muster_net_poll(it->hub.net, 1000000), MUSTER_OK);
        drive_on(all, 3);
    }
    assert_int_equal(it->hub.numbers[0], 99);
    assert_int_equal(node_say(&it->friend, 1, 1), MUSTER_OK);
    drive(all, 3, &it->friend.messages, 1);
    it->hub.echo = false;
    assert_true(muster_net_count(it->hub.net).strangers >=
                (uint64_t)size - 200);
#if defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__)
    (void)before;
    print_message("memory not measured: a sanitizer keeps what was freed\n");
#else
    assert_in_range(resident_pages() - before + 256, 0, 16384); // 64 MiB
#endif
    node_close(worker);
    free(worker);
    for (int i = 0; i < size; i++) {
        close(crowd[i]);
    }
    free(crowd);
    scene_close(it);
    muster_log_to(NULL, NULL, MUSTER_LOG_WARN);
    int64_t seconds = (muster_clock_ns() - start_ns) / MUSTER_NS_PER_S;
    assert_in_range(lines, 1, seconds + 2); // and the sum at the end
}

int main(void)
{
    alarm(300); // a hang is a failure, too
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(plain_http_is_refused),
        cmocka_unit_test(a_peer_without_a_key_is_told_so),
        cmocka_unit_test(another_runs_key_is_refused_at_both_ends),
        cmocka_unit_test(half_a_handshake_is_given_up),
        cmocka_unit_test(a_handshake_byte_by_byte_runs_out_of_time),
        cmocka_unit_test(a_length_of_a_gigabyte_is_refused),
        cmocka_unit_test(whoever_says_hello_and_nothing_else_goes),
        cmocka_unit_test(rubbish_inside_tls_is_refused),
        cmocka_unit_test(bytes_that_fail_the_check_end_it),
        cmocka_unit_test(two_thousand_silent_callers_keep_nobody_out),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
