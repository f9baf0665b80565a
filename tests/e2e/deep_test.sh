#!/usr/bin/env bash
# A convolutional model with dropout, layer norm, smoothing, class weights,
# adamw and clipping, all at once: codes and faults do not change its end,
# workers that join and runs that are resumed know it, and predict does.
. "$(dirname "$0")/lib.sh"

data=synthetic:samples=600,features=64,classes=3,seed=3
model=cnn:channels=4,6,image=8x8,hidden=12,dropout=0.2,norm=layer,smoothing=0.1,class-weights=1,2,1
options="--data $data --model $model --optimizer adamw:decay=0.05 --clip 1 --batch 60 --quiet --json"

# run ARGS: sets $loss, $norm and $accuracy.
run() {
    # shellcheck disable=SC2086
    expect 0 train $options "$@" || return 1
    loss=$(value loss < "$work/out")
    norm=$(value theta_norm < "$work/out")
    accuracy=$(value accuracy < "$work/out")
}

same() {
    run "$@" || return
    close "$loss" "$loss_0" 1e-3 && close "$norm" "$norm_0" 1e-3 ||
        fail "$*: loss $loss, theta_norm $norm; wanted $loss_0, $norm_0"
}

run --steps 20 --local 1 --run "$work/whole"
loss_0=$loss norm_0=$norm
same --steps 20 --local 4 --code frc --stragglers 1 --kill 1@5
same --steps 20 --local 4 --code linear:tuned --stragglers 1 --comm 2 --slow 2:100ms
same --steps 20 --local 2 --threads 2

expect 0 predict --from "$work/whole" --data $data --quiet --json
close "$(value accuracy < "$work/out")" "$accuracy" 1e-9 ||
    fail "predict: accuracy $(cat "$work/out"), the run had $accuracy"

# Ended after ten steps and resumed: the same end as in one go.
run --steps 10 --local 2 --run "$work/cut"
expect 0 train --resume "$work/cut" --steps 20 --json --quiet
close "$(value loss < "$work/out")" "$loss_0" 1e-3 ||
    fail "resumed: $(cat "$work/out"), wanted loss $loss_0"
none_left || fail "left running: $(marked)"
finish
