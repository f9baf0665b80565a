#!/usr/bin/env bash
# A run that was interrupted, or whose coordinator was killed, continues with
# --resume and ends like the uninterrupted one: bit by bit when it is uncoded,
# to 1e-5 when it is coded. Its metrics have every step once.
. "$(dirname "$0")/lib.sh"

# Few steps, each long enough that a run is not over before it is disturbed: on
# a busy machine every step waits for its turn several times.
steps=1500
job="--data synthetic:samples=1500,features=12,classes=3,seed=5 --steps $steps --batch 100 --lr 0.05 --checkpoint-every 300 --quiet"

# interrupted SIGNAL CODE RUN ARGS: start, signal midway, resume to the end.
interrupted() {
    local signal=$1 wanted=$2 folder=$3
    shift 3
    # shellcheck disable=SC2086
    muster_in_background train $job "$@" --run "$folder" --delay constant:delay=1ms
    wait_until 30 has_lines "$folder/metrics.jsonl" 400 ||
        fail "$folder: training did not begin: $(cat "$work/err.bg")"
    kill "-$signal" "$pid"
    wait_for "$pid" 2> /dev/null
    [ "$code" -eq "$wanted" ] || fail "$folder: exit code $code, not $wanted"
    wait_until 10 none_left || fail "$folder: left running: $(marked)"
    has_lines "$folder/metrics.jsonl" $steps && fail "$folder: it was over before the signal"
    expect 0 train --resume "$folder" --json
    loss=$(value loss < "$work/out")
    norm=$(value theta_norm < "$work/out")
    awk -F'[:,]' '{ if ($2 != NR - 1) bad = 1 } END { exit bad || NR != '$steps' }' \
        "$folder/metrics.jsonl" ||
        fail "$folder: metrics.jsonl does not have every step once"
    at_least "$(value wall_s < "$work/out")" \
        "$(awk -v ms="$(value mean < "$work/out")" 'BEGIN { print 0.999e-3 * ms * '$steps' }')" ||
        fail "$folder: wall_s is not that of $steps steps: $(cat "$work/out")"
    [ -s "$folder/model.safetensors" ] || fail "$folder: no model"
}

# shellcheck disable=SC2086
expect 0 train $job --local 2 --code uncoded --json --run "$work/plain"
loss_0=$(value loss < "$work/out")
norm_0=$(value theta_norm < "$work/out")
moved_0=$(value bytes_moved < "$work/out")

interrupted INT 130 "$work/int" --local 2 --code uncoded
[ "$loss $norm" = "$loss_0 $norm_0" ] || fail "SIGINT: $loss $norm, not $loss_0 $norm_0"
interrupted KILL 137 "$work/kill" --local 2 --code uncoded
[ "$loss $norm" = "$loss_0 $norm_0" ] || fail "SIGKILL: $loss $norm, not $loss_0 $norm_0"
for run in int kill; do
    cmp "$work/plain/model.safetensors" "$work/$run/model.safetensors" ||
        fail "$run: not the same model, bit by bit"
done
[ "$(sed -n '/parts_received/,/]/p' "$work/kill/summary.json" | grep -c "^ *$steps")" -eq 2 ] ||
    fail "parts_received is not that of $steps steps: $(cat "$work/kill/summary.json")"
# Both lives have sent all shards.
moved=$(value bytes_moved < "$work/kill/summary.json")
[ "$moved" -eq $((2 * moved_0)) ] || fail "kill: $moved bytes moved, not twice $moved_0"
interrupted KILL 137 "$work/coded" --local 4 --code frc --stragglers 1
close "$loss" "$loss_0" 1e-5 && close "$norm" "$norm_0" 1e-5 ||
    fail "coded: $loss $norm, not $loss_0 $norm_0"

# Workers that joined survive the coordinator and find the next one.
# shellcheck disable=SC2086
muster_in_background train $job --workers 2 --listen "unix:$work/socket" --run "$work/joined"
workers=()
for i in 0 1; do
    E2E_MARK=$mark "$MUSTER_BIN" join "unix:$work/socket" --worker $i --slow $i:1ms 2> "$work/err.$i" &
    workers+=($!)
done
wait_until 30 has_lines "$work/joined/metrics.jsonl" 400 || fail "joined: training did not begin"
kill -KILL "$pid"
wait_for "$pid" 2> /dev/null
count_is 2 || fail "the workers went with the coordinator: $(cat "$work"/err.[01])"
expect 0 train --resume "$work/joined" --json
[ "$(value loss < "$work/out") $(value theta_norm < "$work/out")" = "$loss_0 $norm_0" ] ||
    fail "joined: $(cat "$work/out")"
cmp "$work/plain/model.safetensors" "$work/joined/model.safetensors" ||
    fail "joined: not the same model, bit by bit"
for i in 0 1; do
    wait_for "${workers[$i]}"
    [ "$code" -eq 0 ] || fail "worker $i: exit code $code: $(cat "$work/err.$i")"
done

# A finished run says so, starts nobody and leaves its files as they are; what a
# kill at the very end took is written again.
cp "$work/int/summary.json" "$work/summary.before"
for missing in "" model.safetensors; do
    [ -z "$missing" ] || rm "$work/int/$missing"
    expect 0 train --resume "$work/int" --json &&
        { close "$(value loss < "$work/out")" "$loss_0" 1e-9 || fail "a finished run has another loss"; }
    says "$work/err" "run is complete: $steps of $steps steps; give a larger --steps to go on" ||
        fail "a finished run does not say so: $(cat "$work/err")"
    grep -q "interrupted" "$work/err" && fail "a finished run was interrupted: $(cat "$work/err")"
    [ -n "$missing" ] || cmp "$work/summary.before" "$work/int/summary.json" ||
        fail "the summary of a finished run was changed"
done
cmp "$work/plain/model.safetensors" "$work/int/model.safetensors" ||
    fail "the model of a finished run was not written again"
expect 0 train --resume "$work/int" --steps $((steps + 5)) --quiet
has_lines "$work/int/metrics.jsonl" $((steps + 5)) || fail "a finished run did not go on"

# Killed before its first checkpoint, a run starts again and says so.
# shellcheck disable=SC2086
muster_in_background train $job --local 2 --code uncoded --run "$work/early" --checkpoint-every 0 \
    --delay constant:delay=1ms
wait_until 30 has_lines "$work/early/metrics.jsonl" 100 || fail "early: training did not begin"
kill -KILL "$pid"
wait_for "$pid" 2> /dev/null
wait_until 10 none_left || fail "early: left running: $(marked)"
expect 0 train --resume "$work/early" --delay constant:delay=0s
says "$work/err" "$work/early/checkpoint: the run ended before its first checkpoint; it starts again" ||
    fail "early: not said: $(cat "$work/err")"
[ "$(wc -l < "$work/early/metrics.jsonl")" -eq $steps ] || fail "early: not $steps lines"
cmp "$work/plain/model.safetensors" "$work/early/model.safetensors" ||
    fail "early: not the same model, bit by bit"

# A folder is one run's: a second one is told so.
# shellcheck disable=SC2086
expect 2 train $job --local 2 --run "$work/int"
expect 3 train --resume "$work/nothing"
# config.json says into how many shards the data is cut; a folder of a release
# that did not cut it is read, and goes on with what is the default now.
# shellcheck disable=SC2086
expect 0 train $job --steps 300 --local 2 --code uncoded --run "$work/cut"
grep -q '"shards": 8' "$work/cut/config.json" || fail "config.json does not say 8 shards"
sed -i '/"shards"/d' "$work/cut/config.json"
expect 0 train --resume "$work/cut" --steps 320 --json
[ "$(value steps < "$work/out")" -eq 320 ] || fail "a folder without shards did not go on"
grep -q '"shards": 8' "$work/cut/config.json" || fail "the resumed run does not say its shards"

# What a run folder says is never written to: a path to write to belongs on the
# command line.
echo "mine" > "$work/mine"
for key in trace record-delays allow-model; do
    cp "$work/cut/config.json" "$work/config.saved"
    sed -i "s|^{|{ \"$key\": \"$work/mine\",|" "$work/cut/config.json"
    expect 3 train --resume "$work/cut" --steps 340
    says "$work/err" "config.json: $key: belongs on the command line, as --$key" ||
        fail "$key: $(cat "$work/err")"
    cp "$work/config.saved" "$work/cut/config.json"
done
[ "$(cat "$work/mine")" = mine ] || fail "a run folder had a file written"
mv "$work/cut/workers.jsonl" "$work/workers.saved"
ln -s "$work/made" "$work/cut/workers.jsonl"
ln -s "$work/mine" "$work/cut/summary.json.tmp"
expect 0 train --resume "$work/cut" --steps 340
[ -e "$work/made" ] && fail "a link of a run folder had a file made"
[ "$(cat "$work/mine")" = mine ] || fail "a link of a run folder had a file written"

finish
