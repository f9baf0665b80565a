#!/usr/bin/env bash
# Workers that average with each other lose the process that leads the run: they
# end with exit code 4, and the run goes on from the models collected last.
. "$(dirname "$0")/lib.sh"
steps=600
job=(--data synthetic:samples=600,features=8,classes=3 --batch 60 --optimizer sgd
    --lr 0.3 --l2 0.01 --algorithm gossip:ring --steps $steps)

# As if nothing had happened.
expect 0 train "${job[@]}" --local 3 --json
loss=$(value loss < "$work/out")

# join_all SLEEP PATIENCE: three workers, each reached by the others at a socket
# of its own.
join_all() {
    local i
    workers=()
    for i in 0 1 2; do
        E2E_MARK=$mark "$MUSTER_BIN" join "unix:$work/socket" --listen "unix:$work/w$i" \
            --worker $i --slow "$i:$1" --patience "$2" 2> "$work/err.$i" &
        workers+=($!)
    done
}

muster_in_background train "${job[@]}" --workers 3 --listen "unix:$work/socket" \
    --run "$work/run" --checkpoint-every 50
join_all 1ms 1s
wait_until 30 has_lines "$work/run/metrics.jsonl" 200 ||
    fail "training did not begin: $(cat "$work/err.bg" "$work"/err.?)"
kill -KILL "$pid"
wait_for "$pid" 2> /dev/null
for i in 0 1 2; do
    wait_for "${workers[$i]}"
    [ "$code" -eq 4 ] || fail "worker $i: exit code $code, not 4: $(cat "$work/err.$i")"
    says "$work/err.$i" "its coordinator cannot be reached any more at unix:$work/socket" ||
        fail "worker $i does not say whom it lost: $(cat "$work/err.$i")"
done
wait_until 10 none_left || fail "left running: $(marked)"
has_lines "$work/run/metrics.jsonl" $steps && fail "it was over before the signal"

muster_in_background train --resume "$work/run" --json
join_all 0ms 60s
wait_for "$pid"
[ "$code" -eq 0 ] || fail "resumed: exit code $code: $(cat "$work/err.bg")"
close "$(value loss < "$work/out.bg")" "$loss" 0.01 ||
    fail "resumed: loss $(value loss < "$work/out.bg"), not $loss"
[ "$(wc -l < "$work/run/metrics.jsonl")" -eq $steps ] || fail "not $steps lines of metrics"
for i in 0 1 2; do
    wait_for "${workers[$i]}"
    [ "$code" -eq 0 ] || fail "worker $i: exit code $code: $(cat "$work/err.$i")"
done

# Who never came in has another reason to give up.
expect 1 join "unix:$work/nobody" --listen "unix:$work/w3" --patience 100ms
finish
