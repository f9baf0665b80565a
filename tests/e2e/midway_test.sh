#!/usr/bin/env bash
# A worker is killed while its answer of 8 MB arrives, which is decoded as it
# comes. The run goes on without it (frc), or waits for its return (uncoded), and
# ends with the bits of a run that nothing happened to.
. "$(dirname "$0")/lib.sh"

job="--data synthetic:samples=60,features=20000,classes=4,test=0 --model mlp:hidden=100 \
    --optimizer momentum --batch 30 --steps 10 --workers 2 --threads 1"

# An answer is on its way: what a worker's end of a connection has written and
# the other end has not read. The coordinator reads 100 MB/s, so that takes a
# while.
answer_arrives() {
    awk -v port="$(printf ':%04X' "${address##*:}")" '
        substr($3, 9) == port { split($5, q, ":"); if (length(q[1]) && q[1] >= "00020000") found = 1 }
        END { exit !found }' /proc/net/tcp
}

start_worker() {
    E2E_MARK=$mark "$MUSTER_BIN" join "$address" --worker "$1" --threads 1 --quiet 2>> "$work/err.w$1" &
    workers[$1]=$!
}

# disturb FOLDER CODE..: a run in which worker 1 is killed twice, each time while
# an answer arrives.
disturb() {
    local folder=$1 kills
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
        wait_until 20 has_lines "$folder/metrics.jsonl" $((2 * kills)) ||
            fail "$*: no $((2 * kills)) steps: $(cat "$work/err.bg")"
        wait_until 20 has_said "worker 1 is back" $((kills - 1)) || fail "$*: worker 1 did not return"
        wait_until 20 answer_arrives || fail "$*: no answer was seen on its way"
        kill -KILL "${workers[1]}"
        wait_until 20 has_said "worker 1 is lost" "$kills" || fail "$*: the dead worker is not named: $(cat "$work/err.bg")"
        start_worker 1
    done
    wait_for "$coordinator"
    [ "$code" -eq 0 ] || fail "$*: exit code $code: $(cat "$work/err.bg")"
}
has_said() { [ "$(grep -c "$1" "$work/err.bg")" -ge "$2" ]; }

for name in uncoded frc; do
    options="--code $name"
    [ "$name" = uncoded ] || options="$options --stragglers 1"
    expect 0 train $job $options --local 2 --quiet --run "$work/$name.alone"
    disturb "$work/$name" $options
    cmp "$work/$name.alone/model.safetensors" "$work/$name/model.safetensors" ||
        fail "$options: another model than that of an undisturbed run"
done
wait_until 10 none_left || fail "left running: $(marked)"
finish
