#!/usr/bin/env bash
# `muster bench scale`: every layout is run and reported, csv and svg are
# written, what it does not know is refused.
. "$(dirname "$0")/lib.sh"

bench=$(dirname "$MUSTER_BIN")/muster-bench-scale
[ -x "$bench" ] || { echo "skipped: muster-bench-scale is not built"; exit 77; }

"$bench" --task mf --data zipf:rows=3000,cols=600,cells=100000 --threads 1 --nodes 2 --epochs 1 --repeats 1 --json \
    --out "$work" > "$work/rows" 2> "$work/said" || fail "$(cat "$work/said")"
for name in mf_1x1 mf_2x1 mf_2x1_plain mf_2x1_efficiency mf_2x1_quality mf_2x1_waits; do
    grep -q "\"scale_$name\"" "$work/rows" || fail "no row scale_$name: $(cat "$work/rows")"
done
[ "$(grep -c '^mf,[12],[12],usual,1,' "$work/scale.csv")" -eq 2 ] || fail "csv: $(cat "$work/scale.csv")"
! grep -q nan "$work/scale.csv" || fail "csv: $(cat "$work/scale.csv")"
grep -q '</svg>' "$work/scale.svg" || fail "no svg"
for wrong in "--task none" "--nodes 0" "--nodes 2x" "--threads 1x2" "--repeats" "--minutes 0"; do
    # shellcheck disable=SC2086
    "$bench" $wrong > /dev/null 2>&1
    [ $? -eq 2 ] || fail "$wrong is not refused"
done
finish
