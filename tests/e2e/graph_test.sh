#!/usr/bin/env bash
# Knowledge graphs as a user trains them: ranks on both held-out sets at the end
# of a run, files that other tools read, neighbours of names with blanks in
# them, bad input named by file and line.
. "$(dirname "$0")/lib.sh"

# A ring of ten: `next` leads one on, `after that` two.
ring=$work/ring
mkdir "$ring"
awk 'BEGIN { for (i = 0; i < 10; i++) {
    printf "e %d\tnext\te %d\n", i, (i + 1) % 10
    printf "e %d\tafter that\te %d\n", i, (i + 2) % 10 } }' > "$ring/train.tsv"
head -n 6 "$ring/train.tsv" > "$ring/valid.tsv"
tail -n 6 "$ring/train.tsv" > "$ring/test.tsv"

for more in "complex:dim=16,n3=0" "complex:dim=16,n3=0,share=1,negatives=8 --threads 2" \
    "transe:dim=16,negatives=8,margin=2 --nodes 2"; do
    # shellcheck disable=SC2086
    expect 0 train --data "$ring" --epochs 80 --json --quiet --model $more || continue
    for metric in valid_mrr valid_hits10 test_mrr; do
        at_least "$(value $metric < "$work/out")" 0.3 || fail "$more: $metric $(value $metric < "$work/out")"
    done
done

expect 0 train --model complex:dim=16,n3=0 --data "$ring" --epochs 40 --run "$work/run" --quiet
for file in model.safetensors entities.npy relations.npy vectors.txt vectors.bin; do
    [ -s "$work/run/$file" ] || fail "no $file"
done
[ "$(head -n 1 "$work/run/vectors.txt")" = "10 16" ] || fail "head of vectors.txt"
[ "$(awk 'NR > 1 { print NF }' "$work/run/vectors.txt" | sort -u)" = 17 ] || fail "blanks in vectors.txt"
head -c 128 "$work/run/entities.npy" | grep -aq "'shape': (10, 16)" || fail "shape of entities.npy"
for vectors in "$work/run" "$work/run/vectors.bin"; do
    expect 0 neighbors "$vectors" "e 1" --count 9 &&
        { [ "$(grep -c 'e_' "$work/out")" -eq 9 ] || fail "$vectors: $(cat "$work/out")"; }
done
printf '2 1\na 1\na 2\n' > "$work/twice.txt"
expect 0 neighbors "$work/twice.txt" a
says "$work/err" 'left out 1 rows whose word was there before' || fail "not told: $(cat "$work/err")"

printf '2 1\na \000\000\200\077\nb \000\000\200\177\n' > "$work/endless.bin"
expect 3 neighbors "$work/endless.bin" a
says "$work/err" 'expected 1 finite numbers' || fail "infinite: $(cat "$work/err")"

# refused FILE TEXT MESSAGE ARGS: training on a file with this text.
refused() {
    local file=$1 text=$2 message=$3
    shift 3
    printf '%b' "$text" > "$file"
    expect 3 train "$@" || return
    says "$work/err" "$message" || fail "$file: $(cat "$work/err")"
}
bad=$work/bad
mkdir "$bad"
refused "$bad/train.txt" 'a\tr\tb\na\tr\n' 'bad/train.txt:2: expected' --model distmult --data "$bad"
refused "$bad/train2id.txt" '1\n0 1\n' 'bad/train2id.txt:2: expected' --model distmult --data "$bad"
refused "$work/m.txt" '0 0 1\n0 x 1\n' 'm.txt:2: expected' --model mf --data "$work/m.txt"
refused "$work/m.csv" '0,0,1\n0,1,nan\n' 'm.csv:2: the value' --model mf --data "$work/m.csv"
refused "$work/m.mtx" '%%MatrixMarket matrix coordinate real general\n1 1 1\n2 1 1\n' \
    'm.mtx:3: an index' --model mf --data "$work/m.mtx"
refused "$work/pairs" 'a b\n' 'pairs:1: expected' --model skipgram:min_count=1 --data "$ring/train.tsv" --test "$work/pairs"
refused "$work/pairs" 'a b 1x\n' 'pairs:1: expected' --model skipgram:min_count=1 --data "$ring/train.tsv" --test "$work/pairs"
refused "$work/text" 'once\n' 'no word occurs' --model skipgram --data "$work/text"
finish
