#!/usr/bin/env bash
# A user's own model in a shared object (examples/huber_model.c): trained by
# workers under a code, saved, and used by predict; a file that is no model is
# refused by name.
. "$(dirname "$0")/lib.sh"
: "${MUSTER_BUILD:?set MUSTER_BUILD to the build folder}"
plugin=$MUSTER_BUILD/huber_model.so
[ -f "$plugin" ] || { fail "$plugin was not built"; finish; }

# y = 2 x + 1, and one outlier in ten that least squares would follow.
for k in $(seq 0 99); do
    awk -v k="$k" 'BEGIN { x = k / 100; print x "," 2 * x + 1 + (k % 10 == 3 ? 50 : 0) + 0.001 * (k % 7) }'
done > "$work/train.csv"

expect 0 train --model "$plugin" --data "$work/train.csv" --local 4 --code frc --stragglers 1 \
    --kill 2@50 --batch 0 --steps 1500 --lr 0.5 --run "$work/run" --quiet --json || finish
printf '0.5,2\n' > "$work/new.csv"
expect 0 predict "$work/run" --data "$work/new.csv" --out "$work/said.csv" --json
said=$(head -n 1 "$work/said.csv" | cut -d, -f1)
close "$said" 2.1 0.1 || fail "predicted $said at x = 0.5, not about 2: the outliers won"

echo "no model" > "$work/none.so"
expect 3 train --model "$work/none.so" --data "$work/train.csv" --local 2
grep -q "none.so" "$work/err" || fail "the error does not name the file: $(cat "$work/err")"
finish
