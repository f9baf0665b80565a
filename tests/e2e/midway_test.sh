#!/usr/bin/env bash
# A worker is killed while its answer of 16 MB arrives, which is decoded as it
# comes. The run goes on without it (frc), or waits for its return (uncoded), and
# ends with the bits of a run that nothing happened to.
. "$(dirname "$0")/lib.sh"

job="--data synthetic:samples=60,features=20000,classes=4,test=0 --model mlp:hidden=200 \
    --optimizer momentum --batch 30 --steps 10 --workers 2 --threads 1"

# The inodes of a process's sockets.
sockets_of() { find "/proc/$1/fd" -lname 'socket:*' -printf '%l\n' 2> /dev/null | tr -dc '0-9\n'; }

# An answer of worker 1 is on its way: what its end of the connection to the
# coordinator has written and the other end has not read. The coordinator reads
# 100 MB/s, so that takes a while.
answer_arrives() {
    sockets_of "${workers[1]}" | awk -v port="$(printf ':%04X' "${address##*:}")" '
        FNR == NR { mine[$1] = 1; next }
        $10 in mine && substr($3, 9) == port { split($5, q, ":"); if (q[1] >= "00020000") found = 1 }
        END { exit !found }' - /proc/net/tcp
}

start_worker() {
    E2E_MARK=$mark "$MUSTER_BIN" join "$address" --worker "$1" --threads 1 --quiet 2>> "$work/err.w$1" &
    workers[$1]=$!
}

has_said() { [ "$(grep -c "$1" "$work/err.bg")" -ge "$2" ]; }

# await WHAT CONDITION..: unless the run is over before.
await() {
    local what=$1
    shift
    wait_until 20 is_over_or "$@" || fail "$what: $(cat "$work/err.bg")"
}
is_over_or() { gone "$coordinator" || "$@"; }

# disturb FOLDER CODE..: a run in which worker 1 is killed twice, each time while
# an answer of it arrives; less often where the run is over before.
disturb() {
    local folder=$1 kills starts=0
    shift
    muster_in_background train $job "$@" --listen 127.0.0.1:0 --bandwidth 800 --patience 30s --run "$folder"
    coordinator=$pid
    wait_until 20 says "$work/err.bg" "muster join tcp:127.0.0.1:" ||
        { fail "no coordinator: $(cat "$work/err.bg")"; return; }
    address=$(grep -o 'tcp:127.0.0.1:[0-9]*' "$work/err.bg" | head -n 1)
    address=${address#tcp:}
    workers=()
    start_worker 0
    start_worker 1
    for kills in 1 2; do
        await "$*: no $((2 * kills)) steps" has_lines "$folder/metrics.jsonl" $((2 * kills))
        await "$*: worker 1 did not return" has_said "worker 1 is back" $((kills - 1))
        await "$*: no answer was seen on its way" answer_arrives
        gone "$coordinator" && break
        kill -KILL "${workers[1]}"
        await "$*: the dead worker is not named" has_said "worker 1 is lost" "$kills"
        gone "$coordinator" && break
        start_worker 1
        starts=$kills
    done
    wait_for "$coordinator"
    [ "$code" -eq 0 ] || fail "$*: exit code $code: $(cat "$work/err.bg")"
    # It may have come back too late to find anybody.
    has_said "worker 1 is back" "$starts" || kill -KILL "${workers[1]}"
}

# Of a message that was sent whole before the kill nothing is lost: then again.
for name in uncoded frc; do
    options="--code $name"
    [ "$name" = uncoded ] || options="$options --stragglers 1"
    expect 0 train $job $options --local 2 --quiet --run "$work/$name.alone"
    midway=0
    for try in 1 2 3 4 5; do
        disturb "$work/$name.$try" $options
        cmp "$work/$name.alone/model.safetensors" "$work/$name.$try/model.safetensors" ||
            fail "$options: another model than that of an undisturbed run"
        midway=$(grep -c "worker 1 is lost.* in the middle of a message" "$work/err.bg")
        [ "$midway" -eq 0 ] || break
    done
    [ "$midway" -gt 0 ] || fail "$options: no kill came in the middle of a message: $(cat "$work/err.bg")"
done
wait_until 10 none_left || fail "left running: $(marked)"
finish
