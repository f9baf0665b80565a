#!/usr/bin/env bash
# Real data: a 784-256-10 network on mnist reaches 97.8 % on the test set.
. "$(dirname "$0")/lib.sh"
limit=${E2E_LIMIT:-600}
data=${MUSTER_DATA:-../shared/data}
[ -d "$data/mnist" ] || skip "no mnist in $data (MUSTER_DATA names the folder)"

expect 0 train --data "$data/mnist" --model mlp:hidden=256 --local 2 \
    --epochs 12 --batch 128 --lr 0.05 --optimizer momentum \
    --schedule cosine --json --quiet || finish
accuracy=$(value accuracy < "$work/out")
at_least "$accuracy" 0.978 || fail "accuracy $accuracy, not 0.978"
echo "accuracy $accuracy in $(value wall_s < "$work/out") s"
finish
