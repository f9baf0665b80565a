#!/usr/bin/env bash
# With a small address space (ulimit -v) commands work, or say which limit is
# in the way; none hangs.
. "$(dirname "$0")/lib.sh"

! grep -q __asan_init "$MUSTER_BIN" && ! grep -q __tsan_init "$MUSTER_BIN" ||
    { echo "skipped: a sanitizer needs address space"; exit 77; }

# limited KB ARGS: as run, with this limit.
limited() {
    local kb=$1
    shift
    (
        ulimit -v "$kb"
        exec timeout -k 5 60 "$MUSTER_BIN" "$@"
    ) > "$work/out" 2> "$work/err" < /dev/null
    code=$?
}

# In 100,000 kB a BLAS thread for each core finds no room; none is needed.
limited 100000 version
[ "$code" -eq 0 ] || fail "version in 100,000 kB: exit code $code: $(cat "$work/err")"
grep -q '^muster ' "$work/out" || fail "version in 100,000 kB: $(cat "$work/out")"

# With too little for the data, the limit is named.
limited 300000 train --data synthetic:samples=1000000,features=1000,classes=2 --steps 1
[ "$code" -eq 1 ] || fail "too much data: exit code $code, not 1: $(cat "$work/err")"
grep -q 'limited to 300000 kB; a larger `ulimit -v`' "$work/err" ||
    fail "the limit is not named: $(cat "$work/err")"
finish
