#!/usr/bin/env bash
# Codes of one's own program against the public headers: examples/code_sum.c
# gets the plain sum without the late workers, with a short message where the
# code splits it, and says so when too many are late.
. "$(dirname "$0")/lib.sh"
: "${MUSTER_BUILD:?set MUSTER_BUILD to the build folder}"

sums() {
    local wanted=$1
    shift
    timeout "$limit" "$MUSTER_BUILD/example_code_sum" "$@" > "$work/out" 2>&1 ||
        fail "example_code_sum $*: $(cat "$work/out")"
    grep -qE "$wanted" "$work/out" ||
        fail "example_code_sum $*: wanted '$wanted', got: $(cat "$work/out")"
}
small='error [0-9.]+e-0[5-9]'
sums "message 1000 of 1000 floats, exact, $small" frc:s=1 4 2
sums "message 334 of 1000 floats, exact, $small" ye-abbe-tuned:s=1,m=3 8 5
sums "message 1000 of 1000 floats, exact, $small" cyclic-mds:s=2 7 0 6
sums "inexact, error [0-9.]+e-0[0-2]" frc:s=1 4 2 3
"$MUSTER_BUILD/example_code_sum" frk:s=1 4 > "$work/out" 2>&1
[ $? = 2 ] || fail "a code that does not exist ended otherwise than with 2"
finish
