#!/usr/bin/env bash
# Slow workers are named, with what they cost and what would help; delay models
# change the times and not the result; a trace is whole.
. "$(dirname "$0")/lib.sh"

job="--data synthetic:samples=1200,features=20,classes=5,seed=3 --batch 100 --lr 0.1 --json"

# classes: "0 active", .. of the summary in $work/out, by worker.
classes() {
    grep -o '"\(id\|class\)": *[^,]*' "$work/out" | sed 's/.*: *//; s/"//g' | paste - -
}
slow() { classes | awk '$2 == "slow" { print $1 }' | tr '\n' ' '; }

# shellcheck disable=SC2086
expect 0 train $job --local 6 --code uncoded --steps 60 --slow 4:40ms --trace "$work/trace.json"
loss_0=$(value loss < "$work/out")
[ "$(classes | wc -l)" -eq 6 ] || fail "not 6 workers: $(classes)"
[ "$(slow)" = "4 " ] || fail "slow: $(slow), not 4"
cost=$(sed -n 's/^worker 4 is slow: .* ms a step; that cost \([0-9.]*\) ms a step$/\1/p' "$work/err")
at_least "$cost" 35 || fail "the cost is not told: $(cat "$work/err")"
says "$work/err" '--code frc --stragglers 1 goes on without them' ||
    fail "no help: $(cat "$work/err")"
waited=$(value straggler_wait_ms < "$work/out")
at_least "$waited" 20 || fail "straggler_wait_ms $waited"

[ "$(tail -n 1 "$work/trace.json")" = "]" ] || fail "the trace has no end"
[ "$(grep -c '"decode and update"' "$work/trace.json")" -eq 60 ] || fail "not 60 steps in the trace"
[ "$(grep -c '"tid":5,"name":"compute"' "$work/trace.json")" -eq 60 ] || fail "worker 4 has not 60 steps"

# With a code nobody waits, nobody else is called slow, and the result stays.
# shellcheck disable=SC2086
expect 0 train $job --local 6 --code frc --stragglers 1 --steps 60 --slow 4:400ms \
    --delay constant:delay=5ms # so that the run takes longer than silence does to tell
[ "$(slow)" = "4 " ] || fail "frc: slow: $(slow), not 4"
close "$(value loss < "$work/out")" "$loss_0" 1e-4 || fail "frc: another loss"
step_ms=$(value p50 < "$work/out")
at_least 200 "$step_ms" || fail "frc: a step takes $step_ms ms"

# Delay models: the same result, later.
for model in constant:delay=4ms exponential:mean=4ms iid:p=0.9,delay=4ms \
    markov:stay-slow=0.9,stay-active=0.9,delay=4ms; do
    # shellcheck disable=SC2086
    expect 0 train $job --local 3 --code uncoded --steps 60 --delay $model
    close "$(value loss < "$work/out")" "$loss_0" 1e-4 || fail "$model: another loss"
    at_least "$(value mean < "$work/out")" 1.5 || fail "$model: no delay: $(cat "$work/out")"
done
printf '0,0,0.005\n0,1,0.006\n' > "$work/trace.csv"
# shellcheck disable=SC2086
expect 0 train $job --local 2 --code uncoded --steps 20 --delay "trace:file=$work/trace.csv"
at_least "$(value p50 < "$work/out")" 5.9 || fail "trace: $(value p50 < "$work/out") ms a step"
# shellcheck disable=SC2086
expect 2 train $job --local 2 --steps 20 --delay sometimes
# shellcheck disable=SC2086
expect 3 train $job --local 2 --steps 20 --delay "trace:file=$work/missing.csv"
# shellcheck disable=SC2086
expect 2 train $job --workers 2 --listen "unix:$work/s" --steps 20 --delay exponential:mean=4ms
expect 2 join "unix:$work/s" --delay exponential:mean=4ms
# shellcheck disable=SC2086
expect 1 train $job --local 2 --steps 20 --trace "$work/missing/trace.json"
none_left || fail "left running: $(marked)"
finish
