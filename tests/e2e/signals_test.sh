#!/usr/bin/env bash
# However a run ends, nothing is left running and nothing left behind: SIGINT,
# SIGTERM and SIGHUP (exit 130), an impatient second SIGINT, SIGKILL of the
# coordinator (its workers die with it), a worker that dies by itself.
. "$(dirname "$0")/lib.sh"

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

for signal in INT TERM HUP; do
    start --code frc --stragglers 1
    kill -$signal "$pid"
    ended 130 "SIG$signal"
    says "$work/run/summary.json" '"steps"' || fail "SIG$signal: no summary"
    [ -n "$(ls -A "$work/run/checkpoint" 2> /dev/null)" ] || fail "SIG$signal: no checkpoint"
done

# A closed terminal hangs up twice; under nohup it does not count.
start --code frc --stragglers 1
kill -HUP "$pid"
kill -HUP "$pid" 2> /dev/null
ended 130 "two SIGHUP"
says "$work/run/summary.json" '"steps"' || fail "two SIGHUP: no summary"
trap '' HUP
start --code frc --stragglers 1
trap - HUP
kill -HUP "$pid"
lines=$(wc -l < "$work/run/metrics.jsonl")
wait_until 20 has_lines "$work/run/metrics.jsonl" $((lines + 1000)) ||
    fail "an ignored SIGHUP ended the run: $(cat "$work/err.bg")"
kill -INT "$pid"
ended 130 "SIGINT after an ignored SIGHUP"

# A last checkpoint that cannot be written is said, and is a failure: exit 1.
start --code frc --stragglers 1 --checkpoint-every 0
touch "$work/run/checkpoint"
kill -INT "$pid"
ended 1 "SIGINT without a checkpoint"
says "$work/err.bg" "^muster: .*$work/run/checkpoint" ||
    fail "the failed checkpoint is not named: $(cat "$work/err.bg")"
says "$work/err.bg" "interrupted" || fail "no word of the signal: $(cat "$work/err.bg")"

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

# A worker that dies by itself is named and started again, as often as
# --restart says, and training goes on.
start --code uncoded --restart 1
victim=$(marked | grep -vx "$pid" | head -n 1)
kill -USR1 "$victim"
wait_until 20 says "$work/err.bg" "worker [0-9] is back" || fail "not started again: $(cat "$work/err.bg")"
says "$work/err.bg" "(pid $victim) was ended by User defined signal 1" ||
    fail "the dead worker is not named: $(cat "$work/err.bg")"
says "$work/err.bg" "starting worker [0-9] again, time 1 of at most 1" ||
    fail "the new start is not told: $(cat "$work/err.bg")"
lines=$(wc -l < "$work/run/metrics.jsonl")
wait_until 20 has_lines "$work/run/metrics.jsonl" $((lines + 1000)) ||
    fail "no step after the new start: $(cat "$work/err.bg")"
kill -INT "$pid"
ended 130 "a worker was started again"

# With --restart 0 it is not; uncoded then waits in vain: exit 4.
start --code uncoded --patience 1s --restart 0
victim=$(marked | grep -vx "$pid" | head -n 1)
kill -USR1 "$victim"
ended 4 "a worker dies"
says "$work/err.bg" "(pid $victim) was ended by User defined signal 1" ||
    fail "the dead worker is not named: $(cat "$work/err.bg")"
says "$work/run/summary.json" '"steps"' || fail "exit 4: no summary"

# A fault on demand is not undone.
# shellcheck disable=SC2086
expect 4 train $endless --local 4 --patience 1s --kill 1@2
says "$work/err" "starting worker" && fail "--kill was undone: $(cat "$work/err")"
finish
