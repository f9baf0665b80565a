#!/usr/bin/env bash
# Random faults: runs of four codes and of the parameter server in which workers
# or nodes are killed, stopped, continued, cut off (by a wire that goes bad, and
# as root by a network namespace), trickle, send NaN; the disk is full; the
# coordinator is asked to end, or is killed and its run resumed.
#
# Every run ends within its limit with the exact result, with a degraded one
# that is named, or with an exit code of the table that fits its fault. No
# process and no folder is left.
#
# Usage: MUSTER_BIN=.. MUSTER_BUILD=.. tests/hostile/faults.sh [FIRST [COUNT]]
# runs seeds FIRST, FIRST + 1, ..; of a seed that fails the command is printed.
first=${1:-1}
count=${2:-100}
script=$(realpath "$0")
if [ "$(id -u)" -eq 0 ] && [ -z "${FAULTS_NET:-}" ] && command -v ip > /dev/null && unshare -n true 2> /dev/null; then
    # A network of our own: loopback, and a link that can be cut.
    FAULTS_NET=own exec unshare -n bash "$script" "$first" "$count"
fi
. "$(dirname "$script")/../e2e/lib.sh"
: "${MUSTER_BUILD:?set MUSTER_BUILD to the build folder}"
plugin=$MUSTER_BUILD/liar_model.so
wire=$MUSTER_BUILD/slow_wire
for needed in "$plugin" "$wire"; do
    [ -e "$needed" ] || { fail "$needed was not built"; finish; }
done
limit=${E2E_LIMIT:-40}
workers=6 # of which the codes do without 2
steps=150
dense="--model $plugin --allow-model $plugin --data synthetic:samples=600,features=20,classes=2,seed=4 --target value
    --batch 0 --lr 0.01 --optimizer sgd --steps $steps --heartbeat 300ms --patience 2s --json"
sparse="--model mf:rank=8,decay=0.9 --data zipf:rows=600,cols=200,cells=60000,rank=2 --optimizer adagrad --lr 0.2
    --epochs 25 --nodes 3 --threads 1 --heartbeat 300ms --json"
delay=constant:delay=4ms
declare -A outcomes

if [ "${FAULTS_NET:-}" = own ]; then
    ip link set lo up
    unshare -n sleep infinity &
    far=$! # holds the other network
    trap 'kill $far; cleanup' EXIT
    wait_until 10 test "$(readlink /proc/self/ns/net)" != "$(readlink /proc/$far/ns/net)"
    ip link add near type veth peer name far netns $far && ip address add 10.77.0.1/24 dev near &&
        ip link set near up && nsenter -t $far -n ip address add 10.77.0.2/24 dev far &&
        nsenter -t $far -n ip link set far up || FAULTS_NET=none
fi

# draw N: a number in 0..N-1 in $drawn.
draw() { drawn=$((RANDOM % $1)); }

complain() {
    echo "FAIL: seed $seed: $what: $*" >&2
    echo "  again: MUSTER_BIN=$MUSTER_BIN MUSTER_BUILD=$MUSTER_BUILD $script $seed 1" >&2
    tail -n 3 "$work/err.bg" | sed 's/^/  /' >&2
    failures=$((failures + 1))
    return 1
}

# ---- a run -------------------------------------------------------------------

start() {
    # shellcheck disable=SC2086
    muster_in_background "$@"
}

# has_come N: so many lines of metrics are written, or the run has ended.
has_come() { has_lines "$folder/metrics.jsonl" "$1" || gone "$pid"; }

# worker I: its pid, started by the run or by this script.
worker() {
    [ -n "${joined[$1]:-}" ] && { echo "${joined[$1]}"; return; }
    local child
    for child in $(pgrep -P "$pid"); do
        tr '\0' ' ' < "/proc/$child/cmdline" 2> /dev/null | grep -q -- "$([ $product = ps ] && echo --node || echo --worker) $1 " &&
            echo "$child"
    done
}

hit() { # SIGNAL I
    local victim
    victim=$(worker "$2")
    [ -z "$victim" ] || kill -"$1" "$victim" 2> /dev/null
    return 0
}

# join I PREFIX..: worker I comes by itself, started by PREFIX.
join() {
    local i=$1
    shift
    # shellcheck disable=SC2086
    E2E_MARK=$mark "$@" "$MUSTER_BIN" join "$address" $key --worker "$i" --allow-model "$plugin" --slow "$i:4ms" \
        --patience 2s --quiet 2> "$work/err.$i" &
    joined[i]=$!
}

# ---- what may come of it -----------------------------------------------------

number() { value "$1" < "$work/out.bg"; }

is_exact() {
    if [ $product = ps ]; then
        # The order of updates differs, and lost ones are named.
        awk -v a="$(number rmse)" -v b="$rmse" 'BEGIN { exit !(a != "" && a <= 1.3 * b) }'
    else
        close "$(number theta_norm)" "$theta" 1e-4 && close "$(number loss)" "$loss" 1e-4 &&
            [ "$(number exact)" = true ]
    fi
}

is_named() { says "$work/err.bg" 'is lost\|is left\|not finite\|went away\|lost the'; }

# judge CODES..: the exit code is one of these, and fits what is said.
judge() {
    local allowed=" $* "
    [[ $allowed == *" $code "* ]] || { complain "exit code $code, not one of$allowed"; return; }
    outcome=$code
    case $code in
        0) if is_exact; then
               outcome=exact
           elif [ $product = uncoded ] && [ "$(number exact)" = false ] && is_named; then
               outcome=degraded
           else
               complain "loss $(number loss), theta $(number theta_norm), rmse $(number rmse), exact $(number exact): not $loss, $theta, $rmse"
           fi ;;
        1) says "$work/err.bg" '^muster: .*\(No space\|too large\|files are limited\)' || complain "the disk is not named" ;;
        4) is_named || complain "who was lost is not said" ;;
    esac
}

tidy_up() {
    local i
    for i in "${!joined[@]}"; do # ours, and perhaps lost: they try again
        kill -KILL "${joined[$i]}" 2> /dev/null
        wait "${joined[$i]}" 2> /dev/null
    done
    if [ -n "$wire_pid" ]; then
        kill -KILL "$wire_pid"
        wait "$wire_pid"
    fi 2> /dev/null
    wait_until 10 none_left || complain "left running: $(marked)"
    if [ "$(ls -A "$XDG_RUNTIME_DIR")" != "" ] && [ "$fault" != lead ]; then
        complain "left behind: $(ls "$XDG_RUNTIME_DIR")"
    fi
    rm -rf "$XDG_RUNTIME_DIR"/* "$folder"
}

# ---- faults ------------------------------------------------------------------

# The exit codes that a fault of $victims workers may lead to.
codes_of() {
    if [ $product = uncoded ] || [ "$victims" -le 2 ]; then
        echo 0
    else
        echo 0 4 # all may have been done before, or the workers came back
    fi
}

hit_some() { # SIGNAL [SIGNAL after some more steps]
    local i
    for ((i = 0; i < victims; i++)); do
        hit "$1" $(((one + i) % workers))
    done
    [ $# -lt 2 ] && return
    draw 30
    wait_until 3 has_come $((at + drawn)) # it may wait for these very workers
    for ((i = 0; i < victims; i++)); do
        hit "$2" $(((one + i) % workers))
    done
}

run_coded() {
    local code_options="--code $product" i expected=0
    [ $product = uncoded ] && code_options="$code_options --on-loss degrade" || code_options="$code_options --stragglers 2"
    what="$product $fault of $victims at step $at"
    case $fault in
        trickle | cut | nan | partition)
            port=$((20000 + (seed * 7 + $$) % 12000)) # below those that connections are given
            address=tcp:127.0.0.1:$port
            draw 2
            [ "$drawn" -eq 1 ] && key="--key-file $work/run.key"
            [ $fault = partition ] && address=tcp:10.77.0.1:$port key="--key-file $work/run.key"
            # shellcheck disable=SC2086
            start train $dense $code_options $key --workers $workers --listen "$address" --run "$folder"
            wait_until 20 says "$work/err.bg" 'waiting for' || complain "no coordinator"
            for ((i = 0; i < workers; i++)); do
                [ $i -ne $one ] || case $fault in
                    nan) join $i env LIE=nan; continue ;;
                    partition) join $i nsenter -t $far -n; continue ;;
                    *)
                        local straight=$address
                        "$wire" $((port + 1)) "$port" $fault $((400 + at * 200)) > "$work/wire" 2> "$work/err.wire" &
                        wire_pid=$!
                        wait_until 10 says "$work/wire" listening || complain "no wire: $(cat "$work/err.wire")"
                        address=tcp:127.0.0.1:$((port + 1))
                        join $i env
                        address=$straight
                        continue ;;
                esac
                join $i env
            done
            if [ $fault = partition ]; then
                wait_until 20 has_come "$at"
                ip link set near down
                draw 60
                wait_until 3 has_come $((at + drawn))
                ip link set near up
            fi
            wait_for "$pid"
            judge 0 ;;
        disk)
            draw 64
            start_limited $((drawn + 1)) "$dense $code_options --local $workers"
            wait_for "$pid"
            judge 0 1 ;;
        *)
            # shellcheck disable=SC2086
            start train $dense $code_options --local $workers --delay $delay --run "$folder" --checkpoint-every 20
            wait_until 20 has_come "$at"
            case $fault in
                kill) hit_some KILL ;;
                stop) hit_some STOP ;;
                continue) hit_some STOP CONT ;;
                end) kill -TERM "$pid"; expected=130 ;;
                lead) kill -KILL "$pid"; expected=137 ;;
            esac
            wait_for "$pid"
            [ $expected = 0 ] && { judge $(codes_of); return; }
            resume $expected "$dense" ;;
    esac
}

# A run whose files may not grow beyond so many kB.
start_limited() {
    rm -f "$work/out.bg" "$work/err.bg"
    # shellcheck disable=SC2086
    (ulimit -f "$1" && E2E_MARK=$mark exec "$MUSTER_BIN" train $2 --run "$folder") \
        > "$work/out.bg" 2> "$work/err.bg" &
    pid=$!
}

# It was ended or killed: resumed, the result is that of an undisturbed run.
resume() { # EXPECTED OPTIONS
    [ "$code" -eq 0 ] && { judge 0; return; } # it was faster
    [ "$code" -eq "$1" ] || { complain "exit code $code, not $1"; return; }
    outcome=$1
    wait_until 10 none_left || complain "outlive the coordinator: $(marked)"
    local allowed="--allow-model $plugin"
    [ $product = ps ] && allowed=
    # shellcheck disable=SC2086
    start train --resume "$folder" $allowed --json
    wait_for "$pid"
    judge 0 && outcome=resumed
}

# Nodes started by hand, the last of them in the other network.
start_apart() {
    local i port=$((20000 + (seed * 7 + $$) % 12000))
    local mesh="--mesh tcp:10.77.0.1:$port,10.77.0.1:$((port + 1)),10.77.0.2:$port --key-file $work/run.key"
    # shellcheck disable=SC2086
    start train $sparse $mesh --node 0 --run "$folder"
    for i in 1 2; do
        # shellcheck disable=SC2086
        E2E_MARK=$mark $([ $i -eq 2 ] && echo "nsenter -t $far -n") "$MUSTER_BIN" train $sparse $mesh --node $i \
            --run "$folder" > /dev/null 2> "$work/err.$i" &
        joined[i]=$!
    done
}

run_sparse() {
    local expected=0
    workers=3
    victims=$((victims > 2 ? 2 : victims))
    one=$((1 + one % 2)) # node 0 leads
    what="ps $fault of node $one at epoch $at"
    case $fault in
        disk)
            draw 120
            start_limited $((drawn + 1)) "$sparse"
            wait_for "$pid"
            judge 0 1
            return ;;
        partition) start_apart ;;
        *)
            # shellcheck disable=SC2086
            start train $sparse --run "$folder" ;;
    esac
    wait_until 20 has_come "$at"
    case $fault in
        kill) hit KILL $one ;;
        stop) hit STOP $one ;;
        continue)
            hit STOP $one
            wait_until 1 has_come $((at + 3))
            hit CONT $one ;;
        end) kill -TERM "$pid"; expected=130 ;;
        lead) kill -KILL "$pid"; expected=137 ;;
        partition)
            ip link set near down
            wait_until 2 has_come $((at + 5))
            ip link set near up ;;
    esac
    wait_for "$pid"
    [ $expected = 0 ] && judge 0 || resume $expected
}

# ---- all of them -------------------------------------------------------------

one_seed() {
    local products=(uncoded frc cyclic-mds linear:tuned ps) coded=(kill stop continue end lead disk nan trickle cut)
    RANDOM=$seed
    joined=()
    wire_pid=
    key=
    folder=$work/run
    outcome=failed
    workers=6
    [ "${FAULTS_NET:-}" = own ] && coded+=(partition)
    product=${products[seed % 5]}
    if [ $product = ps ]; then
        coded=(kill stop continue end lead disk)
        [ "${FAULTS_NET:-}" = own ] && coded+=(partition)
        draw 20
    else
        draw $((steps - 20))
    fi
    at=$((drawn + 1))
    draw ${#coded[@]} && fault=${coded[drawn]}
    draw 3 && victims=$((drawn + 1))
    draw 6 && one=$drawn
    rm -rf "$folder"
    if [ $product = ps ]; then run_sparse; else run_coded; fi
    tidy_up
    outcomes[$product $outcome]=$((${outcomes[$product $outcome]:-0} + 1))
}

(umask 077 && "$MUSTER_BIN" key > "$work/run.key") || { fail "no key"; finish; }
what=undisturbed
seed=0
folder=$work/none
product=uncoded
# shellcheck disable=SC2086
start train $dense --local $workers
wait_for "$pid"
[ "$code" -eq 0 ] || { complain "exit code $code"; finish; }
theta=$(number theta_norm)
loss=$(number loss)
# shellcheck disable=SC2086
start train $sparse
wait_for "$pid"
[ "$code" -eq 0 ] || { complain "exit code $code"; finish; }
rmse=$(number rmse)
for ((seed = first; seed < first + count; seed++)); do
    one_seed
done
echo "seeds $first..$((first + count - 1)), network ${FAULTS_NET:-loopback}:"
for key in "${!outcomes[@]}"; do
    echo "  $key: ${outcomes[$key]}"
done | sort
finish
