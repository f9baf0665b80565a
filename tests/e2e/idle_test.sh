#!/usr/bin/env bash
# Sixteen connected workers that wait for a seventeenth use no measurable CPU.
. "$(dirname "$0")/lib.sh"

muster_in_background train --data synthetic:samples=1000,features=10,classes=2 \
    --steps 5 --listen "unix:$work/socket" --workers 17 --patience 120s --verbose
wait_until 20 says "$work/err.bg" "waiting for 17 workers" ||
    { fail "no coordinator: $(cat "$work/err.bg")"; finish; }
for i in $(seq 0 15); do
    E2E_MARK=$mark "$MUSTER_BIN" join "unix:$work/socket" --worker "$i" 2> "$work/err.$i" &
done
joined() { [ "$(grep -c 'worker [0-9]* is ready' "$work/err.bg")" -ge 16 ]; }
wait_until 30 joined || fail "not all joined: $(cat "$work/err.bg")"

# Clock ticks that all processes of the test have used.
ticks() {
    local sum=0 p stat
    for p in $(marked); do
        read -r stat < "/proc/$p/stat"
        # shellcheck disable=SC2086
        set -- ${stat##*) }
        sum=$((sum + ${12} + ${13}))
    done
    echo "$sum"
}
[ "$(marked | wc -l)" -eq 17 ] || fail "not 17 processes: $(marked)"
before=$(ticks)
sleep 3 # this is the measurement, not a wait
after=$(ticks)
# Heartbeats cost microseconds. Three seconds are 300 ticks of a core.
[ $((after - before)) -le 3 ] ||
    fail "17 idle processes used $((after - before)) ticks in 3 s"
echo "17 idle processes: $((after - before)) of 300 ticks of a core"

# The seventeenth comes, and training runs.
E2E_MARK=$mark "$MUSTER_BIN" join "unix:$work/socket" 2> "$work/err.16" &
wait_for "$pid"
[ "$code" -eq 0 ] || fail "exit code $code: $(tail -n 3 "$work/err.bg")"
wait_until 10 none_left || fail "left running: $(marked)"
finish
