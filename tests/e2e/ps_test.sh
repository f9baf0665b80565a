#!/usr/bin/env bash
# Sparse tasks as a user runs them: threads and nodes lose no quality, a killed
# node is named and replaced, a killed lead ends all and can be resumed, options
# that mean nothing are refused.
. "$(dirname "$0")/lib.sh"

mf="--model mf:rank=8 --data zipf:rows=3000,cols=600,cells=100000,rank=4 --lr 0.02"

# learn ARGS: sets $rmse.
learn() {
    # shellcheck disable=SC2086
    expect 0 train $mf --json --quiet "$@" || return 1
    rmse=$(value rmse < "$work/out")
}

learn --epochs 8 || exit 1
one=$rmse
at_least 0.9 "$one" || fail "rmse $one: nothing was learnt"
for more in "--threads 2" "--nodes 2" "--nodes 3 --manage relocate"; do
    # shellcheck disable=SC2086
    learn --epochs 8 $more || continue
    at_least "$(awk "BEGIN { print $one * 1.08 }")" "$rmse" ||
        fail "$more: rmse $rmse, one node has $one"
done
for manage in replicate classic; do
    expect 0 train --model mf:rank=2 --data zipf:rows=40,cols=20,cells=300 \
        --epochs 2 --nodes 2 --threads 2 --manage $manage --json --quiet
done

# A run of several nodes says what its workers waited for.
# shellcheck disable=SC2086
expect 0 train $mf --epochs 2 --nodes 2 --run "$work/waits" --json
says "$work/err" 'workers waited [0-9.]* % of their time: rows of other nodes' ||
    fail "no line about waiting: $(tail -n 3 "$work/err")"
for name in wait_share wait_remote_share wait_barrier_share network_share sent_bytes; do
    at_least "$(value $name < "$work/out")" 0 || fail "$name is missing in the summary"
    grep -q "\"$name\"" "$work/waits/metrics.jsonl" || fail "$name is missing in metrics.jsonl"
done

# A node dies in the middle: the others name it and the run ends well. Rows
# move here: copies of this small a table are as old as several epochs.
# shellcheck disable=SC2086
muster_in_background train $mf --epochs 40 --nodes 3 --manage relocate --run "$work/kill" --json
wait_until 30 has_lines "$work/kill/metrics.jsonl" 3 || fail "no epoch was done"
kill -KILL "$(pgrep -P "$pid" | head -n 1)"
wait_for "$pid"
[ "$code" -eq 0 ] || fail "with a node killed: exit code $code: $(tail -n 3 "$work/err.bg")"
says "$work/err.bg" 'node [12] is lost' || fail "the lost node was not named"
at_least "$one" "$(value rmse < "$work/out.bg")" || fail "worse after a loss"

# The checkpoint serves another number of nodes.
expect 0 train --resume "$work/kill" --epochs 42 --nodes 1 --json --quiet &&
    { close "$(value epoch < "$work/out")" 42 0 || fail "resume did not go on"; }

# The lead dies: nobody is left, and the run can be taken up again.
# shellcheck disable=SC2086
muster_in_background train $mf --epochs 100000 --nodes 2 --run "$work/lead"
wait_until 30 has_lines "$work/lead/metrics.jsonl" 2 || fail "no epoch was done"
kill -KILL "$pid"
wait_for "$pid"
wait_until 5 none_left || fail "nodes outlive their lead"
folder=$(echo "$XDG_RUNTIME_DIR"/muster-*)
[ -d "$folder" ] || fail "a killed run has no folder of sockets: $folder"
touch -d '1 hour ago' "$folder" # the young might belong to a run that begins
more=$(($(wc -l < "$work/lead/metrics.jsonl") + 3))
expect 0 train --resume "$work/lead" --epochs $more --nodes 2 --json --quiet
[ -z "$(ls -A "$XDG_RUNTIME_DIR")" ] ||
    fail "the next start left the killed run's folder: $(ls "$XDG_RUNTIME_DIR")"

# A finished run says so, and its summary stays.
cp "$work/lead/summary.json" "$work/summary.before"
expect 0 train --resume "$work/lead" --json
says "$work/err" "run is complete: $more of $more epochs; give a larger --epochs to go on" ||
    fail "a finished run does not say so: $(cat "$work/err")"
cmp "$work/summary.before" "$work/lead/summary.json" || fail "the summary was changed"

# A signal ends the run after its checkpoint.
# shellcheck disable=SC2086
muster_in_background train $mf --epochs 100000 --nodes 2 --run "$work/stop"
wait_until 30 has_lines "$work/stop/metrics.jsonl" 2 || fail "no epoch was done"
kill -INT "$pid"
wait_for "$pid"
[ "$code" -eq 130 ] || fail "interrupted: exit code $code: $(tail -n 3 "$work/err.bg")"
wait_until 5 none_left || fail "nodes outlive an interrupted run"

# Word vectors: the files are written, and neighbours are found in them.
awk 'BEGIN { srand(3); for (i = 0; i < 400; i++) { s = "";
    for (j = 0; j < 9; j++) s = s sprintf("%s%d ", i % 2 ? "cat" : "tree", int(rand() * 5)); print s } }' > "$work/text"
expect 0 train --model skipgram:dim=12,min_count=1,subsample=0 --data "$work/text" \
    --epochs 5 --threads 2 --run "$work/words" --quiet
for vectors in "$work/words" "$work/words/vectors.bin"; do
    expect 0 neighbors "$vectors" cat1 --count 4 &&
        { [ "$(grep -c cat "$work/out")" -eq 4 ] || fail "$vectors: $(cat "$work/out")"; }
done
expect 3 neighbors "$work/words" dog
expect 2 neighbors "$work/words"

# One worker's resumed run is, byte for byte, the one that was not interrupted.
mkdir "$work/graph"
awk 'BEGIN { srand(5); for (i = 0; i < 900; i++)
    printf "e%d r%d e%d\n", int(rand() * 60), int(rand() * 5), int(rand() * 60) }' > "$work/graph/train.txt"
for task in "complex:dim=8,negatives=4,share=1 --data $work/graph" \
    "complex:dim=8,negatives=16,share=16 --data $work/graph" \
    "mf:rank=4 --data zipf:rows=300,cols=60,cells=10000,rank=4"; do
    rm -rf "$work/whole" "$work/halves"
    # shellcheck disable=SC2086
    expect 0 train --model $task --epochs 4 --run "$work/whole" --quiet
    # shellcheck disable=SC2086
    expect 0 train --model $task --epochs 2 --run "$work/halves" --quiet
    expect 0 train --resume "$work/halves" --epochs 4 --quiet
    cmp "$work/whole/model.safetensors" "$work/halves/model.safetensors" || fail "$task: resumed, it is another run"
done

# A run that ends in its first epoch, which is long, can be resumed.
muster_in_background train --model mf:rank=8 --data zipf:rows=3000,cols=1000,cells=600000,rank=2 \
    --epochs 100000 --nodes 2 --run "$work/early"
wait_until 30 test -e "$work/early/checkpoint/step-000000000000.safetensors" ||
    fail "no checkpoint before the first epoch"
kill -INT "$pid"
wait_for "$pid"
[ "$code" -eq 130 ] || fail "interrupted in the first epoch: exit code $code"
expect 0 train --resume "$work/early" --epochs 1 --nodes 1 --json --quiet

# A rate that blows up is an error, not a result.
expect 2 train --model mf:rank=8 --data zipf:rows=300,cols=60,cells=3000,rank=4 --optimizer sgd --lr 50 --epochs 3
grep -q "diverged" "$work/err" || fail "divergence is not said: $(tail -n 1 "$work/err")"

# What means nothing is refused.
expect 2 train --model mf --data zipf: --code frc
expect 2 train --model mf --data zipf: --manage sometimes
expect 2 train --model mf:rank=0 --data zipf:
expect 2 train --model softmax --data synthetic: --nodes 2
expect 3 train --model complex --data "$work"
finish
