#!/usr/bin/env bash
# Regression on targets that are small integers: they are values, not classes.
. "$(dirname "$0")/lib.sh"

# y = (10 x)^2 + 30: class numbers would be a straight line, the values are not.
for k in $(seq 0 10); do
    echo "0.$k,$((k * k + 30))" | sed 's/^0.10,/1.0,/'
done > "$work/train.csv"
# Values that training never saw, one of them not even whole.
printf '0.5,57\n0.25,36.25\n' > "$work/test.csv"

expect 0 train --model linear --data "$work/train.csv" --test "$work/test.csv" \
    --local 2 --batch 0 --steps 3000 --lr 0.3 --run "$work/run" --quiet --json || finish
# The least squares line is 100 x + 15, with the residuals of a parabola: half
# their mean square is 39. The line through class numbers would fit exactly.
loss=$(value loss < "$work/out")
close "$loss" 39 0.01 || fail "loss $loss, not 39"

expect 0 predict --from "$work/run" --data "$work/test.csv" --out "$work/said.csv" --json
said=$(head -n 1 "$work/said.csv" | cut -d, -f1)
close "$said" 65 0.01 || fail "predicted $said at x = 0.5, not 65"
value loss < "$work/out" | grep -q null && fail "predict took the targets for other classes"
finish
