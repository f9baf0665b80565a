/*
 * hostile_buffers_test.c -- shared buffers that a peer passes: those that could
 * harm us are refused, and none costs memory or descriptors without end.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/resource.h>

#include "scene.h"

static int memfd(size_t bytes, int seals)
{
    int fd = memfd_create("test", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    assert_true(fd >= 0);
    assert_int_equal(ftruncate(fd, (off_t)bytes), 0);
    if (seals != 0) {
        assert_int_equal(fcntl(fd, F_ADD_SEALS, seals), 0);
    }
    return fd;
}

static const muster_frame shared_frame = {
    .kind = MUSTER_FRAME_MESSAGE,
    .flags =
        MUSTER_FRAME_PAYLOAD | MUSTER_FRAME_SHARED | MUSTER_FRAME_DESCRIPTOR,
    .slot = 3,
    .payload_bytes = 100000,
    .sequence = 1,
};

static void buffers_that_could_kill_us_are_refused(void **state)
{
    (void)state;
    const int fds[] = {
        memfd(100000, 0),                          // could shrink
        memfd(100000, F_SEAL_GROW),                // could shrink
        memfd(0, F_SEAL_SHRINK),                   // empty
        memfd((size_t)PAYLOAD_MAX, F_SEAL_SHRINK), // larger than announced
        open("/dev/null", O_RDONLY | O_CLOEXEC),   // no memory at all
    };
    for (size_t i = 0; i < sizeof(fds) / sizeof(fds[0]); i++) {
        scene *it = scene_open();
        put_hello(it->fd);
        put_frame(it->fd, &shared_frame, &fds[i], 1);
        close(fds[i]);
        expect_end(it, MUSTER_ERR_PROTOCOL, "not a sealed buffer");
        scene_close(it);
    }
    scene *it = scene_open();
    int small = memfd(4096, F_SEAL_SHRINK);
    put_hello(it->fd);
    put_frame(it->fd, &shared_frame, &small, 1);
    close(small);
    expect_end(it, MUSTER_ERR_PROTOCOL, "beyond its shared buffer");
    scene_close(it);
}

/* Pages of this process that are mapped shared and present. */
static long resident_shared(void)
{
    long total = 0;
    long resident = 0;
    long shared = 0;
    FILE *file = fopen("/proc/self/statm", "re");
    assert_non_null(file);
    assert_int_equal(fscanf(file, "%ld %ld %ld", &total, &resident, &shared),
                     3);
    fclose(file);
    return shared;
}

/* A file of holes costs memory only where somebody reads it. */
static void an_unread_buffer_costs_no_memory(void **state)
{
    (void)state;
    scene *it = scene_open();
    muster_frame frame = shared_frame;
    note what = {1, PAYLOAD_MAX, 0, 0};
    int holes = memfd(PAYLOAD_MAX, F_SEAL_SHRINK);
    frame.payload_bytes = PAYLOAD_MAX;
    frame.header_bytes = sizeof(what);
    put_hello(it->fd);
    drive(it->both, 2, &it->hub.ups, 2);
    it->hub.blind = true;
    const note small = {0, UINT64_MAX, 0, 0};
    const muster_frame first = {.kind = MUSTER_FRAME_MESSAGE,
                                .header_bytes = sizeof(small),
                                .sequence = 1};
    put_frame(it->fd, &first, NULL, 0);
    put(it->fd, &small, sizeof(small));
    drive(it->both, 2, &it->hub.messages, 1);
    long before = resident_shared();
    frame.sequence = 2;
    put_frame(it->fd, &frame, &holes, 1);
    put(it->fd, &what, sizeof(what));
    drive(it->both, 2, &it->hub.messages, 2);
    assert_in_range(resident_shared() - before + 64, 0, 128);
    close(holes);
    scene_close(it);
}

static void too_many_descriptors_are_refused(void **state)
{
    (void)state;
    scene *it = scene_open();
    int fds[16];
    int one = memfd(100000, F_SEAL_SHRINK);
    for (int i = 0; i < 16; i++) {
        fds[i] = one;
    }
    muster_frame plain = {.kind = MUSTER_FRAME_MESSAGE, .sequence = 1};
    put_hello(it->fd);
    drive(it->both, 2, &it->hub.ups, 2);
    put_frame(it->fd, &plain, fds, 16);
    expect_end(it, MUSTER_ERR_PROTOCOL, "too many descriptors");
    close(one);
    scene_close(it);
}

static void our_lack_of_descriptors_is_not_the_peers_fault(void **state)
{
    (void)state;
    scene *it = scene_open();
    int one = memfd(100000, F_SEAL_SHRINK);
    put_hello(it->fd);
    drive(it->both, 2, &it->hub.ups, 2);
    put_frame(it->fd, &shared_frame, &one, 1);
    struct rlimit usual;
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &usual), 0);
    struct rlimit none = {0, usual.rlim_max}; // open ones stay open
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &none), 0);
    drive(it->both, 2, &it->hub.downs, 1);
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &usual), 0);
    expect_end(it, MUSTER_ERR_PEER_LOST, "we are out of descriptors");
    close(one);
    scene_close(it);
}

/* Every shared payload asks for an acknowledgement; who does not read them
 * cannot make us keep them. */
static void a_peer_that_shares_and_does_not_read_is_refused(void **state)
{
    (void)state;
    scene *it = scene_open();
    int one = memfd(100000, F_SEAL_SHRINK);
    muster_frame frame = shared_frame;
    note what = {1, frame.payload_bytes, 0, 0};
    frame.header_bytes = sizeof(what);
    frame.flags |= MUSTER_FRAME_ACK_NOW;
    it->hub.blind = true;
    put_hello(it->fd);
    drive(it->both, 2, &it->hub.ups, 2);
    while (it->hub.downs == 0) {
        assert_in_range(frame.sequence, 0, 5000);
        put_frame(it->fd, &frame, &one, frame.sequence == 1);
        put(it->fd, &what, sizeof(what));
        frame.flags &= (uint8_t)~MUSTER_FRAME_DESCRIPTOR;
        frame.sequence++;
        assert_int_equal(muster_net_poll(it->hub.net, 0), MUSTER_OK);
    }
    assert_int_equal(it->hub.down_status, MUSTER_ERR_PROTOCOL);
    assert_non_null(strstr(it->hub.down_reason, "than we acknowledged"));
    close(one);
    scene_close(it);
}

int main(void)
{
    alarm(300); // a hang is a failure, too
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(buffers_that_could_kill_us_are_refused),
        cmocka_unit_test(an_unread_buffer_costs_no_memory),
        cmocka_unit_test(too_many_descriptors_are_refused),
        cmocka_unit_test(our_lack_of_descriptors_is_not_the_peers_fault),
        cmocka_unit_test(a_peer_that_shares_and_does_not_read_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
