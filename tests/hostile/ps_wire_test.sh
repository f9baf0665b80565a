#!/usr/bin/env bash
# The wire of a parameter-server node goes bad: one byte passes every 100 ms. It
# lives and sends, but no message of it is whole: it is named and given up, and
# the others go on.
. "$(dirname "$0")/../e2e/lib.sh"
wire=${MUSTER_BUILD:?}/slow_wire
[ -x "$wire" ] || skip "no $wire"

port=$((20000 + ($$ * 11) % 20000))
job="train --model mf:rank=4 --data zipf:rows=300,cols=60,cells=3000 --nodes 2 \
    --epochs 1000000 --on-loss degrade"
muster_in_background $job --node 0 --mesh "tcp:127.0.0.1:$port,127.0.0.1:$((port + 2))"
lead=$pid
wait_until 20 says /proc/net/tcp "0100007F:$(printf %04X "$port") .* 0A " ||
    fail "the lead does not listen"
"$wire" $((port + 1)) "$port" trickle 100000 > "$work/wire" 2> "$work/err.wire" &
wire_pid=$!
wait_until 10 says "$work/wire" listening || fail "no wire: $(cat "$work/err.wire")"
E2E_MARK=$mark "$MUSTER_BIN" $job --node 1 \
    --mesh "tcp:127.0.0.1:$((port + 1)),127.0.0.1:$((port + 2))" 2> "$work/err.node" &
node=$!
wait_until 30 says "$work/err.bg" "node 1 is lost: nothing was heard of it" ||
    fail "the node that trickles is not named: $(cat "$work/err.bg")"
kill -TERM "$lead"
wait_for "$lead"
[ "$code" -eq 130 ] || fail "lead: exit code $code: $(cat "$work/err.bg")"
kill -KILL "$wire_pid"
wait "$wire_pid" 2> /dev/null
wait_for "$node"
[ "$code" -eq 4 ] || fail "node: exit code $code: $(cat "$work/err.node")"
finish
