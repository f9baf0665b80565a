#!/usr/bin/env bash
# 2,000 strangers call a coordinator with a run key, say nothing, and call again
# when they are thrown out. The run goes on, a worker that died is replaced
# within 10 s, memory stays bounded, and the log is not flooded.
. "$(dirname "$0")/../e2e/lib.sh"
crowd=${MUSTER_BUILD:?}/crowd
[ -x "$crowd" ] || { fail "$crowd was not built"; finish; }
ulimit -n "$(ulimit -H -n)"
[ "$(ulimit -n)" = unlimited ] || [ "$(ulimit -n)" -ge 2200 ] ||
    skip "2,200 descriptors are needed, the limit is $(ulimit -n)"

resident() { awk '/^VmRSS/ { print $2 }' "/proc/$1/status"; }

"$MUSTER_BIN" key > "$work/run.key"
export MUSTER_KEY_FILE=$work/run.key
muster_in_background train --data synthetic:samples=3000,features=30,classes=4 \
    --steps 1000000 --batch 200 --code frc --stragglers 1 --workers 4 \
    --listen 127.0.0.1:0 --patience 60s --run "$work/run" --verbose
coordinator=$pid
wait_until 20 says "$work/err.bg" "muster join tcp:127.0.0.1:" ||
    { fail "no coordinator: $(cat "$work/err.bg")"; finish; }
address=$(grep -o 'tcp:127.0.0.1:[0-9]*' "$work/err.bg" | head -n 1)
workers=()
for i in 0 1 2 3; do
    E2E_MARK=$mark "$MUSTER_BIN" join "$address" --worker $i 2> "$work/err.$i" &
    workers+=($!)
done
wait_until 20 has_lines "$work/run/metrics.jsonl" 5 ||
    fail "training did not begin: $(cat "$work/err.bg")"
before=$(resident "$coordinator")

mkfifo "$work/door"
"$crowd" "${address##*:}" 2000 < "$work/door" > "$work/crowd" 2> "$work/err.crowd" &
exec 5> "$work/door"
wait_until 20 says "$work/crowd" calling || fail "no crowd: $(cat "$work/err.crowd")"
wait_until 20 says "$work/err.bg" "refused tcp:127.0.0.1:" ||
    fail "the strangers are not named: $(tail -n 3 "$work/err.bg")"
kill -KILL "${workers[1]}"
wait "${workers[1]}" 2> /dev/null
wait_until 20 says "$work/err.bg" 'worker 1 is lost' ||
    fail "the dead worker is not named: $(tail -n 3 "$work/err.bg")"
# What is promised: it gets in within 10 s. It gives up after that.
E2E_MARK=$mark "$MUSTER_BIN" join "$address" --patience 10s 2> "$work/err.new" &
workers[1]=$!
came_back() { says "$work/err.bg" 'worker 1 is back' || gone "${workers[1]}"; }
wait_until 60 came_back
says "$work/err.bg" 'worker 1 is back' ||
    fail "not in within 10 s: $(tail -n 3 "$work/err.bg" "$work/err.new")"
lines=$(wc -l < "$work/run/metrics.jsonl")
wait_until 20 has_lines "$work/run/metrics.jsonl" $((lines + 20)) ||
    fail "the run does not go on"
grown=$(($(resident "$coordinator") - before))
[ "$grown" -lt 131072 ] || fail "the coordinator grew by $grown KiB"
exec 5>&-

kill -TERM "$coordinator"
wait_for "$coordinator"
[ "$code" -eq 130 ] || fail "coordinator: exit code $code, not 130"
for i in 0 1 2 3; do
    wait_for "${workers[$i]}"
    [ "$code" -eq 0 ] || fail "worker process $i: exit code $code"
done
[ "$(grep -c 'refused tcp:' "$work/err.bg")" -lt 120 ] || fail "the log is flooded"
finish
