# Helpers of the end-to-end tests; sourced. Real processes, loopback and Unix
# sockets only, every run bounded by timeout(1). Waiting is always for a
# condition, with a limit, never for a while.
set -uo pipefail
: "${MUSTER_BIN:?set MUSTER_BIN to the muster program}"

work=$(mktemp -d "${TMPDIR:-/tmp}/muster-e2e-XXXXXX")
mark=$(basename "$work")
limit=${E2E_LIMIT:-60}
failures=0
export NO_COLOR=1
# A coordinator that is killed cannot remove its socket: keep it in our folder.
export XDG_RUNTIME_DIR=$work/runtime
mkdir -m 700 "$XDG_RUNTIME_DIR"

# Pids of muster processes that this test started.
marked() {
    local environ pid
    for environ in $(grep -lsz "^E2E_MARK=$mark\$" /proc/[0-9]*/environ); do
        pid=${environ#/proc/}
        pid=${pid%/environ}
        [ "$(cat "/proc/$pid/comm" 2> /dev/null)" = muster ] && echo "$pid"
    done
    return 0
}

cleanup() {
    local pid
    for pid in $(marked); do
        kill -KILL "$pid" 2> /dev/null
    done
    rm -rf "$work"
}
trap cleanup EXIT

fail() {
    echo "FAIL: $*" >&2
    failures=$((failures + 1))
}

# A sanitizer's report in any process is a failure, whatever the exit code.
no_sanitizer_report() {
    ! grep -s "Sanitizer\|runtime error:" "$@" >&2 || fail "a sanitizer found something"
}

finish() {
    no_sanitizer_report "$work"/err*
    [ "$failures" -eq 0 ] || { echo "$failures checks failed" >&2; exit 1; }
    exit 0
}

skip() {
    echo "skipped: $*"
    exit 77
}

# muster ARGS: bounded and marked; stderr goes to $work/err as well.
muster() {
    E2E_MARK=$mark timeout -k 5 "$limit" "$MUSTER_BIN" "$@" 2> "$work/err"
}

# muster_in_background ARGS: sets $pid to the muster process itself.
muster_in_background() {
    rm -f "$work/out.bg" "$work/err.bg" # what the last one said is not of this one
    E2E_MARK=$mark "$MUSTER_BIN" "$@" > "$work/out.bg" 2> "$work/err.bg" &
    pid=$!
}

# expect CODE ARGS: the exit code of a run.
expect() {
    local wanted=$1 code
    shift
    muster "$@" > "$work/out"
    code=$?
    no_sanitizer_report "$work/err"
    if [ "$code" -ne "$wanted" ]; then
        fail "muster $*: exit code $code, not $wanted: $(tail -n 3 "$work/err")"
        return 1
    fi
}

# value KEY < JSON: the first value of a key.
value() {
    grep -o "\"$1\": *[^,}]*" | head -n 1 | sed 's/^[^:]*: *//; s/"//g'
}

# close A B TOLERANCE: relative difference within tolerance.
close() {
    awk -v a="$1" -v b="$2" -v t="$3" 'BEGIN {
        if (a == "" || b == "" || a != a + 0 || b != b + 0) exit 1
        d = a - b; if (d < 0) d = -d; m = b < 0 ? -b : b
        exit !(d <= t * m) }'
}

at_least() {
    awk -v a="$1" -v b="$2" 'BEGIN { exit !(a != "" && a + 0 == a && a >= b) }'
}

# wait_until SECONDS COMMAND..: polls a condition.
wait_until() {
    local tries=$(($1 * 50))
    shift
    while ! "$@"; do
        tries=$((tries - 1))
        [ "$tries" -gt 0 ] || return 1
        sleep 0.02
    done
}

none_left() { [ -z "$(marked)" ]; }
count_is() { [ "$(marked | wc -l)" -eq "$1" ]; }
has_lines() { [ "$(wc -l 2> /dev/null < "$1" || echo 0)" -ge "$2" ]; }
says() { grep -q -- "$2" "$1" 2> /dev/null; }
# Ended, whether or not we have waited for it.
gone() { ! grep -qs '^State:[[:space:]]*[^ZX[:space:]]' "/proc/$1/status"; }

# wait_for PID: sets $code to its exit code; a process that does not end within
# the limit is killed.
wait_for() {
    wait_until "$limit" gone "$1" || { fail "process $1 did not end"; kill -KILL "$1"; }
    wait "$1"
    code=$?
}
