#!/usr/bin/env bash
# A user's own model in a shared object (examples/huber_model.c): trained by
# workers under a code, saved, and used by predict; a file that is no model is
# refused by name. A worker that joins runs nobody's code unless it was told to.
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

# Data never runs code: a saved model and a run folder that name a shared object
# are refused, with the file and its hash, until the command line allows it.
hash=$(sha256sum "$plugin" | cut -d' ' -f1)
expect 2 predict "$work/run" --data "$work/new.csv"
says "$work/err" "model is code, $plugin (sha256 $hash)" || fail "predict does not name the code: $(cat "$work/err")"
says "$work/err" "--allow-model PATH/huber_model.so" || fail "predict does not name the option: $(cat "$work/err")"
expect 2 predict "$work/run" --data "$work/new.csv" --allow-model softmax
expect 2 train --resume "$work/run" --steps 1510
says "$work/err" "model is code, $plugin (sha256 $hash)" || fail "resume does not name the code: $(cat "$work/err")"
expect 0 train --resume "$work/run" --steps 1510 --allow-model "$plugin"
says "$work/err" "the model is code: $plugin, sha256 $hash" || fail "resume does not say whose code it runs: $(cat "$work/err")"

expect 0 predict "$work/run" --data "$work/new.csv" --out "$work/said.csv" --json --allow-model "$plugin"
said=$(head -n 1 "$work/said.csv" | cut -d, -f1)
close "$said" 2.1 0.1 || fail "predicted $said at x = 0.5, not about 2: the outliers won"

echo "no model" > "$work/none.so"
expect 3 train --model "$work/none.so" --data "$work/train.csv" --local 2
grep -q "none.so" "$work/err" || fail "the error does not name the file: $(cat "$work/err")"

# Two that join: the first was not told to run the run's model, the second has
# the file elsewhere.
mkdir "$work/mine"
cp "$plugin" "$work/mine/huber_model.so"
cp "$plugin" "$work/mine/other.so"
muster_in_background train --model "$plugin:delta=0.5" --data "$work/train.csv" --workers 2 \
    --listen "unix:$work/socket" --steps 30 --json
coordinator=$pid
wait_until 20 test -S "$work/socket" || { fail "no coordinator: $(cat "$work/err.bg")"; finish; }
expect 2 join "unix:$work/socket"
says "$work/err" "--allow-model PATH/huber_model.so" || fail "not told what to do: $(cat "$work/err")"
expect 2 join "unix:$work/socket" --allow-model "$work/mine/other.so"
says "$work/err" "the run's model is code, $plugin" || fail "the file is not named: $(cat "$work/err")"
expect 2 join "unix:$work/socket" --allow-model softmax
workers=()
for i in 0 1; do
    E2E_MARK=$mark "$MUSTER_BIN" join "unix:$work/socket" --allow-model "$work/mine/huber_model.so" 2> "$work/err.$i" &
    workers+=($!)
done
wait_for "$coordinator"
[ "$code" -eq 0 ] || fail "joined: exit code $code: $(tail -n 3 "$work/err.bg" "$work/err.0")"
[ "$(value steps < "$work/out.bg")" = 30 ] || fail "joined: $(value steps < "$work/out.bg") steps"
for i in 0 1; do
    wait_for "${workers[$i]}"
    [ "$code" -eq 0 ] || fail "worker $i: exit code $code: $(cat "$work/err.$i")"
done
none_left || fail "left running: $(marked)"
finish
