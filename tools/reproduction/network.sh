# A training run over a network of a known speed; sourced by tools/reproduce.
#
# As root every machine of the run has a network namespace of its own. Its link
# to one bridge passes a token bucket (tbf) each way, so that the limit is the
# kernel's and holds for all connections of a machine together. Elsewhere the
# same limit is muster's own --bandwidth. $links gets a line that says which.
# Runs at the same time have networks of their own.

network_prefix=mr$$

network_has_namespaces() {
    [ "${REPRODUCE_NETWORK:-}" != bandwidth ] && [ "$(id -u)" -eq 0 ] &&
        command -v ip > /dev/null && command -v tc > /dev/null || return 1
    # Being root in a container may not suffice.
    ip netns add "$network_prefix-try" 2> /dev/null || return 1
    ip -n "$network_prefix-try" link add name veth0 type veth peer name veth1 2> /dev/null &&
        ip netns exec "$network_prefix-try" \
            tc qdisc add dev veth0 root tbf rate 1mbit burst 32kb limit 64kb 2> /dev/null
    local answer=$?
    ip netns del "$network_prefix-try"
    return $answer
}

# Sets $network: namespaces or bandwidth.
network_choose() {
    [ -z "${network:-}" ] || return 0
    network=bandwidth
    ! network_has_namespaces || network=namespaces
}

network_limit() { # NAMESPACE DEVICE MBIT
    ip netns exec "$1" tc qdisc replace dev "$2" root \
        tbf rate "$3mbit" burst 32kb limit 16mb
}

# network_open WORKERS MBIT: machines 0 (the coordinator) to WORKERS.
network_open() {
    local i switch=$network_prefix-s
    network_close
    ip netns add "$switch"
    ip -n "$switch" link add name bridge type bridge
    ip -n "$switch" link set bridge up
    for i in $(seq 0 "$1"); do
        ip netns add "$network_prefix-$i"
        ip -n "$switch" link add name "port$i" type veth peer name veth0 netns "$network_prefix-$i"
        ip -n "$switch" link set "port$i" master bridge up
        ip -n "$network_prefix-$i" addr add "10.77.0.$((i + 1))/24" dev veth0
        ip -n "$network_prefix-$i" link set veth0 up
        ip -n "$network_prefix-$i" link set lo up
        network_limit "$network_prefix-$i" veth0 "$2"
        network_limit "$switch" "port$i" "$2"
    done
}

network_close() {
    local name
    for name in $(ip netns list 2> /dev/null | awk -v p="$network_prefix-" \
        'index($1, p) == 1 { print $1 }'); do
        ip netns del "$name"
    done
}
trap 'network_close 2> /dev/null || true' EXIT

# network_train WORKERS MBIT DELAY SEED ARGS: a run; prints its summary as
# JSON. DELAY is a model of --delay, or none.
network_train() {
    local workers=$1 mbit=$2 delay=$3 seed=$4 i status=0
    local slow=(--seed "$4") joined=() network_prefix=$network_prefix-$BASHPID
    shift 4
    [ "$delay" = none ] || slow+=(--delay "$delay")
    if [ "$network" = bandwidth ]; then
        echo "links by --bandwidth" >> "$links"
        muster train --local "$workers" --bandwidth "$mbit" "${slow[@]}" "$@" --json --quiet
        return
    fi
    echo "links by namespaces with tbf" >> "$links"
    network_open "$workers" "$mbit"
    for i in $(seq "$workers"); do
        ip netns exec "$network_prefix-$i" "$MUSTER_BIN" join 10.77.0.1:7700 \
            --worker $((i - 1)) --workers "$workers" "${slow[@]}" --quiet 2>> "$log" &
        joined+=($!)
    done
    echo "\$ muster train --listen 10.77.0.1:7700 --insecure --workers $workers --seed $seed $*" >> "$log"
    ip netns exec "${network_prefix}-0" timeout -k 5 300 "$MUSTER_BIN" train \
        --listen 10.77.0.1:7700 --insecure --workers "$workers" --seed "$seed" "$@" --json --quiet \
        2>> "$log" || status=$?
    for i in "${joined[@]}"; do
        wait "$i" || status=$?
    done
    network_close
    [ $status -eq 0 ] || failed "muster train $*"
}
