/*
 * crowd.c -- strangers at the door of a run.
 *
 * Usage: crowd PORT COUNT: so many connections to PORT of 127.0.0.1 that say
 * nothing and are made again as soon as they are ended. Says "calling" once all
 * have called, and ends when its standard input does.
 */
#include <stdio.h>
#include <stdlib.h>

#include "star_crowd.h"

int main(int argc, char **argv)
{
    char address[64];
    if (argc != 3) {
        fprintf(stderr, "usage: crowd PORT COUNT\n");
        return 2;
    }
    (void)snprintf(address, sizeof(address), "tcp:127.0.0.1:%.20s", argv[1]);
    long count = strtol(argv[2], NULL, 10);
    pid_t crowd =
        count > 0 && count < 100000 ? star_crowd_start(address, (int)count) : 0;
    if (crowd == 0) {
        fprintf(stderr, "crowd: not so many connections here\n");
        return 1;
    }
    printf("calling\n");
    (void)fflush(stdout);
    while (getchar() != EOF) {
    }
    star_crowd_stop(crowd);
    return 0;
}
