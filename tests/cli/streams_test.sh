#!/usr/bin/env bash
# `-` is stdin and stdout; a file that exists only as FILE.gz is found; predict
# says what a run of a sparse task is.
. "$(dirname "$0")/lib.sh"
cd "$work" || exit 1

awk 'BEGIN { srand(5); print "a,b,label"
    for (i = 0; i < 90; i++) { c = i % 3; printf "%g,%g,%d\n", 3 * c + rand(), rand() - c, c } }' > rows.csv
sed -n '2,$p' rows.csv | awk -F, '{ print $3 " 1:" $1 " 2:" $2 }' > rows.svm
job="--local 2 --steps 30 --seed 3"

# norm FILE: of the model in a summary; sparse and dense rows round differently.
norm() { sed -n 's/.*"theta_norm": \([0-9.e+-]*\).*/\1/p' "$1" | awk '{ printf "%.4f", $1 }'; }

# piped FILE ARGS: as run, with the file as a pipe on stdin.
piped() {
    local file=$1
    shift
    # shellcheck disable=SC2002
    cat "$file" | timeout -k 5 60 "$MUSTER_BIN" "$@" > "$work/out" 2> "$work/err"
    code=$?
}

# refuses_piped CODE STDERR FILE ARGS
refuses_piped() {
    local wanted=$1 err=$2
    shift 2
    piped "$@"
    [ "$code" -eq "$wanted" ] || fail "muster ${*:2} < $1: exit code $code, not $wanted"
    same out "" "muster ${*:2}"
    same err "muster: $err" "muster ${*:2}"
}

# shellcheck disable=SC2086
{
run train --data rows.csv $job --run plain
[ "$code" -eq 0 ] && [ -n "$(norm plain/summary.json)" ] || fail "train: $(cat err)"
gzip -k rows.csv
for file in rows.csv rows.csv.gz rows.svm; do
    piped "$file" train --data - $job --json
    [ "$code" -eq 0 ] || fail "--data - of $file: $(cat err)"
    [ "$(norm out)" = "$(norm plain/summary.json)" ] ||
        fail "--data - of $file trains another model"
done
piped rows.csv simulate --data rows.csv --test - --workers 4 --steps 5
[ "$code" -eq 0 ] || fail "--test -: $(cat err)"
refuses_piped 2 "--data - and --test -: stdin is read once; give a file for one of them" \
    rows.csv train --data - --test - $job
refuses_piped 2 "--data -: stdin is read once, and each code of --code reads the data; give a file" \
    rows.csv simulate --data - --code uncoded+frc:s=1 --workers 4
refuses_piped 2 "--data -: every one of the --nodes reads the data; give a file" \
    rows.csv train --model mf --data - --nodes 2
printf '\223NUMPY\001\000' > rows.npy
refuses_piped 2 "stdin: idx and npy files come with a file of labels: give the path in place of -" \
    rows.npy train --data - $job
refuses_piped 2 "stdin: a knowledge graph is a folder of files: give its path in place of -" \
    rows.csv train --data - --model complex
refuses_piped 3 "stdin: the file is empty; expected idx, npy, libsvm, csv or CIFAR-10, plain or gzipped" \
    /dev/null train --data - $job
}

# predict: rows from stdin, lines to stdout; nothing called `-` is made.
run predict plain --data rows.csv --out lines.csv
[ "$code" -eq 0 ] || fail "predict: $(cat err)"
piped rows.csv predict plain --data - --out -
[ "$code" -eq 0 ] && cmp -s out lines.csv || fail "predict --data - --out -: exit code $code: $(cat err)"
[ ! -e - ] || fail "a file called - was made"
refuses 2 "--out - and --json both write to stdout: give a file to --out" predict plain --data rows.csv --out - --json
"$MUSTER_BIN" predict plain --data rows.csv --out - --quiet > /dev/full 2> err
[ $? -eq 1 ] || fail "a full stdout is not noticed"
same err "muster: --out -: stdout: No space left on device" "predict --out - > /dev/full"

# NAME.gz stands for NAME where there is no NAME.
rm rows.csv
gzip rows.svm
for file in rows.csv rows.svm; do
    # shellcheck disable=SC2086
    run train --data "$file" $job --json
    [ "$code" -eq 0 ] && [ "$(norm out)" = "$(norm plain/summary.json)" ] ||
        fail "$file.gz is not found as $file: $(cat err)"
    run predict plain --data "$file" --json
    [ "$code" -eq 0 ] && grep -q '"samples": 90' out || fail "predict: $file.gz is not found as $file: $(cat err)"
done
refuses 3 "none.csv: cannot open: No such file or directory" train --data none.csv

# Rows of a sparse task are no model that predict could apply.
awk 'BEGIN { for (i = 0; i < 60; i++) print "e" i % 7 "\tr\te" i % 5 }' > train.txt
run train --model complex:dim=4 --data . --epochs 1 --run graph
[ "$code" -eq 0 ] || fail "complex: $(cat err)"
refuses 3 "graph/model.safetensors: holds the rows of the sparse task complex, which predict cannot apply to data; \`muster neighbors RUN NAME\` finds the rows near to one" \
    predict graph --data rows.csv
gzip graph/vectors.txt graph/vectors.bin
for vectors in graph graph/vectors.bin graph/vectors.bin.gz; do
    run neighbors "$vectors" e1 --count 2
    [ "$code" -eq 0 ] && [ "$(wc -l < out)" -eq 2 ] || fail "neighbors $vectors: $(cat err)"
done
run train --model mf:rank=2 --data zipf:rows=40,cols=20,cells=300 --epochs 1 --run factors
refuses 3 "factors/model.safetensors: holds the rows of the sparse task mf, which predict cannot apply to data; rows.npy and cols.npy beside it are its factors" \
    predict factors --data rows.csv
for file in rows.npy cols.npy; do
    [ -s "factors/$file" ] || fail "mf writes no $file"
done
rm graph/model.safetensors
refuses 3 "graph: a run that has not ended, without a model; \`muster train --resume graph\` continues it" \
    predict graph --data rows.csv
finish
