#!/usr/bin/env bash
# What is wrong is said in one line that names the place, with the exit code of
# the table, and nothing is left running.
. "$(dirname "$0")/lib.sh"

synthetic="--data synthetic:samples=500,features=8,classes=3 --steps 5"

# complains CODE PATTERN ARGS
complains() {
    local code=$1 pattern=$2 lines
    shift 2
    expect "$code" "$@" || return
    lines=$(grep -c '^muster: ' "$work/err")
    [ "$lines" -eq 1 ] || fail "muster $*: $lines lines of error: $(cat "$work/err")"
    grep '^muster: ' "$work/err" | grep -qE -- "$pattern" ||
        fail "muster $*: the line does not say '$pattern': $(cat "$work/err")"
    none_left || fail "muster $*: left running: $(marked)"
}

# An idx file that announces 100 images of 28x28 and ends after one.
mkdir "$work/idx"
{
    printf '\x00\x00\x08\x03\x00\x00\x00\x64\x00\x00\x00\x1c\x00\x00\x00\x1c'
    head -c 784 /dev/zero
} > "$work/idx/train-images-idx3-ubyte"
{
    printf '\x00\x00\x08\x01\x00\x00\x00\x64'
    head -c 100 /dev/zero
} > "$work/idx/train-labels-idx1-ubyte"
complains 3 "train-images-idx3-ubyte" train --data "$work/idx" --local 2 --steps 5

printf '+1 1:0.5 2:1\n-1 1:0.5 x:2\n' > "$work/letters.libsvm"
complains 3 "letters.libsvm:2" train --data "$work/letters.libsvm" --model logistic --local 2

printf '+1 1:0.5 2:1\n-1 1:nan 2:2\n' > "$work/nan.libsvm"
complains 3 "nan.libsvm:2" train --data "$work/nan.libsvm" --model logistic --local 2

complains 3 "$work/none" train --data "$work/none" --local 2
# shellcheck disable=SC2086
{
complains 2 "stragler.*stragglers" train $synthetic --stragler 2
complains 2 "kill 99@5.*8 workers|8 workers.*" train $synthetic --local 8 --kill 99@5
complains 2 "." train $synthetic --local 8 --code nosuchcode
complains 2 "." train $synthetic --local 7 --code frc --stragglers 1
complains 2 "." train $synthetic --local 4 --stragglers 4
complains 2 "." train $synthetic --local 4 --model nosuchmodel
complains 2 "listen" train $synthetic --listen nowhere --workers 2
complains 1 "." train $synthetic --local 2 --run /proc/none
}

# A start that failed leaves the folder free for the next.
# shellcheck disable=SC2086
{
complains 1 "nowhere" train $synthetic --listen "unix:$work/nowhere/socket" \
    --workers 2 --run "$work/free"
expect 0 train $synthetic --local 2 --run "$work/free" --quiet
}
complains 2 "address|ADDRESS|connect" join

# An address means the same to both ends: 2 when it cannot be read, 3 for a host
# that does not exist, 1 for what the system refuses.
muster_in_background train $synthetic --workers 2 --listen 127.0.0.1:0 --patience 60s
wait_until 20 says "$work/err.bg" "muster join tcp:" || fail "no coordinator: $(cat "$work/err.bg")"
used=$(grep -o '127.0.0.1:[0-9]*' "$work/err.bg" | head -n 1)
expect 1 train $synthetic --workers 2 --listen "$used"
says "$work/err" "$used.*already in use; choose another port, or 0 for a free one" || fail "the port in use is not named: $(cat "$work/err")"
kill -TERM "$pid"
wait_for "$pid"
for address in 127.0.0.1:port 127.0.0.1:99999 "[::1:5" nothing; do
    complains 2 "$(printf %s "$address" | tr '[' .)" train $synthetic --workers 2 --listen "$address"
    complains 2 "$(printf %s "$address" | tr '[' .)" join "$address"
done
complains 3 "no-such-host.invalid" train $synthetic --workers 2 --listen no-such-host.invalid:7000
complains 3 "no-such-host.invalid" join no-such-host.invalid:7000
complains 1 "cannot join $used: .*refused" join "$used" --patience 0s
complains 1 "." join "unix:$work/nobody" --patience 0s

# A full disk: files may not grow beyond 8 KiB (SIGXFSZ is ignored, so writing
# fails with an error, as on a full disk).
(
    trap '' XFSZ
    ulimit -f 8
    # shellcheck disable=SC2086
    E2E_MARK=$mark timeout -k 5 "$limit" "$MUSTER_BIN" train $synthetic \
        --steps 20000 --local 2 --run "$work/full" 2> "$work/err" > /dev/null
)
code=$?
[ "$code" -eq 1 ] || fail "full disk: exit code $code, not 1: $(tail -n 3 "$work/err")"
says "$work/err" "^muster: .*$work/full/.*" || fail "full disk: no place named: $(tail -n 3 "$work/err")"
none_left || fail "full disk: left running: $(marked)"

# A full device as stdout.
# shellcheck disable=SC2086
E2E_MARK=$mark timeout -k 5 "$limit" "$MUSTER_BIN" train $synthetic --local 2 \
    --json > /dev/full 2> "$work/err"
code=$?
[ "$code" -eq 1 ] || fail "full stdout: exit code $code, not 1: $(cat "$work/err")"
finish
