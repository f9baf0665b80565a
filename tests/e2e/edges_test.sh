#!/usr/bin/env bash
# Edges as real processes: one message comes up per edge and step, a stopped
# edge and slow workers are not waited for, an edge that was killed comes back,
# a run is resumed, and the result is that of a run without edges.
. "$(dirname "$0")/lib.sh"

job="--data synthetic:samples=1600,features=20,classes=5,seed=3 --batch 160 --lr 0.1 --json"
edges="--topology 4x4 --code hier:se=1,sw=1"

# shellcheck disable=SC2086
expect 0 train $job --local 4 --steps 60
loss=$(value loss < "$work/out")
theta=$(value theta_norm < "$work/out")

same() {
    close "$(value loss < "$work/out")" "$loss" 1e-4 || fail "$1: another loss"
    close "$(value theta_norm < "$work/out")" "$theta" 1e-4 || fail "$1: another theta"
}

# shellcheck disable=SC2086
expect 0 train $job $edges --steps 60 --trace "$work/trace.json"
same calm
messages=$(value messages_up < "$work/out")
# Any two edges that hold all parts between them are enough for a step.
[ "$messages" -le 240 ] && [ "$messages" -ge 120 ] || fail "calm: $messages messages of 4 edges in 60 steps"
grep -q '"edge 3"' "$work/trace.json" || fail "the trace does not name edges"
grep -q '"worker 15"' "$work/trace.json" || fail "the trace does not name workers under edges"

# An edge is stopped, and one worker under each other edge is slow.
# shellcheck disable=SC2086
expect 0 train $job $edges --steps 60 --stop edge0@5 \
    --slow 5:200ms --slow 10:200ms --slow 15:200ms --run "$work/stopped"
same stopped
# The records know the workers under the edges.
grep -q '"edge":1,' "$work/stopped/workers.jsonl" || fail "workers.jsonl has no edges"
grep -q '"worker":7,' "$work/stopped/workers.jsonl" || fail "workers.jsonl has no workers under edges"
tr -d ' \n' < "$work/stopped/summary.json" > "$work/summary"
grep -q '"edges":\[{"id":0,' "$work/summary" || fail "summary.json has no edges"
grep -q '"workers":\[{"id":0,.*"edge":3}\]' "$work/summary" || fail "summary.json has no workers under edges"
grep -q '^edges:' "$work/stopped/cluster.yaml" || fail "cluster.yaml nests no edges: $(cat "$work/stopped/cluster.yaml")"
expect 0 plan --cluster "$work/stopped/cluster.yaml" --json
at_least 100 "$(value p50 < "$work/out")" || fail "stopped: steps of $(value p50 < "$work/out") ms"

# An edge is killed and returns; its workers wait for it. The delay makes steps
# long enough for it to be back before the end.
# shellcheck disable=SC2086
expect 0 train $job $edges --steps 60 --kill edge2@5 --rejoin edge2@10 --delay constant:delay=40ms
same killed
says "$work/err" 'edge 2 is lost' || fail "the loss is not told: $(cat "$work/err")"
says "$work/err" 'edge 2 is back' || fail "edge 2 did not come back: $(cat "$work/err")"

# Too many edges are lost: exit code 4, and a resumed run ends where the others
# did.
# shellcheck disable=SC2086
expect 4 train $job $edges --steps 60 --kill edge1@20 --kill edge2@20 --kill edge3@20 \
    --patience 1s --run "$work/run"
says "$work/err" 'edges are ready, too few' || fail "no reason: $(cat "$work/err")"
# Other faults than those that ended it.
expect 0 train --resume "$work/run" --kill edge0@40 --patience 20s --json
same resumed

# What cannot be is refused.
# shellcheck disable=SC2086
expect 2 train $job --topology 4x4 --code frc:s=1
# shellcheck disable=SC2086
expect 2 train $job $edges --kill edge4@5
# shellcheck disable=SC2086
expect 2 train $job --local 4 --kill edge0@5
# shellcheck disable=SC2086
expect 2 train $job $edges --local 3
expect 2 join 127.0.0.1:1 --as edge

# Edges and workers that join over TCP.
rm -f "$work"/err.edge*
# shellcheck disable=SC2086
muster_in_background train $job --topology 2x2 --code hier:se=1,sw=1 --steps 60 \
    --listen 127.0.0.1:0 --patience 30s
coordinator=$pid
wait_until 20 says "$work/err.bg" "muster join tcp:127.0.0.1:" ||
    { fail "no coordinator: $(cat "$work/err.bg")"; finish; }
address=$(grep -o 'tcp:127.0.0.1:[0-9]*' "$work/err.bg" | head -n 1)
members=()
for edge in 0 1; do
    E2E_MARK=$mark "$MUSTER_BIN" join "${address#tcp:}" --as edge --worker $edge --listen 127.0.0.1:0 \
        --patience 30s 2> "$work/err.edge$edge" &
    members+=($!)
    wait_until 20 says "$work/err.edge$edge" "muster join tcp:127.0.0.1:" ||
        { fail "edge $edge does not say where to join: $(cat "$work/err.edge$edge")"; finish; }
    below=$(grep -o 'tcp:127.0.0.1:[0-9]*' "$work/err.edge$edge" | head -n 1)
    for worker in 0 1; do
        E2E_MARK=$mark "$MUSTER_BIN" join "${below#tcp:}" --patience 30s 2> "$work/err.$edge$worker" &
        members+=($!)
    done
done
wait_for "$coordinator"
[ "$code" -eq 0 ] || fail "over TCP: exit code $code: $(cat "$work/err.bg" "$work"/err.edge*)"
cp "$work/out.bg" "$work/out"
same "over TCP"
for member in "${members[@]}"; do
    wait_for "$member"
    [ "$code" -eq 0 ] || fail "a member over TCP: exit code $code"
done
wait_until 10 none_left || fail "left running: $(marked)"
finish
