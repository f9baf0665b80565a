/*
 * run_key.c -- see run_key.h and muster/key.h.
 */
#define _GNU_SOURCE
#include "net/run_key.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/error.h"
#include "muster/key.h"

#define DIGITS ((size_t)2 * MUSTER_RUN_KEY_BYTES)

_Static_assert(MUSTER_KEY_TEXT_BYTES == DIGITS + 2, "digits, newline, end");

muster_status muster_key_make(char *text_out)
{
    static const char digits[] = "0123456789abcdef";
    uint8_t bytes[MUSTER_RUN_KEY_BYTES];
    if (getrandom(bytes, sizeof(bytes), 0) != (ssize_t)sizeof(bytes)) {
        return MUSTER_ERR_SYSTEM;
    }
    for (size_t i = 0; i < sizeof(bytes); i++) {
        text_out[2 * i] = digits[bytes[i] >> 4];
        text_out[2 * i + 1] = digits[bytes[i] & 15];
    }
    text_out[DIGITS] = '\n';
    text_out[DIGITS + 1] = '\0';
    explicit_bzero(bytes, sizeof(bytes));
    return MUSTER_OK;
}

static int digit_value(char digit)
{
    if (digit >= '0' && digit <= '9') {
        return digit - '0';
    }
    if (digit >= 'a' && digit <= 'f') {
        return digit - 'a' + 10;
    }
    return digit >= 'A' && digit <= 'F' ? digit - 'A' + 10 : -1;
}

/* 64 digits, then nothing but white space. */
static bool parse_key(const char *text, size_t length, muster_run_key *out)
{
    if (length < DIGITS) {
        return false;
    }
    for (size_t i = 0; i < MUSTER_RUN_KEY_BYTES; i++) {
        int high = digit_value(text[2 * i]);
        int low = digit_value(text[2 * i + 1]);
        if (high < 0 || low < 0) {
            return false;
        }
        out->bytes[i] = (uint8_t)(high << 4 | low);
    }
    for (size_t i = DIGITS; i < length; i++) {
        if (strchr(" \t\r\n", text[i]) == NULL || text[i] == '\0') {
            return false;
        }
    }
    return true;
}

static muster_status check_private(int fd, const char *path,
                                   muster_error *error_out)
{
    struct stat about;
    if (fstat(fd, &about) != 0 || !S_ISREG(about.st_mode)) {
        return muster_error_set(error_out, MUSTER_ERR_INPUT,
                                "key file '%s': not a file", path);
    }
    if ((about.st_mode & 077) != 0) {
        return muster_error_set(error_out, MUSTER_ERR_INPUT,
                                "key file '%s': others can open it (mode "
                                "%04o); chmod 600 it",
                                path, (unsigned)about.st_mode & 07777);
    }
    return MUSTER_OK;
}

muster_status muster_run_key_read(const char *path, muster_error *error_out,
                                  muster_run_key *key_out)
{
    char text[DIGITS + 16];
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0) {
        return muster_error_set(error_out, MUSTER_ERR_INPUT,
                                "key file '%s': %s", path, strerror(errno));
    }
    muster_status status = check_private(fd, path, error_out);
    if (status == MUSTER_OK) {
        ssize_t got = read(fd, text, sizeof(text));
        muster_run_key key;
        if (got >= 0 && (size_t)got < sizeof(text) &&
            parse_key(text, (size_t)got, &key)) {
            *key_out = key;
        } else {
            status = muster_error_set(error_out, MUSTER_ERR_INPUT,
                                      "key file '%s': not 64 hexadecimal "
                                      "digits; `muster key` makes one",
                                      path);
        }
        explicit_bzero(&key, sizeof(key));
        explicit_bzero(text, sizeof(text));
    }
    (void)close(fd);
    return status;
}

muster_status muster_run_key_find(const char *path, muster_error *error_out,
                                  muster_run_key *key_out, bool *found_out)
{
    const char *named = path != NULL ? path : getenv("MUSTER_KEY_FILE");
    *found_out = named != NULL && named[0] != '\0';
    return *found_out ? muster_run_key_read(named, error_out, key_out)
                      : MUSTER_OK;
}
