#!/usr/bin/env bash
# One worker thread of a node of a parameter server stands still, wherever it
# happens to be; all others of the process go on. The node is named within the
# stated limit, five times --heartbeat and the silence that may come before it,
# and the others finish without it. The lead itself ends with exit code 4.
. "$(dirname "$0")/../e2e/lib.sh"
: "${MUSTER_BUILD:?set MUSTER_BUILD to the build folder}"
freezer=$MUSTER_BUILD/freeze_thread
[ -x "$freezer" ] || { fail "$freezer was not built"; finish; }
mf="--model mf:rank=8 --data zipf:rows=600,cols=200,cells=60000,rank=2 --optimizer adagrad --lr 0.2"

# freeze PID: one of its worker threads stands still from here on.
freeze() {
    rm -f "$work/frozen"
    "$freezer" "$1" ps-worker > "$work/frozen" 2> "$work/err.freezer" &
    freezing=$!
    wait_until 10 says "$work/frozen" frozen && return
    wait $freezing
    [ $? -ne 77 ] || skip "this system does not allow ptrace"
    fail "no thread of $1 was frozen: $(cat "$work/err.freezer")"
}

node() {
    local child
    for child in $(pgrep -P "$pid"); do
        tr '\0' '\n' < "/proc/$child/cmdline" 2> /dev/null | tail -n 1 |
            grep -qx "$1" && echo "$child"
    done
}

for threads in 1 2; do
    rm -rf "$work/run"
    # shellcheck disable=SC2086
    muster_in_background train $mf --epochs 100000 --nodes 3 --threads $threads --heartbeat 400ms \
        --on-loss degrade --run "$work/run"
    wait_until 30 has_lines "$work/run/metrics.jsonl" 2 || fail "no epoch was done"
    freeze "$(node 2)"
    wait_until 20 says "$work/err.bg" 'node 2 is lost' ||
        fail "$threads threads: node 2 was not named: $(tail -n 2 "$work/err.bg")"
    wait_until 10 says "$work/err.bg" 'going on with 2 of 3 nodes' || fail "the others do not go on"
    kill -INT "$pid"
    wait_for "$pid"
    [ "$code" -eq 130 ] || fail "exit code $code: $(tail -n 3 "$work/err.bg")"
    wait_until 5 none_left || fail "processes are left: $(marked)"
    wait $freezing
done

# shellcheck disable=SC2086
muster_in_background train $mf --epochs 100000 --nodes 2 --heartbeat 400ms --run "$work/lead"
wait_until 30 has_lines "$work/lead/metrics.jsonl" 2 || fail "no epoch was done"
freeze "$pid"
wait_for "$pid"
[ "$code" -eq 4 ] || fail "a lead that stands still: exit code $code: $(tail -n 3 "$work/err.bg")"
says "$work/err.bg" 'node 0 is lost' || fail "the lead was not named: $(tail -n 3 "$work/err.bg")"
wait_until 10 none_left || fail "nodes outlive the lead"
[ -z "$(ls "$XDG_RUNTIME_DIR")" ] || fail "left behind: $(ls "$XDG_RUNTIME_DIR")"
finish
