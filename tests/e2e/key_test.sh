#!/usr/bin/env bash
# Runs over TCP with a run key: training with `join`, and the nodes of a
# parameter server. Whoever has another key, or none, is refused with exit code
# 5 and told why, is named in the log of the other side, and harms nothing. The
# result is that of a run without a key.
. "$(dirname "$0")/lib.sh"

"$MUSTER_BIN" key > "$work/run.key" || fail "muster key"
[ "$(stat -c %a "$work/run.key")" = 600 ] || fail "the key file is not private"
"$MUSTER_BIN" key > "$work/other.key"
cmp -s "$work/run.key" "$work/other.key" && fail "two keys are the same"

# Key files ---------------------------------------------------------------

cp "$work/run.key" "$work/open.key"
chmod 644 "$work/open.key"
expect 3 join 127.0.0.1:1 --key-file "$work/open.key"
says "$work/err" "open.key.*chmod 600" || fail "open key: $(cat "$work/err")"
MUSTER_KEY_FILE=$work/open.key expect 3 train --data synthetic: --steps 1
says "$work/err" "open.key.*chmod 600" || fail "open key: $(cat "$work/err")"
expect 3 join 127.0.0.1:1 --key-file "$work/nothing"
expect 2 train --data synthetic: --steps 1 --workers 1 --listen 0.0.0.0:0
says "$work/err" "without a run key.*--key-file.*--insecure" ||
    fail "listening to all without a key: $(cat "$work/err")"
expect 2 train --model mf --data zipf:rows=40,cols=20,cells=300 --nodes 2 --node 0 --mesh tcp:0.0.0.0:7777
says "$work/err" "without a run key" || fail "a mesh without a key: $(cat "$work/err")"

# Training ----------------------------------------------------------------

job="--data synthetic:samples=2000,features=20,classes=3 --steps 60 --batch 100
    --code frc --stragglers 1"
# shellcheck disable=SC2086
expect 0 train $job --local 4 --json && theta=$(value theta_norm < "$work/out")
# shellcheck disable=SC2086
muster_in_background train $job --workers 4 --listen 127.0.0.1:0 --json \
    --patience 60s --key-file "$work/run.key"
coordinator=$pid
wait_until 20 says "$work/err.bg" "muster join tcp:127.0.0.1:" ||
    { fail "no coordinator: $(cat "$work/err.bg")"; finish; }
address=$(grep -o 'tcp:127.0.0.1:[0-9]*' "$work/err.bg" | head -n 1)

expect 5 join "$address" --key-file "$work/other.key"
says "$work/err" "another run key" || fail "another key: $(cat "$work/err")"
expect 5 join "$address"
says "$work/err" "has a run key, and we have none.*--key-file" ||
    fail "no key: $(cat "$work/err")"
wait_until 20 says "$work/err.bg" "refused tcp:127.0.0.1:[0-9]*: .*run key" ||
    fail "the coordinator does not name them: $(cat "$work/err.bg")"

workers=()
for i in 0 1 2 3; do
    MUSTER_KEY_FILE=$work/run.key E2E_MARK=$mark "$MUSTER_BIN" join "$address" \
        2> "$work/err.$i" &
    workers+=($!)
done
wait_for "$coordinator"
[ "$code" -eq 0 ] || fail "coordinator: exit code $code: $(cat "$work/err.bg")"
for i in 0 1 2 3; do
    wait_for "${workers[$i]}"
    [ "$code" -eq 0 ] || fail "worker $i: exit code $code: $(cat "$work/err.$i")"
done
close "$(value theta_norm < "$work/out.bg")" "$theta" 1e-5 ||
    fail "theta $(value theta_norm < "$work/out.bg"), not $theta"

# A coordinator without a key refuses a worker that has one, by name as well.
muster_in_background train --data synthetic: --steps 1 --workers 1 \
    --listen 127.0.0.1:0
coordinator=$pid
wait_until 20 says "$work/err.bg" "muster join tcp:127.0.0.1:" || fail "no coordinator"
address=$(grep -o 'tcp:127.0.0.1:[0-9]*' "$work/err.bg" | head -n 1)
expect 5 join "$address" --key-file "$work/run.key"
says "$work/err" "has no run key, and we have one" || fail "$(cat "$work/err")"
expect 0 join "$address"
wait_for "$coordinator"
[ "$code" -eq 0 ] || fail "coordinator: exit code $code"

# The parameter server ----------------------------------------------------

port=$((20000 + ($$ * 7) % 20000))
job="--model mf:rank=4 --data zipf:rows=300,cols=60,cells=3000 --nodes 2 --epochs 2 \
    --mesh tcp:127.0.0.1:$port"
# shellcheck disable=SC2086
muster_in_background train $job --node 0 --json --key-file "$work/run.key"
lead=$pid
wait_until 20 says "/proc/net/tcp" "0100007F:$(printf %04X "$port") .* 0A " ||
    fail "the lead does not listen"
# shellcheck disable=SC2086
expect 5 train $job --node 1 --key-file "$work/other.key"
says "$work/err" "node 0.*another run key" || fail "$(cat "$work/err")"
# shellcheck disable=SC2086
expect 5 train $job --node 1
# shellcheck disable=SC2086
expect 0 train $job --node 1 --key-file "$work/run.key"
wait_for "$lead"
[ "$code" -eq 0 ] || fail "lead: exit code $code: $(cat "$work/err.bg")"
says "$work/err.bg" "refused tcp:127.0.0.1:" || fail "the lead names nobody"
wait_until 10 none_left || fail "left running: $(marked)"
finish
