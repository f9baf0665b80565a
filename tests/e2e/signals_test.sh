#!/usr/bin/env bash
# However a run ends, nothing is left running and nothing left behind: SIGINT
# and SIGTERM (exit 130), an impatient second SIGINT, SIGKILL of the
# coordinator (its workers die with it), a worker that dies by itself.
. "$(dirname "$0")/lib.sh"

export XDG_RUNTIME_DIR=$work/runtime
mkdir -m 700 "$XDG_RUNTIME_DIR"
endless="--data synthetic:samples=2000,features=20,classes=3 --steps 1000000000 --batch 100"

# start ARGS: an endless run on four workers that has begun to train.
start() {
    rm -rf "$work/run"
    # shellcheck disable=SC2086
    muster_in_background train $endless --local 4 --run "$work/run" "$@"
    wait_until 20 has_lines "$work/run/metrics.jsonl" 3 ||
        fail "training did not begin: $(cat "$work/err.bg")"
    wait_until 20 count_is 5 || fail "not 5 processes: $(marked)"
}

# ended CODE WHAT
ended() {
    wait_for "$pid"
    [ "$code" -eq "$1" ] || fail "$2: exit code $code, not $1: $(tail -n 3 "$work/err.bg")"
    wait_until 10 none_left || fail "$2: left running: $(marked)"
    [ -z "$(ls -A "$XDG_RUNTIME_DIR")" ] || fail "$2: left behind: $(ls "$XDG_RUNTIME_DIR")"
}

for signal in INT TERM; do
    start --code frc --stragglers 1
    kill -$signal "$pid"
    ended 130 "SIG$signal"
    says "$work/run/summary.json" '"steps"' || fail "SIG$signal: no summary"
    [ -n "$(ls -A "$work/run/checkpoint" 2> /dev/null)" ] || fail "SIG$signal: no checkpoint"
done

# A frozen worker cannot hold up the end.
start --code frc --stragglers 1 --stop 2@2
kill -INT "$pid"
ended 130 "SIGINT with a frozen worker"

# A second signal does not wait.
start --code frc --stragglers 1 --stop 2@2
kill -INT "$pid"
kill -INT "$pid" 2> /dev/null
ended 130 "two SIGINT"

# Orphans die.
start --code uncoded
kill -KILL "$pid"
wait_for "$pid" 2> /dev/null
wait_until 10 none_left || fail "orphans: $(marked)"
rm -rf "${XDG_RUNTIME_DIR:?}"/*

# A worker that dies by itself is named; uncoded then waits in vain: exit 4.
start --code uncoded --patience 1s
victim=$(marked | grep -vx "$pid" | head -n 1)
kill -USR1 "$victim"
ended 4 "a worker dies"
says "$work/err.bg" "(pid $victim) was ended by User defined signal 1" ||
    fail "the dead worker is not named: $(cat "$work/err.bg")"
says "$work/run/summary.json" '"steps"' || fail "exit 4: no summary"
finish
