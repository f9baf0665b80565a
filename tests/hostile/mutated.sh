#!/usr/bin/env bash
# Files that were altered: models, checkpoints, run folders, cluster files,
# owners of samples, trained tables. Each is given to the verb that reads it. It
# is refused with an exit code of the table, or the result is that of the whole
# file; no altered model or checkpoint is taken for a whole one, and nothing
# crashes, hangs, or lets a sanitizer complain.
#
# Usage: MUSTER_BIN=.. MUSTER_BUILD=.. tests/hostile/mutated.sh FIRST COUNT
# [SECONDS]: mutations FIRST.. of every kind of file, at most COUNT, and no more
# after SECONDS.
first=${1:-1}
count=${2:-20}
until=$((SECONDS + ${3:-600}))
script=$(realpath "$0")
. "$(dirname "$script")/../e2e/lib.sh"
: "${MUSTER_BUILD:?set MUSTER_BUILD to the build folder}"
mutate=$MUSTER_BUILD/mutate
[ -x "$mutate" ] || { fail "$mutate was not built"; finish; }
limit=${E2E_LIMIT:-30}
data=synthetic:samples=300,features=8,classes=3,seed=4
declare -A refused taken

# altered NAME FROM TO: a mutation of this seed.
altered() {
    name=$1
    "$mutate" "$seed" "$2" "$3" || fail "mutate $seed $2"
}

# read_by ARGS..: what muster makes of it: $code.
read_by() {
    muster "$@" > "$work/out"
    code=$?
    no_sanitizer_report "$work/err"
    # 124: it was long, and ended when asked to.
    [ "$code" -le 5 ] || [ "$code" -eq 124 ] || {
        fail "$name, mutation $seed: exit code $code of muster $*: $(tail -n 3 "$work/err")"
        echo "  again: MUSTER_BIN=$MUSTER_BIN MUSTER_BUILD=$MUSTER_BUILD $script $seed 1" >&2
    }
    [ "$code" -eq 0 ] && taken[$name]=$((${taken[$name]:-0} + 1)) ||
        refused[$name]=$((${refused[$name]:-0} + 1))
}

# ---- whole files -------------------------------------------------------------

run=$work/run
expect 0 train --data $data --local 2 --steps 20 --checkpoint-every 5 --run "$run" --json --quiet || finish
theta=$(value theta_norm < "$work/out")
expect 0 predict "$run/model.safetensors" --data $data --out "$work/predicted" || finish
expect 0 train --model mf:rank=4 --data zipf:rows=60,cols=20,cells=600,rank=2 --epochs 2 --run "$work/mf" --quiet || finish
expect 0 partition --data $data --workers 2 --out "$work/owners.npy" --json || finish
cluster=$run/cluster.yaml
newest=$(ls "$run"/checkpoint/*.safetensors | tail -n 1)

# ---- altered ones ------------------------------------------------------------

one_round() {
    altered model "$run/model.safetensors" "$work/model.safetensors"
    read_by predict "$work/model.safetensors" --data $data --out "$work/again"
    [ "$code" -ne 0 ] || cmp -s "$work/predicted" "$work/again" ||
        fail "model, mutation $seed: taken for a whole one"

    # The newest checkpoint: the one before it serves, and the end is the same.
    rm -rf "$work/copy" && cp -r "$run" "$work/copy"
    altered checkpoint "$newest" "$work/copy/checkpoint/$(basename "$newest")"
    read_by train --resume "$work/copy" --steps 22 --json --quiet
    [ "$code" -ne 0 ] || close "$(value theta_norm < "$work/out")" "$longer" 1e-5 ||
        fail "checkpoint, mutation $seed: taken for a whole one"

    rm -rf "$work/copy" && cp -r "$run" "$work/copy"
    altered config.json "$run/config.json" "$work/copy/config.json"
    read_by train --resume "$work/copy" --steps 22 --quiet
    rm -rf "$work/copy" && cp -r "$run" "$work/copy"
    altered metrics.jsonl "$run/metrics.jsonl" "$work/copy/metrics.jsonl"
    read_by train --resume "$work/copy" --steps 22 --quiet

    altered cluster "$cluster" "$work/cluster.yaml"
    read_by plan --cluster "$work/cluster.yaml" --json
    altered owners "$work/owners.npy" "$work/altered.npy"
    read_by train --data $data --local 2 --steps 2 --placement "$work/altered.npy" --quiet

    rm -rf "$work/copy" && cp -r "$work/mf" "$work/copy"
    altered ps-checkpoint "$(ls "$work"/mf/checkpoint/*.safetensors | tail -n 1)" \
        "$work/copy/checkpoint/$(basename "$(ls "$work"/mf/checkpoint/*.safetensors | tail -n 1)")"
    read_by train --resume "$work/copy" --epochs 3 --quiet
}

cp -r "$run" "$work/copy"
expect 0 train --resume "$work/copy" --steps 22 --json --quiet || finish
longer=$(value theta_norm < "$work/out")
close "$theta" "$longer" 1e-9 && fail "two more steps change nothing"
# The other whole files are read by these commands.
expect 0 plan --cluster "$cluster" --json || finish
expect 0 train --data $data --local 2 --steps 2 --placement "$work/owners.npy" --quiet || finish
rounds=0
for ((seed = first; seed < first + count && SECONDS < until; seed++)); do
    one_round
    rounds=$((rounds + 1))
done
echo "$rounds mutations of each file:"
for name in model checkpoint config.json metrics.jsonl cluster owners ps-checkpoint; do
    echo "  $name: ${refused[$name]:-0} refused, ${taken[$name]:-0} read"
done
finish
