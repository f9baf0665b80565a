#!/usr/bin/env bash
# Training and the parameter server over tcp:127.0.0.1, by each engine, with a
# run key and without: they end where a local run ends, also when a process is
# killed.
. "$(dirname "$0")/lib.sh"
local_theta 4

# coordinator OPTIONS..: in the background; sets $address.
coordinator() {
    # shellcheck disable=SC2086
    muster_in_background $job --workers 4 --listen 127.0.0.1:0 --patience 60s "$@"
    coordinator=$pid
    wait_until 20 says "$work/err.bg" "muster join tcp:127.0.0.1:" ||
        { fail "no coordinator: $(cat "$work/err.bg")"; return 1; }
    address=$(grep -o 'tcp:127.0.0.1:[0-9]*' "$work/err.bg" | head -n 1)
}

# workers OPTIONS..: four of them.
workers() {
    local i
    workers=()
    for i in 0 1 2 3; do
        "$MUSTER_BIN" join "$address" "$@" 2> "$work/err.$i" &
        workers+=($!)
    done
}

ended_well() {
    wait_for "$coordinator"
    [ "$code" -eq 0 ] || fail "coordinator: exit code $code: $(cat "$work/err.bg")"
    same_theta "$work/out.bg"
    wait_until 20 none_left || fail "left running: $(marked)"
}

trains() {
    coordinator "$@" || return
    workers "$@"
    ended_well
}

survives_a_kill() {
    local job="$job --steps 3000"
    local_theta 4
    coordinator "$@" --run "$work/kill" || return
    workers "$@"
    wait_until 30 has_lines "$work/kill/metrics.jsonl" 20 || fail "no step"
    kill -KILL "${workers[2]}"
    ended_well
    says "$work/err.bg" "worker [0-3] is lost" || fail "nobody was lost"
    rm -rf "$work/kill"
}

nodes() {
    local mesh rank pids=() one
    mesh=tcp:127.0.0.1:$(port_of "${#*}")
    for rank in 0 1 2; do
        # shellcheck disable=SC2086
        timeout "$limit" "$MUSTER_BIN" $ps_job --nodes 3 --mesh "$mesh" --node $rank "$@" \
            > "$work/out.n$rank" 2> "$work/err.n$rank" &
        pids+=($!)
    done
    for one in "${pids[@]}"; do
        wait "$one" || fail "exit code $?: $(tail -n 3 "$work"/err.n*)"
    done
    same_loss "$work/out.n0"
}

engines_must_match() {
    coordinator "$@" || return
    says "$work/err.bg" "trusted network" || fail "no warning: $(cat "$work/err.bg")"
    expect 5 join "$address"
    says "$work/err" "uses --engine ucx and we use sock" || fail "$(cat "$work/err")"
    workers "$@"
    ended_well
}

local_loss
key="--key-file $work/run.key"
# shellcheck disable=SC2086
{
    it "training over TCP with a key" trains $key
    it "training over TCP with a key, a worker killed" survives_a_kill $key
    it "parameter server over TCP with a key" nodes $key
    local_theta 4
    it "training by UCX" by_ucx trains
    it "training by UCX with a key" by_ucx trains $key
    it "training by UCX, a worker killed" by_ucx survives_a_kill
    local_theta 4
    it "engines must match" by_ucx engines_must_match
    it "parameter server by UCX" by_ucx nodes
    it "parameter server by UCX with a key" by_ucx nodes $key
}
finish
