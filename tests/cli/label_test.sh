#!/usr/bin/env bash
# A table's label is never guessed in silence: its column, classes and shares
# are told; --label chooses another, --target says what it is; predict takes the
# column that training had, or rows without labels.
. "$(dirname "$0")/lib.sh"
cd "$work" || exit 1
job="--local 2 --steps 40 --seed 3"

# The kind is first; the last column is an identifier that helps nobody.
awk 'BEGIN { srand(5); print "kind,wide,\"high, or so\",id"
    for (i = 0; i < 90; i++) { c = i % 3 ? 1 : 5; printf "%d,%g,%g,%d\n", c, c + rand(), rand() - c, i } }' > rows.csv
sed '1s/.*/KIND,wide,tall,id/' rows.csv > other.csv
sed 1d rows.csv > bare.csv
awk -F, 'NR > 1 { print $2 "," $3 "," $4 }' rows.csv > unlabelled.csv

# tells LINE ARGS: stderr has exactly this line.
tells() {
    local line=$1
    shift
    run "$@"
    [ "$code" -eq 0 ] || fail "muster $*: exit code $code: $(cat err)"
    grep -qxF "$line" err || fail "muster $*: does not say '$line' but $(cat err)"
}

# shellcheck disable=SC2086
{
tells "bare.csv: the label is column 4, the last one (--label chooses another): 90 classes, shares from 0.0111 to 0.0111" \
    train --data bare.csv $job
grep -q '^warning: bare.csv: 90 classes in 90 samples: is this column the label?' err || fail "no doubt about 90 classes: $(cat err)"
tells "rows.csv: the label is column 1 'kind': 2 classes, shares: 1 0.667, 5 0.333" \
    train --data rows.csv --label kind $job --run named
tells "rows.csv: the label is column 1 'kind': 2 classes, shares: 1 0.667, 5 0.333" \
    train --data rows.csv --label 1 $job
tells "bare.csv: the label is column 1: 2 classes, shares: 1 0.667, 5 0.333" simulate --data bare.csv --label 1 --workers 2 --steps 3
tells "rows.csv: the label is column 1 'kind': real values from 1 to 5" train --data rows.csv --label kind --model linear --lr 1e-5 $job
tells "rows.csv: the label is column 1 'kind': real values from 1 to 5" \
    train --data rows.csv --label kind --target value --model mlp:hidden=4 --lr 1e-5 $job
sed 's/kind/y/' rows.csv > y.csv
tells "y.csv: the label is column 1 'y', by its name (--label chooses another): 2 classes, shares: 1 0.667, 5 0.333" train --data y.csv $job

refuses 2 "--label kinf: rows.csv has no such column; did you mean 'kind'? It has: kind, wide, high, or so, id" train --data rows.csv --label kinf
refuses 2 "--label kind: bare.csv has no line of names: give a number, 1 to 4" simulate --data bare.csv --label kind
refuses 2 "--label 7: rows.csv has columns 1 to 4: kind, wide, high, or so, id" predict named --data rows.csv --label 7
refuses 2 "--label: synthetic:samples=9: the generator makes the labels" train --data synthetic:samples=9 --label 1
echo "1 1:2" > rows.svm
refuses 2 "--label: rows.svm: in libsvm files each line begins with its label" train --data rows.svm --label 1
refuses 2 "--label has no meaning with --model mf" train --model mf --data rows.csv --label 1
refuses 2 "--target price: expected class or value" train --data rows.csv --target price
echo "1,0.5"$'\n'"2,1.5" > real.csv
refuses 3 "--target class: the labels of real.csv are not all whole numbers from -1000 to 1000" train --data real.csv --target class
}

# What was learnt from column 1 is not tried on the last one.
tells "rows.csv: the label is column 1 'kind': 2 classes, shares: 1 0.667, 5 0.333" predict named --data rows.csv --out lines.csv
tells "other.csv: the label is column 1 'KIND': 2 classes, shares: 1 0.667, 5 0.333" predict named --data other.csv
tells "bare.csv: the label is column 1: 2 classes, shares: 1 0.667, 5 0.333" predict named --data bare.csv
tells "90 samples without labels of the model's classes, so there is no accuracy" predict named --data unlabelled.csv --out bare_lines.csv
cmp -s lines.csv bare_lines.csv || fail "rows without labels are predicted otherwise"
sed '1s/kind/sort/' rows.csv > sort.csv
refuses 3 "sort.csv: no column is called 'kind', as the training set's label is (--label names another); it has: sort, wide, high, or so, id" \
    predict named --data sort.csv
tells "sort.csv: the label is column 1 'sort': 2 classes, shares: 1 0.667, 5 0.333" predict named --data sort.csv --label sort
finish
