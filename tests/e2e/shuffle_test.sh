#!/usr/bin/env bash
# Plans that change under way, with real processes: shuffled runs, disturbed or
# not, end with the loss and the norm of theta of the plain run; what moved is
# counted. With too few workers --on-loss degrade goes on and says so; an
# approximate code leaves a slow worker out and says what is missing.
. "$(dirname "$0")/lib.sh"

job="--data synthetic:samples=1200,features=20,classes=5,seed=3 --batch 64"
steps=60

run() {
    # shellcheck disable=SC2086
    expect 0 train $job --steps $steps --json --quiet "$@" || return 1
    loss=$(value loss < "$work/out")
    norm=$(value theta_norm < "$work/out")
    moved=$(value bytes_moved < "$work/out")
}

# The received counters, one a line.
received() {
    tr -d ' \n' < "$work/out" | sed 's/.*"parts_received":\[\([0-9,]*\)\].*/\1/' | tr , '\n'
}

run --local 1
loss_0=$loss norm_0=$norm

same() {
    run "$@" || return
    close "$loss" "$loss_0" 1e-4 && close "$norm" "$norm_0" 1e-4 ||
        fail "$*: loss $loss, theta_norm $norm; wanted $loss_0, $norm_0"
    [ "$(received | sort -u)" = "$steps" ] ||
        fail "$*: parts received $(received | tr '\n' ' '), not $steps each"
}

same --local 6 --code frc:s=2
still=$moved
# How much more depends on who is fast enough to get a part before the next turn.
same --local 6 --code frc:s=2 --shuffle rotate:1
at_least "$moved" "$((still + 1))" || fail "rotations moved $moved bytes, the start $still"
same --local 6 --code cyclic-mds:s=2 --shuffle rotate:1
# Where steps last some milliseconds nearly all of them turn, late ones being the machine's doing.
# shellcheck disable=SC2086
expect 0 train $job --local 6 --steps $steps --code crc:s=2 --shuffle rotate:1 --delay constant:delay=5ms --verbose
turns=$(grep -c 'plan [0-9]* from step' "$work/err")
at_least "$turns" 45 || fail "rotate:1 turned in $turns of $steps steps"
same --local 6 --code crc:s=1 --shuffle rotate:2 --slow 1:5ms
same --local 6 --code heter-group:s=1 --shuffle rotate:5
same --local 6 --code frc:s=1 --shuffle targeted --slow 1:20ms --slow 2:20ms
same --local 6 --code frc:s=2 --shuffle rotate:1 --kill 2@10 --rejoin 2@20 \
    --stop 4@30 --cont 4@50

# Shuffled, interrupted and resumed: the map is that of the checkpoint.
run --local 6 --code frc:s=1 --shuffle rotate:4 --run "$work/run" --checkpoint-every 10 --steps 30
# shellcheck disable=SC2086
expect 0 train --resume "$work/run" --steps $steps --json --quiet &&
    close "$(value theta_norm < "$work/out")" "$norm_0" 1e-4 ||
    fail "resumed: theta_norm $(value theta_norm < "$work/out"), not $norm_0"

# Too few workers.
# shellcheck disable=SC2086
expect 4 train $job --local 4 --steps $steps --kill 1@5 --patience 1s --quiet
# shellcheck disable=SC2086
expect 0 train $job --local 4 --steps $steps --kill 1@5 --on-loss degrade --json
says "$work/err" "goes on approximately: uncoded" || fail "degrading was not told"
[ "$(value exact < "$work/out")" = false ] || fail "degraded, and called exact"
at_least "$(value grad_err_max < "$work/out")" 0.4 || fail "degraded: grad_err_max is too small"

# A deadline.
run --local 4 --code ignore --slow 2:3s
[ "$(received | sed -n 3p)" -le 2 ] || fail "the slow worker's part was waited for"
at_least "$(value grad_err_max < "$work/out")" 0.4 || fail "ignore: grad_err_max is too small"
none_left || fail "left running: $(marked)"
finish
