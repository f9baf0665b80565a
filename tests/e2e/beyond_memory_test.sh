#!/usr/bin/env bash
# Data larger than memory: rows of idx, npy and libsvm files that do not fit in
# `ulimit -d` are trained on all the same, each worker holding its own share,
# and the run ends as one without a limit does.
. "$(dirname "$0")/lib.sh"

! grep -q __asan_init "$MUSTER_BIN" && ! grep -q __tsan_init "$MUSTER_BIN" ||
    skip "a sanitizer has memory of its own"

limit_kb=262144 # BLAS takes 131,088 of it
samples=40192   # of 1,000 floats: 157,000 KB
features=1000

# bytes N: four, the largest first, as printf wants them.
bytes() {
    printf '\\x%02x\\x%02x\\x%02x\\x%02x' $(($1 >> 24)) $(($1 >> 16 & 255)) $(($1 >> 8 & 255)) $(($1 & 255))
}

# npy NAME SHAPE: the header of an array of bytes.
npy() {
    local header="{'descr': '|u1', 'fortran_order': False, 'shape': ($2), }"
    printf '\x93NUMPY\x01\x00\x76\x00%-117s\n' "$header" > "$1"
}

head -c $((samples * features)) < /dev/urandom > "$work/rows"
for ((i = 0; i < 256; i++)); do
    printf "\\x$(printf %02x $((i * 7 % 10)))"
done > "$work/some"
for ((i = 0; i < samples / 256; i++)); do
    cat "$work/some"
done > "$work/labels"

mkdir "$work/idx"
printf "\\x00\\x00\\x08\\x03$(bytes $samples)$(bytes 25)$(bytes 40)" |
    cat - "$work/rows" > "$work/idx/train-images-idx3-ubyte"
printf "\\x00\\x00\\x08\\x01$(bytes $samples)" | cat - "$work/labels" > "$work/idx/train-labels-idx1-ubyte"
npy "$work/some.npy" "$samples, $features"
cat "$work/rows" >> "$work/some.npy"
npy "$work/some_labels.npy" "$samples,"
cat "$work/labels" >> "$work/some_labels.npy"
rm "$work/rows"
# 20,000 lines of 1,000 entries, 8 bytes each.
awk 'BEGIN { for (i = 0; i < 20; i++) {
    printf "%d", i % 2
    for (c = 1; c <= 1000; c++) printf " %d:%d", c, (i * c) % 7 + 1
    print "" } }' > "$work/lines"
for ((i = 0; i < 1000; i++)); do
    cat "$work/lines"
done > "$work/many.libsvm"

# check DATA: the losses of four steps, with the limit and without.
check() {
    local options=(train --data "$1" --model softmax --local 4 --threads 1 --batch 512
        --steps 4 --lr 0.0001 --quiet --json)
    muster "${options[@]}" > "$work/free.json" || fail "$1: $(cat "$work/err")"
    (ulimit -d $limit_kb && muster "${options[@]}") > "$work/tight.json" ||
        fail "$1 in $limit_kb KB: $(cat "$work/err")"
    free=$(grep -o '"loss": [^,}]*' "$work/free.json")
    tight=$(grep -o '"loss": [^,}]*' "$work/tight.json")
    [ -n "$free" ] && [ "$free" = "$tight" ] || fail "$1: $tight in $limit_kb KB, $free without a limit"
}

check "$work/idx/train-images-idx3-ubyte"
check "$work/some.npy"
check "$work/many.libsvm"
finish
