#!/usr/bin/env bash
# The gradient is the gradient: whatever the code and the number of workers,
# and with a tolerated worker slowed, frozen, killed or returned, a run ends
# with the loss and the norm of theta of the plain run on one worker.
. "$(dirname "$0")/lib.sh"

steps=20
softmax="--model softmax --data synthetic:samples=1200,features=20,classes=5,seed=3"
logistic="--model logistic --data synthetic:samples=1200,features=20,classes=2,seed=4"

# run WHAT ARGS: sets $loss and $norm.
run() {
    # shellcheck disable=SC2086
    expect 0 train $what --steps $steps --lr 0.2 --l2 0.001 --json --quiet \
        "$@" || return 1
    loss=$(value loss < "$work/out")
    norm=$(value theta_norm < "$work/out")
}

# same ARGS: like the reference to 1e-4.
same() {
    run "$@" || return
    close "$loss" "$loss_0" 1e-4 && close "$norm" "$norm_0" 1e-4 ||
        fail "$what $*: loss $loss, theta_norm $norm; wanted $loss_0, $norm_0"
}

for batch in 0 64; do
    for what in "$softmax --batch $batch" "$logistic --batch $batch"; do
        run --local 1 --code uncoded || continue
        loss_0=$loss norm_0=$norm
        at_least "$norm_0" 0.01 || fail "$what: theta_norm $norm_0: nothing was learnt"
        for n in 4 8; do
            same --local $n --code uncoded
            same --local $n --code frc --stragglers 1
            same --local $n --code frc --stragglers 3
        done
        for n in 3 6 9; do
            same --local $n --code linear:spc --stragglers 1 --comm 2
        done
        same --local 4 --code frc --stragglers 1 --slow 1:300ms
        same --local 4 --code frc --stragglers 1 --stop 1@5 --cont 1@15
        same --local 4 --code frc --stragglers 1 --kill 2@5
        same --local 4 --code frc --stragglers 1 --kill 2@5 --rejoin 2@8 --kill 3@15
        same --local 6 --code linear:spc --stragglers 1 --comm 2 --slow 0:300ms --kill 4@5
        same --local 4 --code uncoded --slow 1:2x --slow 2:5ms
        # shellcheck disable=SC2046
        same --local 4 --code uncoded $(printf -- '--slow %d:1ms ' $(yes "0 1 2 3" | head -n 25))
    done
done
# The comparison must be able to fail: another seed is another batch order.
what="$softmax --batch 64"
run --local 2 --code uncoded && loss_0=$loss
run --local 2 --code uncoded --seed 2
close "$loss" "$loss_0" 1e-4 && fail "another seed gave the same loss: $loss"
none_left || fail "left running: $(marked)"
finish
