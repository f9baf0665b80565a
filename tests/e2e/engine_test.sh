#!/usr/bin/env bash
# --engine: what cannot be is refused and says why; a run by UCX over the
# loopback, where UCX is installed, ends at the model of a local run and warns
# that the network must be trusted. `make test-cluster` does more.
. "$(dirname "$0")/lib.sh"
job="--data synthetic:samples=2000,features=20,classes=3 --steps 60 --batch 100
    --code frc --stragglers 1 --json"

expect 2 train --data synthetic: --steps 1 --engine tcp
says "$work/err" "expected sock or ucx" || fail "$(cat "$work/err")"
expect 2 train --data synthetic: --steps 1 --local 2 --engine ucx
says "$work/err" "share memory: give --listen" || fail "$(cat "$work/err")"
expect 2 train --model mf --data zipf:rows=40,cols=20,cells=300 --nodes 2 --engine ucx
says "$work/err" "give --mesh tcp:" || fail "$(cat "$work/err")"

# Without the module, or without UCX, that is what is said.
mkdir "$work/bare"
cp -P "$(dirname "$MUSTER_BIN")"/{muster,libmuster.so*} "$work/bare"
timeout "$limit" "$work/bare/muster" join 127.0.0.1:1 --engine ucx 2> "$work/err"
code=$?
[ "$code" -eq 2 ] || fail "without a module: exit code $code"
says "$work/err" "no muster-ucx.so.*libucx" || fail "$(cat "$work/err")"

[ -e "$(dirname "$MUSTER_BIN")/muster-ucx.so" ] || finish
# shellcheck disable=SC2086
expect 0 train $job --local 4 && theta=$(value theta_norm < "$work/out")
# shellcheck disable=SC2086
muster_in_background train $job --workers 4 --listen 127.0.0.1:0 --engine ucx
coordinator=$pid
wait_until 20 says "$work/err.bg" "muster join tcp:127.0.0.1:" ||
    { fail "no coordinator: $(cat "$work/err.bg")"; finish; }
says "$work/err.bg" "trusted network" || fail "no warning: $(cat "$work/err.bg")"
address=$(grep -o 'tcp:127.0.0.1:[0-9]*' "$work/err.bg" | head -n 1)
expect 5 join "$address"
says "$work/err" "uses --engine ucx and we use sock" || fail "$(cat "$work/err")"
for i in 0 1 2 3; do
    E2E_MARK=$mark "$MUSTER_BIN" join "$address" --engine ucx 2> "$work/err.$i" &
done
wait_for "$coordinator"
[ "$code" -eq 0 ] || fail "coordinator: exit code $code: $(cat "$work/err.bg")"
close "$(value theta_norm < "$work/out.bg")" "$theta" 1e-5 ||
    fail "theta $(value theta_norm < "$work/out.bg"), not $theta"

# Workers and nodes that one command starts, over TCP; a run folder does not say
# where its nodes met, so a resumed run may have them here.
"$MUSTER_BIN" key > "$work/run.key"
# shellcheck disable=SC2086
expect 0 train $job --local 4 --listen 127.0.0.1:0 --engine ucx --key-file "$work/run.key" &&
    { close "$(value theta_norm < "$work/out")" "$theta" 1e-5 || fail "another model"; }
mesh=tcp:127.0.0.1:$((20000 + ($$ * 7) % 10000))
expect 0 train --model mf:rank=2 --data zipf:rows=40,cols=20,cells=300 --epochs 2 --nodes 2 \
    --mesh "$mesh" --engine ucx --key-file "$work/run.key" --run "$work/mf"
expect 0 train --resume "$work/mf" --epochs 3 --nodes 2
wait_until 10 none_left || fail "left running: $(marked)"
finish
