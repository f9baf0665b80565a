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
[ "$messages" -le 240 ] && [ "$messages" -ge 180 ] || fail "calm: $messages messages of 4 edges in 60 steps"
grep -q '"edge 3"' "$work/trace.json" || fail "the trace does not name edges"

# An edge is stopped, and one worker under each other edge is slow.
# shellcheck disable=SC2086
expect 0 train $job $edges --steps 60 --stop edge0@5 \
    --slow 5:200ms --slow 10:200ms --slow 15:200ms
same stopped
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
finish
