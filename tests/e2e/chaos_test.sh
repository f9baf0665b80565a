#!/usr/bin/env bash
# Runs of real processes, disturbed at random within what the code tolerates:
# workers killed and started again, frozen and thawed, the coordinator killed
# and resumed. Every run must end, with the model of an undisturbed run to 1e-4.
#
#   MUSTER_BIN=.. tests/e2e/chaos_test.sh [SEED..]     default: seeds 1 to 5
#   CHAOS_RUNS=20 MUSTER_BIN=.. tests/e2e/chaos_test.sh
#
# A seed decides code, victims and the order of what happens to them; how far a
# run has come meanwhile is up to the machine.
. "$(dirname "$0")/lib.sh"

steps=1000
job="--data synthetic:samples=1500,features=12,classes=3,seed=5 --steps $steps --batch 100 --lr 0.05"
faults=4

# floats FILE: the numbers of a safetensors file, one a line.
floats() {
    local header
    header=$(od -An -tu8 -N8 "$1" | tr -d ' ')
    tail -c "+$((9 + header))" "$1" | od -An -v -tf4 -w4
}

# same_model FILE FILE TOLERANCE: the norm of the difference, relative.
same_model() {
    floats "$1" > "$work/a.txt" && floats "$2" > "$work/b.txt" || return 1
    [ "$(wc -l < "$work/a.txt")" -eq "$(wc -l < "$work/b.txt")" ] || return 1
    paste "$work/a.txt" "$work/b.txt" | awk -v t="$3" '
        { d += ($1 - $2) ^ 2; n += $2 ^ 2 }
        END { exit !(NR > 0 && n > 0 && d == d && d <= t * t * n) }'
}

start_worker() {
    E2E_MARK=$mark "$MUSTER_BIN" join "unix:$socket" --worker "$1" --slow "$1:2ms" \
        --quiet 2> "$work/err.w$1" &
    workers[$1]=$!
}

# One seed's code: sets $code_options, $count and $tolerated.
choose_code() {
    case $((RANDOM % 4)) in
        0) code_options="--code uncoded" count=3 tolerated=1 ;; # waits for the return
        1) code_options="--code frc --stragglers 1" count=4 tolerated=1 ;;
        2) code_options="--code frc --stragglers 2" count=6 tolerated=2 ;;
        3) code_options="--code linear:spc --stragglers 1 --comm 2" count=6 tolerated=1 ;;
    esac
}

lines() { wc -l 2> /dev/null < "$folder/metrics.jsonl" || echo 0; }
advanced() { has_lines "$folder/metrics.jsonl" "$1" || gone "$coordinator"; }
# move_on: until some more steps are done, or 3 s by the clock have passed
# (uncoded may be waiting). On a busy machine a number of polls could take longer
# than the coordinator's patience with a frozen worker.
move_on() {
    local until=$((SECONDS + 3)) goal=$(($(lines) + 1 + RANDOM % 150))
    while [ "$SECONDS" -lt "$until" ] && ! advanced "$goal"; do
        sleep 0.02
    done
}
has_checkpoint() { compgen -G "$folder/checkpoint/*.safetensors" > /dev/null || gone "$coordinator"; }

kill_workers() {
    local victim first=$((RANDOM % count)) many=$((1 + RANDOM % tolerated)) i
    for ((i = 0; i < many; i++)); do
        victim=$(((first + i) % count))
        happened+=" kill:$victim"
        kill -KILL "${workers[victim]}"
        wait "${workers[victim]}" 2> /dev/null
    done
    [ "$code_options" = "--code uncoded" ] || move_on
    for ((i = 0; i < many; i++)); do
        victim=$(((first + i) % count))
        start_worker $victim
        returned[victim]=yes
    done
}

freeze_worker() {
    local victim=$((RANDOM % count))
    happened+=" stop:$victim"
    kill -STOP "${workers[victim]}"
    move_on
    kill -CONT "${workers[victim]}"
    returned[victim]=yes
}

start_coordinator() {
    E2E_MARK=$mark "$MUSTER_BIN" train "$@" --quiet 2>> "$work/err.c$seed" > /dev/null &
    coordinator=$!
}

restart_coordinator() {
    local i
    happened+=" restart"
    wait_until 20 has_checkpoint || return
    kill -KILL "$coordinator" 2> /dev/null
    wait "$coordinator" 2> /dev/null
    # Killed after the last step: the next has nothing to do, and is gone before
    # the workers find it.
    if has_lines "$folder/metrics.jsonl" $steps; then
        for ((i = 0; i < count; i++)); do
            returned[i]=yes
        done
    fi
    start_coordinator --resume "$folder"
}

disturb() {
    local i
    for ((i = 0; i < faults; i++)); do
        move_on
        ! gone "$coordinator" || return
        case $((RANDOM % 5)) in
            0 | 1) kill_workers ;;
            2 | 3) freeze_worker ;;
            4) restart_coordinator ;;
        esac
    done
}

# chaos SEED
chaos() {
    local seed=$1 folder=$work/run$1 socket=$work/socket$1 happened="" before=$failures i
    local -a workers=() returned=()
    RANDOM=$seed
    choose_code
    # shellcheck disable=SC2086
    start_coordinator $job $code_options --workers $count --listen "unix:$socket" \
        --run "$folder" --checkpoint-every 100 --heartbeat 500ms --patience 60s
    for ((i = 0; i < count; i++)); do
        start_worker $i
    done
    disturb
    wait_for "$coordinator"
    [ "$code" -eq 0 ] || fail "exit code $code: $(tail -n 3 "$work/err.c$seed")"
    for ((i = 0; i < count; i++)); do
        # One that returned or was thawed may come after the end, and look in vain.
        [ -z "${returned[i]:-}" ] || wait_until 2 gone "${workers[i]}" || kill -KILL "${workers[i]}"
        wait_for "${workers[i]}" 2> /dev/null
        [ "$code" -eq 0 ] || [ -n "${returned[i]:-}" ] || fail "worker $i: exit code $code: $(tail -n 3 "$work/err.w$i")"
    done
    has_lines "$folder/metrics.jsonl" $steps || fail "not $steps steps"
    same_model "$folder/model.safetensors" "$work/plain/model.safetensors" 1e-4 ||
        fail "another model than the undisturbed run's"
    [ "$failures" -eq "$before" ] ||
        echo "seed $seed ($code_options;$happened): MUSTER_BIN=$MUSTER_BIN tests/e2e/chaos_test.sh $seed" >&2
    echo "seed $seed: $code_options;$happened"
}

# shellcheck disable=SC2086
expect 0 train $job --local 1 --code uncoded --run "$work/plain" --quiet || finish
# The comparison must be able to fail.
# shellcheck disable=SC2086
expect 0 train $job --local 1 --code uncoded --seed 2 --run "$work/other" --quiet
! same_model "$work/other/model.safetensors" "$work/plain/model.safetensors" 1e-4 ||
    fail "another seed gave the same model"

[ $# -gt 0 ] || set -- $(seq "${CHAOS_RUNS:-5}")
for seed in "$@"; do
    chaos "$seed"
done
wait_until 10 none_left || fail "left running: $(marked)"
finish
