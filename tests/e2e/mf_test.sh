#!/usr/bin/env bash
# Matrix factorisation with its defaults: it learns what it was not tuned for,
# stops when held-out cells are predicted no better, on any number of nodes; a
# resumed run is told of as one run; its files predict without the program.
. "$(dirname "$0")/lib.sh"

# Few cells, much noise, a small rank: held-out cells are soon at their best.
small="--model mf:rank=4 --data zipf:rows=300,cols=60,cells=9000,rank=2,noise=1"

# Without --epochs the run ends early, and says by what; on two nodes as well.
for nodes in 1 2; do
    run=$work/stop$nodes
    # shellcheck disable=SC2086
    expect 0 train $small --nodes $nodes --run "$run" --json || continue
    says "$work/err" 'valid_rmse has not become better since epoch' ||
        fail "$nodes nodes: no early stop: $(tail -n 1 "$work/err")"
    done=$(wc -l < "$run/metrics.jsonl")
    at_least 49 "$done" || fail "$nodes nodes: $done epochs"
    best=$(grep -o '"valid_rmse":[^,]*' "$run/metrics.jsonl" | cut -d: -f2 | sort -g | head -n 1)
    at=$(grep -n "\"valid_rmse\":$best" "$run/metrics.jsonl" | head -n 1 | cut -d: -f1)
    [ "$done" -eq $((at + 3)) ] || fail "$nodes nodes: $done epochs, the best was $at"
    expect 0 train --resume "$run" --json
    says "$work/err" "run is complete: $done of $done epochs" ||
        fail "a run that stopped is not complete: $(cat "$work/err")"
    expect 0 train --resume "$run" --epochs $((done + 2)) --json --quiet
    close "$(value epoch < "$work/out")" $((done + 2)) 0 || fail "--epochs does not go on"
done

# --epochs is what is done; the summary counts all lives of a run.
# shellcheck disable=SC2086
expect 0 train $small --epochs 3 --run "$work/lives" --json --quiet
cells=$(($(value steps < "$work/out") / 3))
first=$(value train_s < "$work/out")
echo '{"epoch": 4, "epoch_s": 1000' >> "$work/lives/metrics.jsonl" # killed while writing
expect 0 train --resume "$work/lives" --epochs 8 --json --quiet
[ "$(value steps < "$work/out")" -eq $((cells * 8)) ] ||
    fail "steps of the last life only: $(value steps < "$work/out") of $((cells * 8))"
all=$(grep -o '"epoch_s":[^,]*' "$work/lives/metrics.jsonl" | cut -d: -f2 | awk '{ s += $1 } END { printf "%.12g", s }')
close "$(value train_s < "$work/out")" "$all" 1e-5 || fail "train_s is not that of all epochs ($all)"
at_least "$(value wall_s < "$work/out")" "$all" || fail "wall_s is not that of all lives"
at_least "$all" "$first" || fail "the first life is lost"
[ "$(wc -l < "$work/lives/metrics.jsonl")" -eq 8 ] || fail "half a line was not dropped"

# The files predict: cols has the mean in its bias. A value is its own mean.
printf '0 0 7\n0 1 7\n1 0 7\n1 1 7\n' > "$work/flat"
expect 0 train --model mf:rank=2 --data "$work/flat" --epochs 30 --run "$work/flatly" --json --quiet
at_least 0.5 "$(value rmse < "$work/out")" || fail "a flat matrix is not learnt"
od -An -t f4 -j 128 "$work/flatly/cols.npy" | awk '{ for (i = 1; i <= NF; i++) v[++n] = $i }
    END { exit !(n == 6 && v[3] > 6 && v[3] < 8 && v[6] > 6 && v[6] < 8) }' ||
    fail "cols.npy: $(od -An -t f4 -j 128 "$work/flatly/cols.npy")"

# Real ratings: a constant is off by 5.24, biases by 4.34.
jester=${MUSTER_DATA:-../shared/data}/jester1/jester-data-1.csv.xz
if [ -e "$jester" ] && command -v xz > /dev/null; then
    xz -dc "$jester" | awk -F, -v train="$work/train" -v test="$work/test" 'BEGIN { srand(1) }
        { for (j = 2; j <= NF; j++) if ($j != 99) print NR - 1, j - 2, $j > (rand() < 0.1 ? test : train) }'
    expect 0 train --model mf --data "$work/train" --test "$work/test" --epochs 6 --threads 2 --json --quiet &&
        { at_least 4.06 "$(value test_rmse < "$work/out")" || fail "jester: $(cat "$work/out")"; }
else
    echo "jester1 is not in ${MUSTER_DATA:-../shared/data}: not tried"
fi
finish
