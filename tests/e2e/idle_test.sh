#!/usr/bin/env bash
# Sixteen connected workers that wait for a seventeenth only wake up for
# heartbeats, and do little then. Counted, not timed: how often a process went to
# sleep does not depend on what else runs on the machine, and neither does the
# time that it was given a core for.
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

# sleeps PID: how often its threads have gone to sleep by themselves.
sleeps() {
    awk '$1 == "voluntary_ctxt_switches:" { n += $2 } END { print n + 0 }' "/proc/$1"/task/*/status
}
# spent PID: nanoseconds that its threads have had a core.
spent() {
    cat "/proc/$1"/task/*/schedstat | awk '{ n += $1 } END { printf "%.0f\n", n }'
}
now_ms() { echo $(($(date +%s%N) / 1000000)); }
has_slept() { [ "$(now_ms)" -ge "$2" ] && [ "$(sleeps "$1")" -ge "$3" ]; }

[ -r /proc/self/schedstat ] || skip "this kernel does not count the time of a process"
count_is 17 || fail "not 17 processes: $(marked)"
declare -A slept_0 spent_0 at_0
for p in $(marked); do
    at_0[$p]=$(now_ms)
    slept_0[$p]=$(sleeps "$p")
    spent_0[$p]=$(spent "$p")
done
# A process beats four times in two seconds and hears its peers' beats as often.
# Each beat may wake it a few times; a loop that polls would do so all the time.
for p in $(marked); do
    wait_until 30 has_slept "$p" $((at_0[$p] + 2000)) $((slept_0[$p] + 4)) ||
        { fail "process $p does not beat"; continue; }
    sleeps=$(($(sleeps "$p") - slept_0[$p]))
    spent=$(($(spent "$p") - spent_0[$p]))
    beats=$((($(now_ms) - at_0[$p]) / 500 + 2))
    peers=1
    [ "$p" -eq "$pid" ] && peers=16
    [ "$sleeps" -le $((beats * (peers + 1) * 4)) ] ||
        fail "process $p: woke up $sleeps times in $beats beats of $peers peers"
    [ "$spent" -le $((sleeps * 5000000)) ] ||
        fail "process $p: $sleeps times awake took $spent ns"
    echo "process $p: $sleeps wake-ups in $beats beats, $((spent / 1000)) us"
done

# The seventeenth comes, and training runs.
E2E_MARK=$mark "$MUSTER_BIN" join "unix:$work/socket" 2> "$work/err.16" &
wait_for "$pid"
[ "$code" -eq 0 ] || fail "exit code $code: $(tail -n 3 "$work/err.bg")"
wait_until 10 none_left || fail "left running: $(marked)"
finish
