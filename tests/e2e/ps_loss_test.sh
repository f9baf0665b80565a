#!/usr/bin/env bash
# Nodes of a parameter server that die or stand still: the others name them
# within seconds and finish, as well as an undisturbed run; they are replaced,
# or not, or end the run, as told. Nodes started by hand meet over TCP.
. "$(dirname "$0")/lib.sh"

# Rates that fall: at the end the order in which nodes came matters little.
mf="--model mf:rank=8,decay=0.9 --data zipf:rows=600,cols=200,cells=60000,rank=2 --optimizer adagrad --lr 0.2"

# A graph of 8 relations over 300 entities, each a step around a circle.
mkdir "$work/kg"
awk -v at="$work/kg" 'BEGIN { srand(5)
    for (s = 0; s < 300; s++) for (r = 0; r < 8; r++) {
        o = (s + 7 * r + 1) % 300; u = rand()
        file = u < 0.9 ? "train" : u < 0.95 ? "valid" : "test"
        printf "e%d\tr%d\te%d\n", s, r, o > (at "/" file ".txt") } }'
complex="--model complex:dim=32,negatives=20 --data $work/kg --lr 0.2"

# node I: the pid of that node of the run in the background.
node() {
    local child
    for child in $(pgrep -P "$pid"); do
        tr '\0' '\n' < "/proc/$child/cmdline" 2> /dev/null | tail -n 1 |
            grep -qx "$1" && echo "$child"
    done
}

# disturbed SIGNAL MORE..: a run of $task in which node 2 gets a signal in the
# middle; sets $quality from its $metric.
disturbed() {
    local signal=$1 child
    shift
    rm -rf "$work/run"
    # shellcheck disable=SC2086
    muster_in_background train $task --epochs "$epochs" --nodes 3 --run "$work/run" --json "$@"
    wait_until 30 has_lines "$work/run/metrics.jsonl" 3 || fail "no epoch was done"
    child=$(node 2)
    kill -"$signal" "$child" || fail "there is no node 2"
    wait_until 3 says "$work/err.bg" 'node 2 is lost' ||
        fail "SIG$signal: node 2 was not named: $(tail -n 2 "$work/err.bg")"
    wait_for "$pid"
    [ "$code" -eq 0 ] || fail "SIG$signal: exit code $code: $(tail -n 3 "$work/err.bg")"
    says "$work/err.bg" 'lost are at most the updates of' || fail "what was lost was not said"
    wait_until 5 none_left || fail "SIG$signal: processes are left"
    quality=$(value "$metric" < "$work/out.bg")
}

epochs=40
task="$mf --manage relocate"
metric=rmse
# shellcheck disable=SC2086
expect 0 train $task --epochs $epochs --nodes 3 --json --quiet
undisturbed=$(value rmse < "$work/out")
disturbed KILL
close "$quality" "$undisturbed" 0.02 ||
    fail "mf: rmse $quality after SIGKILL, $undisturbed undisturbed"
says "$work/err.bg" 'node 2 takes its place' || fail "node 2 was not replaced"
disturbed STOP --on-loss degrade
close "$quality" "$undisturbed" 0.02 ||
    fail "mf: rmse $quality after SIGSTOP, $undisturbed undisturbed"
says "$work/err.bg" 'takes its place' && fail "node 2 was replaced"

# The checkpoint serves another number of nodes.
expect 0 train --resume "$work/run" --epochs $((epochs + 2)) --nodes 2 --json --quiet &&
    { close "$(value epoch < "$work/out")" $((epochs + 2)) 0 || fail "resume did not go on"; }

epochs=80
case $MUSTER_BIN in */tsan/*) epochs=8 ;; esac # a hundred times slower there
task=$complex
metric=test_mrr
# shellcheck disable=SC2086
expect 0 train $task --epochs $epochs --nodes 3 --json --quiet
undisturbed=$(value test_mrr < "$work/out")
disturbed KILL
at_least "$quality" "$(awk "BEGIN { print $undisturbed * 0.98 }")" ||
    fail "complex: test mrr $quality after SIGKILL, $undisturbed undisturbed"

# A node that was given up and comes back ends itself, and disturbs nobody.
# shellcheck disable=SC2086
muster_in_background train $mf --manage relocate --epochs 100000 --nodes 3 \
    --heartbeat 500ms --on-loss degrade --run "$work/zombie"
wait_until 30 has_lines "$work/zombie/metrics.jsonl" 2 || fail "no epoch was done"
sleeper=$(node 2)
kill -STOP "$sleeper"
wait_until 30 says "$work/err.bg" 'going on with 2 of 3 nodes' || fail "a stopped node was not given up"
kill -CONT "$sleeper"
wait_until 5 gone "$sleeper" || fail "a node that was given up lives on"
says "$work/err.bg" 'the others gave this node up' || fail "it did not say why it ends"
done_then=$(wc -l < "$work/zombie/metrics.jsonl")
wait_until 10 has_lines "$work/zombie/metrics.jsonl" $((done_then + 2)) || fail "the others do not go on"
# A signal ends all of them, soon.
kill -INT "$pid"
wait_until 3 gone "$pid" || fail "an interrupted run takes its time"
wait_for "$pid"
[ "$code" -eq 130 ] || fail "interrupted: exit code $code: $(tail -n 3 "$work/err.bg")"
wait_until 2 none_left || fail "nodes outlive an interrupted run"

# Told to stop, the run ends with a clear error.
# shellcheck disable=SC2086
muster_in_background train $mf --epochs 100000 --nodes 3 --on-loss stop --run "$work/stop"
wait_until 30 has_lines "$work/stop/metrics.jsonl" 2 || fail "no epoch was done"
kill -KILL "$(node 1)"
wait_for "$pid"
[ "$code" -eq 4 ] || fail "--on-loss stop: exit code $code: $(tail -n 3 "$work/err.bg")"
says "$work/err.bg" 'node 1 is lost' || fail "the lost node was not named"

# Nodes started by hand, over TCP; one is replaced by hand, then the lead dies.
port=$((20000 + $$ % 20000))
places=tcp:127.0.0.1:$port
by_hand() {
    # shellcheck disable=SC2086
    E2E_MARK=$mark "$MUSTER_BIN" train $mf --epochs 100000 --nodes 3 --mesh "$places" \
        --run "$folder" --heartbeat 500ms "$@" > /dev/null 2> "$work/err.hand$hands" &
    hands=$((hands + 1))
}
hands=0
folder=$work/hand
by_hand --node 0
lead=$!
by_hand --node 1
second=$!
by_hand --node 2
third=$!
wait_until 30 has_lines "$work/hand/metrics.jsonl" 2 || fail "nodes started by hand do nothing: $(cat "$work"/err.hand*)"
kill -KILL "$third"
wait_until 3 says "$work/err.hand0" 'node 2 is lost' || fail "over TCP the loss was not named"
by_hand --node 2 --replace
third=$!
wait_until 20 says "$work/err.hand0" 'node 2 takes its place' || fail "a node started by hand was not taken in"
kill -KILL "$lead"
for one in "$second" "$third"; do
    wait_until 5 gone "$one" || fail "a node outlives its lead"
    wait "$one"
    [ $? -eq 4 ] || fail "without a lead: wrong exit code"
done
says "$work/err.hand1" 'node 0 is lost' || fail "the lost lead was not named"
last=$(wc -l < "$work/hand/metrics.jsonl")
expect 0 train --resume "$work/hand" --epochs $((last + 3)) --nodes 2 --json --quiet

# Rows that no checkpoint has begin anew, and that is said: node 2, which takes
# over the home of node 1, does not see the run folder. Each has a place of its
# own, as on several machines.
port=$((port + 10))
places=tcp:127.0.0.1:$port,127.0.0.2:$port,127.0.0.3:$port
hands=10
folder=$work/seen
by_hand --node 0
lead=$!
by_hand --node 1
second=$!
folder=$work/unseen
by_hand --node 2
wait_until 30 has_lines "$work/seen/metrics.jsonl" 2 || fail "no epoch was done"
kill -KILL "$second"
wait_until 5 says "$work/err.hand10" 'all that the rows that began anew had learnt' ||
    fail "rows began anew in silence: $(tail -n 3 "$work/err.hand10")"
says "$work/err.hand12" 'unseen/.*: lost rows begin anew' || fail "what cannot be read was not named"
kill -INT "$lead"
wait_until 5 none_left || fail "nodes outlive an interrupted run"

# Nobody has to wait for nodes that do not come: not who is told to end, and not
# who has lost the lead.
port=$((port + 10))
places=tcp:127.0.0.1:$port
folder=$work/first
hands=4
by_hand --node 1
second=$!
sleep 1
kill -INT "$second"
wait_until 5 gone "$second" || fail "a node that waits for others cannot be interrupted"
wait "$second"
[ $? -eq 130 ] || fail "interrupted while it waits: wrong exit code: $(cat "$work/err.hand4")"
by_hand --node 0
lead=$!
by_hand --node 1
second=$!
sleep 2
kill -KILL "$lead"
wait_until 5 gone "$second" || fail "a node waits for others without its lead"
wait "$second"
[ $? -eq 4 ] || fail "without a lead at the start: wrong exit code: $(cat "$work/err.hand6")"

# A node that dies before all have met is known to be dead: nobody waits for it.
# Much data, so that the nodes still read when one is killed.
muster_in_background train --model mf:rank=2 --data zipf:rows=30000,cols=6000,cells=2000000,rank=2 --nodes 3
wait_until 30 count_is 3 || fail "no nodes: $(cat "$work/err.bg")"
kill -KILL "$(node 2)"
wait_until 30 gone "$pid" || fail "the lead waits for a dead node: $(cat "$work/err.bg")"
wait_for "$pid"
[ "$code" -eq 4 ] || fail "a node died early: exit code $code: $(tail -n 3 "$work/err.bg")"
says "$work/err.bg" "node 2 ended before all nodes had met" ||
    fail "the early death is not told: $(cat "$work/err.bg")"
wait_until 10 none_left || fail "left running: $(marked)"

expect 2 train --model mf --data zipf: --replace
expect 2 train --model mf --data zipf: --on-loss perhaps
finish
