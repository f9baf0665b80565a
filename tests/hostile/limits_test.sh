#!/usr/bin/env bash
# Too few descriptors, processes, bytes of address space or of disk: the run
# says which limit it is and how much is needed, before it starts where that can
# be known, and with exit code 1. None hangs.
. "$(dirname "$0")/../e2e/lib.sh"
data=synthetic:samples=600,features=20,classes=2,seed=4
mf="--model mf:rank=8 --data zipf:rows=600,cols=200,cells=60000,rank=2"

# limited ULIMIT ARGS..: a run under `ulimit ULIMIT`; sets $code.
limited() {
    local limits=$1
    shift
    (
        # shellcheck disable=SC2086
        ulimit $limits && E2E_MARK=$mark exec timeout -k 5 "$limit" "$MUSTER_BIN" "$@"
    ) > "$work/out" 2> "$work/err" < /dev/null
    code=$?
    none_left || fail "ulimit $limits: left running: $(marked)"
}

# refused WORDS: it failed with code 1, before the first step, and said so.
refused() {
    [ "$code" -eq 1 ] || fail "exit code $code, not 1: $(tail -n 3 "$work/err")"
    says "$work/err" "$1" || fail "not named: $1: $(tail -n 3 "$work/err")"
}

limited "-n 30" train --data $data --local 8 --steps 5
refused 'this run needs 40 open files, and the limit is 30: raise it (`ulimit -n`)'
# shellcheck disable=SC2086
limited "-n 20" train $mf --nodes 3 --threads 1 --epochs 2
refused 'this run needs 26 open files, and the limit is 20: raise it (`ulimit -n`)'
limited "-S -n 30" train --data $data --local 8 --steps 5
[ "$code" -eq 0 ] || fail "a soft limit was not raised: $(tail -n 3 "$work/err")"

# A model of 800 kB.
wide=synthetic:samples=64,features=100000,classes=2,seed=4
limited "-f 100" train --data $wide --local 2 --steps 5 --run "$work/large"
refused "large: a checkpoint of this run has 781 kB, and files are limited to 100 kB"
# Not known in advance: the metrics.
limited "-f 8" train --data $data --local 2 --steps 20000 --run "$work/metrics"
refused 'metrics/.*: File too large (the limit on the size of files is 8192: `ulimit -f`)'

# Other limits need an ordinary user or an ordinary allocator.
if grep -q '__asan_init\|__tsan_init' "$MUSTER_BIN"; then
    echo "address space not limited: a sanitizer needs it"
else
    limited "-v 160000" train --data synthetic:samples=6400,features=2000,classes=2 --local 2 --steps 3
    refused 'BLAS needs [0-9]* kB of memory more'
    says "$work/err" 'the address space is limited to 160000 kB' || fail "no limit: $(cat "$work/err")"
    limited "-d 122880" train --data $data --local 2 --steps 3
    refused 'BLAS needs [0-9]* kB of memory more'
    says "$work/err" 'data is limited to 122880 kB; a larger `ulimit -d`' || fail "no limit: $(cat "$work/err")"
    limited "-d 400000" train --data $data --local 2 --steps 3
    [ "$code" -eq 0 ] || fail "a run in 400,000 kB of data: exit code $code: $(cat "$work/err")"
fi
if [ "$(id -u)" -eq 0 ] && command -v setpriv > /dev/null; then
    # As a user that has no process yet: 12 suffice for fewer than 4 workers.
    chmod 755 "$work" && mkdir -m 777 "$work/other"
    (
        ulimit -u 12
        XDG_RUNTIME_DIR=$work/other E2E_MARK=$mark exec setpriv --reuid 54321 --regid 54321 --clear-groups \
            timeout -k 5 "$limit" "$MUSTER_BIN" train --data $data --local 8 --threads 1 --steps 5
    ) > "$work/out" 2> "$work/err" < /dev/null
    code=$?
    refused 'this run needs 17 processes and threads more, the user has .*, and the limit is 12: raise it'
else
    echo "processes not limited: that needs root and setpriv"
fi
small=$work/small
if [ "$(id -u)" -eq 0 ] && mkdir "$small" && mount -t tmpfs -o size=1m none "$small" 2> /dev/null; then
    limited "-S -n 64" train --data $wide --local 2 --steps 5 --run "$small/run"
    refused 'checkpoints and model of this run need 3125 kB, and the disk has [0-9]* kB free'
    # shellcheck disable=SC2086
    limited "-S -n 64" train --model mf:rank=64 --data zipf:rows=6000,cols=2000,cells=6000,rank=2 --nodes 2 \
        --epochs 2 --run "$small/ps"
    refused 'checkpoints and model of this run need [0-9]* kB, and the disk has'
    # Filled up in the middle: named, and what was written before is whole.
    limited "-S -n 64" train --data $data --local 2 --steps 200000 --run "$small/steps" --checkpoint-every 50
    refused 'small/steps/.*: No space left on device'
    umount "$small"
elif [ "${CI:-}" = true ] && [ "$(id -u)" -eq 0 ]; then
    fail "CI as root cannot mount a tmpfs"
else
    echo "a small disk not tried: that needs root and mount"
fi
finish
