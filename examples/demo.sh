#!/usr/bin/env bash
# Muster in a minute: one training job on eight local workers, three times.
#   1. all eight are well, and every step waits for all of them
#   2. two of them are slow (200 ms a step), and every step waits for all
#   3. the same two are slow, one more is killed midway, and a gradient code
#      lets every step end without the slowest three
# Everything printed is measured in this run. Usage: demo.sh MUSTER
set -euo pipefail
muster=$(realpath "${1:-build/release/muster}")
[ -x "$muster" ] || { echo "demo: $muster is not there; run make first" >&2; exit 2; }

work=$(mktemp -d "${TMPDIR:-/tmp}/muster-demo-XXXXXX")
trap 'rm -rf "$work"' EXIT

job=(--data synthetic:samples=20000,features=100,classes=10,seed=7
    --model softmax --batch 2000 --lr 0.5 --local 8 --steps 80)
slow=(--slow 2:200ms --slow 5:200ms)

# run NAME TITLE ARGS: one run; its summary goes to $work/NAME.json.
run() {
    local name=$1 title=$2
    shift 2
    printf '\n== %s\n   muster train %s\n' "$title" "${job[*]} $*"
    "$muster" train "${job[@]}" "$@" --json > "$work/$name.json"
}

run well "1. eight workers, all well; every step waits for all" --code uncoded
run wait "2. two of them slow; every step waits for all" \
    --code uncoded "${slow[@]}"
run code "3. two slow, one killed at step 40; the code goes on without three" \
    --code frc --stragglers 3 "${slow[@]}" --kill 6@40

# number KEY FILE: the first value of a key in a JSON file.
number() {
    sed -n "s/.*\"$1\": *\([-+.0-9eE]*\).*/\1/p" "$2" | head -n 1
}

# workers CLASS FILE: the numbers of the workers of a class.
workers() {
    tr -d ' \n' < "$2" | grep -o "\"id\":[0-9]*,\"class\":\"$1\"" |
        sed 's/"id":\([0-9]*\).*/\1/' | paste -sd ' ' -
}

row() {
    local file=$work/$1.json
    printf '%-34s %9.1f %9.1f %9.1f %9.4f %9.4f   %-6s %s\n' "$2" \
        "$(number p50 "$file")" "$(number p90 "$file")" \
        "$(number wall_s "$file")" "$(number loss "$file")" \
        "$(number accuracy "$file")" "$(workers slow "$file")" \
        "$(workers lost "$file")"
}

printf '\n%-34s %9s %9s %9s %9s %9s   %-6s %s\n' "80 steps, 8 workers" \
    "p50 ms" "p90 ms" "total s" "loss" "accuracy" "slow" "lost"
row well "all well, waiting for all"
row wait "two slow, waiting for all"
row code "two slow, one killed, coded"
awk -v a="$(number p50 "$work/wait.json")" -v b="$(number p50 "$work/code.json")" \
    'BEGIN { printf "\nWith the code a step took %.0f times less time, for the same model.\n", a / b }'
