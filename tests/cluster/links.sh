#!/usr/bin/env bash
# Five machines as network namespaces, joined by a bridge, each link at 200
# Mbit/s (tbf). A link goes down for 5 s: its worker is lost within 3 s, the run
# goes on with the others, and the worker comes back by itself.
. "$(dirname "$0")/lib.sh"
[ "$(id -u)" -eq 0 ] || skip "needs root"
prefix=m$$
ip netns add ${prefix}hub 2> /dev/null || skip "no network namespaces here"

remove_machines() {
    local i
    cleanup
    for i in hub 0 1 2 3 4; do
        ip netns del "$prefix$i" 2> /dev/null
    done
}
trap remove_machines EXIT

hub() { ip -n ${prefix}hub "$@"; }

make_machines() {
    local i
    hub link add bridge type bridge || return 1
    hub link set bridge up
    for i in 0 1 2 3 4; do
        ip netns add "$prefix$i" || return 1
        ip link add "v$i" netns ${prefix}hub type veth peer name eth0 netns "$prefix$i" || return 1
        hub link set "v$i" master bridge up
        ip -n "$prefix$i" addr add "10.77.0.1$i/24" dev eth0
        ip -n "$prefix$i" link set eth0 up
        ip -n "$prefix$i" link set lo up
        tc -n "$prefix$i" qdisc add dev eth0 root tbf rate 200mbit burst 64kb latency 50ms || return 1
    done
}
make_machines || skip "no bridge, veth or tbf here"

on() { # on MACHINE COMMAND..
    local machine=$1
    shift
    ip netns exec "$prefix$machine" "$@"
}

steps() { wc -l < "$work/run/metrics.jsonl"; }
beyond() { [ "$(steps)" -gt "$1" ]; }

start() {
    local i
    rm -rf "$work/run"
    # shellcheck disable=SC2086
    on 0 "$MUSTER_BIN" $job --steps 100000 --workers 4 --listen 10.77.0.10:7700 \
        --run "$work/run" "$@" > "$work/out.bg" 2> "$work/err.bg" &
    coordinator=$!
    wait_until 20 says "$work/err.bg" "muster join" || fail "no coordinator: $(cat "$work/err.bg")"
    for i in 1 2 3 4; do
        on $i "$MUSTER_BIN" join 10.77.0.10:7700 --patience 60s "$@" 2> "$work/err.$i" &
    done
    wait_until 30 has_lines "$work/run/metrics.jsonl" 20 || fail "no step: $(cat "$work/err.bg")"
}

stop() {
    kill -TERM "$(coordinator_pid)"
    wait "$coordinator"
    wait_until 20 none_left || fail "left running: $(marked)"
}

coordinator_pid() {
    local one
    for one in $(marked); do
        tr '\0' ' ' < "/proc/$one/cmdline" | grep -q -- --listen && echo "$one"
    done
}

loses_and_regains() {
    start "$@"
    hub link set v2 down
    wait_until 10 says "$work/err.bg" "worker [0-3] is lost" ||
        fail "not lost: $(cat "$work/err.bg")"
    local at silent
    silent=$(sed -n 's/.*worker [0-3] is lost: .*no sign of life for \([0-9.]*\) s.*/\1/p' "$work/err.bg")
    at_least 3 "$silent" || fail "not lost within 3 s: $(cat "$work/err.bg")"
    echo "lost after $silent s"
    at=$(steps)
    wait_until 2 beyond $((at + 10)) || fail "the run does not go on: $at, then $(steps)"
    sleep 2 # the outage itself: 5 s in all
    hub link set v2 up
    wait_until 20 says "$work/err.bg" "worker [0-3] is back" ||
        fail "not back: $(cat "$work/err.bg") $(cat "$work/err.2")"
    at=$(steps)
    wait_until 5 beyond $((at + 10)) || fail "the run does not go on: $at, then $(steps)"
    stop
}

export UCX_NET_DEVICES=eth0
it "a link is down for 5 s" loses_and_regains --key-file "$work/run.key"
it "a link is down for 5 s, by UCX" by_ucx loses_and_regains --key-file "$work/run.key"
finish
