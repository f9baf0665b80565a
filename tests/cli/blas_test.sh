#!/usr/bin/env bash
# Where OpenBLAS does not know the processor, the program starts again with the
# kernels that the processor's instructions allow; who has chosen is left alone.
. "$(dirname "$0")/lib.sh"

! grep -q __asan_init "$MUSTER_BIN" && ! grep -q __tsan_init "$MUSTER_BIN" ||
    { echo "skipped: a sanitizer must be loaded first"; exit 77; }
unset OPENBLAS_CORETYPE

# has FLAG..: the processor has all of these.
has() {
    local flag
    for flag; do
        grep -m 1 '^flags' /proc/cpuinfo | grep -qw "$flag" || return 1
    done
}
wanted=Prescott
! has avx2 fma || wanted=Haswell
! has avx512f avx512cd avx512bw avx512dq avx512vl || wanted=SkylakeX

# kernels [CORE]: that the program ran with in the end.
kernels() {
    # shellcheck disable=SC2086
    env ${1:+OPENBLAS_CORETYPE=$1} LD_PRELOAD="$MUSTER_BUILD/old_core.so" \
        timeout -k 5 60 "$MUSTER_BIN" version 2>&1 > "$work/out" |
        sed -n 's/^kernels of //p' | tail -n 1
}

got=$(kernels)
[ "$got" = "$wanted" ] || fail "an unknown processor has kernels of $got, not of $wanted"
grep -q '^muster ' "$work/out" || fail "version printed $(cat "$work/out")"
got=$(kernels Core2)
[ "$got" = Core2 ] || fail "kernels of $got, not of Core2 as asked for"
finish
