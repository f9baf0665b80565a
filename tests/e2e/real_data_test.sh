#!/usr/bin/env bash
# Real data: softmax on mnist reaches 92.0 % on the test set, logistic
# regression on a9a 84.8 %.
. "$(dirname "$0")/lib.sh"
E2E_LIMIT=${E2E_LIMIT:-300}
limit=$E2E_LIMIT
data=${MUSTER_DATA:-../shared/data}
[ -d "$data/mnist" ] && [ -d "$data/a9a" ] ||
    skip "no mnist and a9a in $data (MUSTER_DATA names the folder)"

# reaches ACCURACY ARGS
reaches() {
    local wanted=$1 accuracy
    shift
    expect 0 train "$@" --json --quiet || return
    accuracy=$(value accuracy < "$work/out")
    at_least "$accuracy" "$wanted" || fail "muster train $*: accuracy $accuracy, not $wanted"
    echo "accuracy $accuracy: muster train $*"
}

reaches 0.92 --data "$data/mnist" --model softmax --local 2 --epochs 10 \
    --batch 500 --lr 0.1 --optimizer momentum
reaches 0.848 --data "$data/a9a" --model logistic --local 2 --epochs 10 \
    --batch 500 --lr 0.05 --optimizer momentum
finish
