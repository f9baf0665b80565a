#!/usr/bin/env bash
# Workers that join by themselves over loopback TCP: one is killed, the run goes
# on, a spare that had been waiting takes its place, and all of them end with
# the run.
. "$(dirname "$0")/lib.sh"

rm -rf "$work/run"
muster_in_background train --data synthetic:samples=3000,features=30,classes=4 \
    --steps 1000000 --batch 200 --code frc --stragglers 1 --workers 4 \
    --listen 127.0.0.1:0 --patience 60s --run "$work/run" --verbose
coordinator=$pid
wait_until 20 says "$work/err.bg" "muster join tcp:127.0.0.1:" ||
    { fail "no coordinator: $(cat "$work/err.bg")"; finish; }
address=$(grep -o 'tcp:127.0.0.1:[0-9]*' "$work/err.bg" | head -n 1)

workers=()
for i in 0 1 2 3; do
    E2E_MARK=$mark "$MUSTER_BIN" join "${address#tcp:}" 2> "$work/err.$i" &
    workers+=($!)
done
wait_until 20 has_lines "$work/run/metrics.jsonl" 5 ||
    fail "training did not begin: $(cat "$work/err.bg")"

for i in 0 1 2 3; do
    says "$work/err.$i" "^joined ${address#tcp:} as worker [0-3] of 4$" ||
        fail "worker process $i does not say that it joined: $(cat "$work/err.$i")"
done

# One more than there are places: it waits.
E2E_MARK=$mark "$MUSTER_BIN" join "$address" 2> "$work/err.spare" &
spare=$!
wait_until 20 says "$work/err.spare" "^${address#tcp:}: .*; trying again for 60 s$" ||
    fail "the spare does not say why it waits: $(cat "$work/err.spare")"

kill -KILL "${workers[1]}"
wait_until 20 says "$work/err.bg" 'worker [0-9]* is lost' ||
    fail "the dead worker is not named: $(cat "$work/err.bg")"
lost=$(grep -o 'worker [0-9]* is lost' "$work/err.bg" | head -n 1 | grep -o '[0-9]*')
lines=$(wc -l < "$work/run/metrics.jsonl")
wait_until 20 has_lines "$work/run/metrics.jsonl" $((lines + 5)) ||
    fail "the run did not go on"
workers[1]=$spare
wait_until 20 says "$work/err.bg" "worker $lost is back" ||
    fail "the spare did not count: $(cat "$work/err.bg")"

kill -TERM "$coordinator"
wait_for "$coordinator"
[ "$code" -eq 130 ] || fail "coordinator: exit code $code, not 130"
for i in 0 1 2 3; do
    wait_for "${workers[$i]}"
    [ "$code" -eq 0 ] || fail "worker process $i: exit code $code: $(cat "$work/err.$i" "$work/err.spare")"
done
wait_until 10 none_left || fail "left running: $(marked)"
says "$work/err.spare" "^joined ${address#tcp:} as worker $lost of 4$" ||
    fail "the spare does not say that it joined: $(cat "$work/err.spare")"

# A coordinator says which workers are missing, and an address that other
# machines can use.
muster_in_background train --data synthetic:samples=300,features=5,classes=3 \
    --steps 10 --workers 3 --listen 0.0.0.0:0 --insecure --patience 60s
coordinator=$pid
wait_until 20 says "$work/err.bg" "muster join tcp:" ||
    fail "no coordinator: $(cat "$work/err.bg")"
says "$work/err.bg" "muster join tcp:0.0.0.0" && fail "0.0.0.0 is no address to join"
address=$(grep -o 'muster join tcp:.*' "$work/err.bg")
for i in 0 2; do
    E2E_MARK=$mark "$MUSTER_BIN" join "127.0.0.1:${address##*:}" --worker $i 2> "$work/err.$i" &
    workers[i]=$!
done
wait_until 20 says "$work/err.bg" "^2 of 3 workers are ready; missing: 1$" ||
    fail "it does not say who is missing: $(cat "$work/err.bg")"
expect 0 join "127.0.0.1:${address##*:}"
wait_for "$coordinator"
[ "$code" -eq 0 ] || fail "coordinator: exit code $code, not 0: $(cat "$work/err.bg")"
for i in 0 2; do
    wait_for "${workers[$i]}"
done
finish
