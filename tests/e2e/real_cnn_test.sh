#!/usr/bin/env bash
# Real data: a small convolutional network on mnist. One epoch here; eight of
# them, as tools/check-all runs them, reach 99.0 % on the test set.
. "$(dirname "$0")/lib.sh"
limit=${E2E_LIMIT:-600}
data=${MUSTER_DATA:-../shared/data}
epochs=${MUSTER_CNN_EPOCHS:-1}
least=$([ "$epochs" -ge 8 ] && echo 0.990 || echo 0.970)
[ -d "$data/mnist" ] || skip "no mnist in $data (MUSTER_DATA names the folder)"

expect 0 train --data "$data/mnist" --model cnn:channels=16,32 --local 2 \
    --epochs "$epochs" --batch 128 --optimizer adam --lr 0.002 \
    --schedule cosine --json --quiet || finish
accuracy=$(value accuracy < "$work/out")
at_least "$accuracy" "$least" || fail "accuracy $accuracy, not $least"
echo "accuracy $accuracy in $(value wall_s < "$work/out") s"
finish
