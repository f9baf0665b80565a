#!/usr/bin/env bash
# `muster bench scale`: every layout is run and reported, csv and svg are
# written, what it does not know is refused.
. "$(dirname "$0")/lib.sh"

bench=$(dirname "$MUSTER_BIN")/muster-bench-scale
[ -x "$bench" ] || { echo "skipped: muster-bench-scale is not built"; exit 77; }

"$bench" --task mf --data zipf:rows=3000,cols=600,cells=100000 --threads 1 --nodes 2 --epochs 1 --repeats 1 --json \
    --out "$work" > "$work/rows" 2> "$work/said" || fail "$(cat "$work/said")"
for name in mf_1x1 mf_2x1 mf_2x1_plain mf_2x1_efficiency mf_2x1_quality mf_2x1_waits mf_2x1_runs mf_2x1_apart\
    mf_2x1_limit; do
    grep -q "\"scale_$name\"" "$work/rows" || fail "no row scale_$name: $(cat "$work/rows")"
done
[ "$(grep -cE '^mf,[12],1,(usual|apart),1,' "$work/scale.csv")" -eq 3 ] || fail "csv: $(cat "$work/scale.csv")"
! grep -q nan "$work/scale.csv" || fail "csv: $(cat "$work/scale.csv")"
grep -q '</svg>' "$work/scale.svg" || fail "no svg"

# A graph: the plain loop is the task's own, and a node stops now and then.
mkdir "$work/graph"
for i in $(seq 60); do echo "e$((i % 12)) r$((i % 2)) e$((i % 7))"; done > "$work/graph/train.txt"
head -n 5 "$work/graph/train.txt" > "$work/graph/valid.txt"
tail -n 5 "$work/graph/train.txt" > "$work/graph/test.txt"
"$bench" --task complex_64 --data "$work/graph" --threads 1 --nodes 2 --quick --repeats 1 --json \
    > "$work/rows" 2> "$work/said" || fail "$(cat "$work/said")"
for name in 1x1_plain 2x1_plain 2x1_long 2x1_stopped; do
    grep -q "\"scale_complex_64_$name\"" "$work/rows" || fail "no row $name: $(cat "$work/rows" "$work/said")"
done

# What the figures are of is the data given.
grep -q ',"zipf:rows=3000,cols=600,cells=100000"$' "$work/scale.csv" || fail "size: $(cat "$work/scale.csv")"
# Runs that fail have no figures, which is null in JSON.
echo "no cells" > "$work/bad"
"$bench" --task mf --data "$work/bad" --threads 1 --nodes 2 --quick --repeats 1 --json > "$work/rows" 2> "$work/said"
[ $? -eq 1 ] || fail "runs that all fail: $(cat "$work/rows" "$work/said")"
grep -q '"scale_mf_1x1", "value": null' "$work/rows" || fail "no null: $(cat "$work/rows")"
! grep -q nan "$work/rows" || fail "not JSON: $(cat "$work/rows")"
# A task without its data is left out.
MUSTER_DATA=$work/none "$bench" --task complex --quick > "$work/rows" 2> "$work/said"
[ $? -eq 1 ] && [ ! -s "$work/rows" ] || fail "without data: $(cat "$work/rows")"
grep -q "^muster-bench-scale: complex: left out without data$" "$work/said" || fail "no reason: $(cat "$work/said")"

for wrong in "--task none" "--nodes 0" "--nodes 2x" "--threads 1x2" "--repeats" "--minutes 0"; do
    # shellcheck disable=SC2086
    "$bench" $wrong > /dev/null 2>&1
    [ $? -eq 2 ] || fail "$wrong is not refused"
done
finish
