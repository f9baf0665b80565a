#!/usr/bin/env bash
# How long a step waits, in virtual time. An approximate code goes on with
# n - s answers: with the same s it is no slower than the exact cyclic code (crc)
# on the same delays. cyclic-mds may be: it is ready with fewer than n - s answers
# where the set allows, and exact with them. An exact code under a deadline that half of its steps miss trains,
# says how far off those steps are, and ends near the uncoded loss.
. "$(dirname "$0")/lib.sh"

# field NAME KEY: the first such value of one code in the output of simulate.
field() {
    awk -v name="\"$1\"," -v key="\"$2\":" '
        $1 == "\"name\":" { within = $2 == name }
        within && $1 == key { sub(/,$/, "", $2); print $2; exit }' "$work/out"
}

# not_slower S OPTIONS: every approximate code with the same s against crc,
# computing left out; cyclic-mds is told beside them.
not_slower() {
    local s=$1 name
    shift
    expect 0 simulate --json --quiet --compute 1us --seed 3 "$@" \
        --code "ignore:s=$s+bgc:s=$s+rbgc:s=$s+sgc:s=$s+erasurehead:s=$s+${graph}s=$s+cyclic-mds:s=$s+crc:s=$s" || return
    echo "s=$s $*:$(for name in ignore bgc rbgc sgc erasurehead graph cyclic-mds crc; do
        echo -n " $name $(field $name mean)"; done) ms"
    for name in ignore bgc rbgc sgc erasurehead graph; do
        awk -v a="$(field $name mean)" -v e="$(field crc mean)" \
            'BEGIN { exit !(a <= e * 1.001) }' ||
            fail "$*: $name takes $(field $name mean) ms, crc $(field crc mean) ms"
    done
}

graph=graph:
small="--data synthetic:samples=1200,features=20,classes=5,seed=3"
# shellcheck disable=SC2086
not_slower 1 $small --local 6 --steps 300 --delay exponential:mean=50ms
# shellcheck disable=SC2086
not_slower 2 $small --local 6 --steps 300 --delay exponential:mean=50ms
# shellcheck disable=SC2086
not_slower 2 $small --local 12 --steps 100 --delay pareto:scale=50ms,shape=1.5
awk 'BEGIN { srand(7); print "iteration,worker,seconds"
    for (i = 0; i < 60; i++) for (w = 0; w < 12; w++)
        print i "," w "," (1 + 0.1 * rand()) * (w == 3 && rand() < 0.8 ? 9 : rand() < 0.05 ? 4 : 1) }' > "$work/trace.csv"
# shellcheck disable=SC2086
not_slower 1 $small --local 12 --steps 60 --delay "trace:file=$work/trace.csv"

# Times of real machines: workers and steps of each trace.
traces=${MUSTER_DATA:-../shared/data}/ec2-traces
for of in "2 15 100" "3 8 50" "4 10 311"; do
    read -r trace workers steps <<< "$of"
    [ -f "$traces/trace$trace.csv" ] || continue
    # A 3-regular graph needs a multiple of 3 edges.
    [ $((workers % 3)) -eq 0 ] && graph=graph: || graph=graph:degree=2,
    for s in 1 2 3; do
        not_slower $s --local "$workers" --steps "$steps" --delay "trace:file=$traces/trace$trace.csv"
    done
done

# half_missed JOB: deadlines at each code's own median step. What came by then may
# be exact though `ready` waits for more, so fewer steps may be inexact.
half_missed() {
    local code name uncoded deadline
    expect 0 simulate --json --quiet "$@" --code uncoded || return
    uncoded=$(field uncoded loss)
    for code in $codes; do
        expect 0 simulate --json --quiet "$@" --code "$code" || continue
        name=$(sed -n 's/.*"name": "\(.*\)",.*/\1/p' "$work/out" | head -n 1)
        deadline=$(field "$name" p50)
        expect 0 simulate --json "$@" --code "$code" --deadline "${deadline%%.*}ms" || continue
        says "$work/err" 'goes on approximately' || fail "$code: the deadline was not told of"
        awk -v d="$(field "$name" degraded)" -v n="$(field "$name" steps)" -v e="$(field "$name" grad_err_max)" \
            'BEGIN { exit !(d > 0.1 * n && d < 0.75 * n && e > 0.05 && e < 1) }' ||
            fail "$code: $(field "$name" degraded) steps degraded, grad_err_max $(field "$name" grad_err_max)"
        awk -v l="$(field "$name" loss)" -v u="$uncoded" 'BEGIN { exit !(l <= 1.02 * u) }' ||
            fail "$code: loss $(field "$name" loss), uncoded $uncoded"
        echo "$code: deadline ${deadline%%.*} ms, $(field "$name" degraded) degraded, grad_err_max $(field "$name" grad_err_max), loss $(field "$name" loss) of $uncoded"
    done
}

codes="uncoded frc:s=1 crc:s=1 cyclic-mds:s=1 rs:s=1 ye-abbe:s=1,m=2 ye-abbe-random:s=1,m=2
    ye-abbe-tuned:s=1,m=2 heter:s=1 heter-group:s=1 linear:tuned:s=1,m=2 linear:gaussian:s=1,m=2
    linear:vandermonde:s=1,m=2 linear:repetition:s=1 linear:spc
    ye-abbe:s=1,m=3 ye-abbe:s=3,m=3 ye-abbe-random:s=2,m=3 linear:vandermonde:s=1,m=3
    linear:hamming"
# shellcheck disable=SC2086
half_missed $small --local 8 --batch 100 --steps 600 --delay exponential:mean=50ms
# On mnist, for as many steps as asked for: the table of docs/training.md.
mnist=${MUSTER_DATA:-../shared/data}/mnist
if [ -n "${MUSTER_DEADLINE_STEPS:-}" ] && [ -d "$mnist" ]; then
    job=(--data "$mnist" --batch 512 --steps "$MUSTER_DEADLINE_STEPS" --delay exponential:mean=50ms)
    half_missed --local 8 "${job[@]}"
    codes=linear:product
    half_missed --local 9 "${job[@]}" # its block length
fi
none_left || fail "left running: $(marked)"
finish
