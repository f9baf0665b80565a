#!/usr/bin/env bash
# The coordinator's memory does not grow with the steps: from the first sight of
# step 50 to the last step of 1,000 with 16 workers, one of them always late,
# less than 2 MB.
. "$(dirname "$0")/lib.sh"

! grep -q __asan_init "$MUSTER_BIN" && ! grep -q __tsan_init "$MUSTER_BIN" ||
    skip "a sanitizer keeps freed memory"

resident_kb() { awk '/^VmRSS:/ { print $2 }' "/proc/$pid/status" 2> /dev/null; }

muster_in_background train --data synthetic:samples=3000,features=100,classes=10 --steps 1000 \
    --batch 200 --local 16 --code frc --stragglers 1 --slow 5:50ms \
    --delay exponential:mean=1ms --run "$work/run" --checkpoint-every 100 --trace "$work/trace.json"
wait_until 40 has_lines "$work/run/metrics.jsonl" 50 || fail "no 50 steps: $(cat "$work/err.bg")"
first=$(resident_kb)
last=$first
samples=0
while ! gone "$pid" && ! has_lines "$work/run/metrics.jsonl" 900; do
    now=$(resident_kb)
    [ -z "$now" ] || { last=$now; samples=$((samples + 1)); }
    sleep 0.05
done
wait_for "$pid"
[ "$code" -eq 0 ] || fail "exit code $code: $(tail -n 3 "$work/err.bg")"
[ "$samples" -ge 5 ] || fail "only $samples samples: the run was over too soon"
[ $((last - first)) -lt 2048 ] || fail "grew from $first KB to $last KB"
echo "from $first KB to $last KB in $samples samples"
finish
