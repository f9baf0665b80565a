#!/usr/bin/env bash
# muster partition: sizes, measures, the file of owners, and what it refuses.
. "$(dirname "$0")/lib.sh"
data=synthetic:samples=1000,features=8,classes=3
owners=$work/owners.npy

# json EXPRESSION: of the object `o` that was printed.
json() {
    python3 -c "import json,sys; o=json.load(open('$work/out')); print($1)"
}

run partition --data $data --workers 4 --speeds 1,2,3,4 --json --out "$owners"
[ "$code" -eq 0 ] || fail "exit code $code: $(cat "$work/err")"
[ "$(json "o['sizes']")" = "[100, 200, 300, 400]" ] || fail "$(json "o['sizes']")"
[ "$(json "o['method'], o['gradient_dissimilarity']")" = "submodular None" ] ||
    fail "method: $(cat "$work/out")"
better=$(json "o['coverage_min']")
[ "$(json "all(k in o for k in ('coverage_mean', 'drift_worst', 'seconds'))")" = True ] ||
    fail "keys: $(cat "$work/out")"
python3 - "$owners" << 'END' || fail "owners.npy is not what numpy reads"
import ast, struct, sys
data = open(sys.argv[1], "rb").read()
assert data[:8] == b"\x93NUMPY\x01\x00"
size = struct.unpack("<H", data[8:10])[0]
head = ast.literal_eval(data[10:10 + size].decode())
assert head == {"descr": "<u4", "fortran_order": False, "shape": (1000,)}, head
assert (10 + size) % 64 == 0
owner = struct.unpack("<1000I", data[10 + size:])
assert [owner.count(w) for w in range(4)] == [100, 200, 300, 400]
END

# The file is measured as what made it was; a random one covers less.
sum=$(json "o['coverage_min'] + o['drift_worst']")
run partition --data $data --workers 4 --method "$owners" --json
[ "$(json "o['coverage_min'] + o['drift_worst']")" = "$sum" ] ||
    fail "a file has other measures than its method: $(cat "$work/out")"
run partition --data $data --workers 4 --speeds 1,2,3,4 --json \
    --method proportional-stratified --model softmax
[ "$(json "o['coverage_min'] < $better")" = True ] || fail "random covers as well"
[ "$(json "0 < o['gradient_dissimilarity'] < 1")" = True ] || fail "$(cat "$work/out")"
mixed=$(json "o['gradient_dissimilarity']")
run partition --data $data --workers 4 --speeds 1,2,3,4 --json \
    --method class-sorted --model softmax
[ "$(json "o['gradient_dissimilarity'] > 5 * $mixed")" = True ] ||
    fail "sorted by class, gradients differ no more: $(cat "$work/out")"

# A class smaller than the number of workers: who gets none.
printf '%s\n' 1,0,0 2,1,0 3,0,0 4,1,0 5,1,1 6,0,1 > "$work/few.csv"
run partition --data "$work/few.csv" --workers 3 --method equal-stratified --json
[ "$code" -eq 0 ] || fail "few: $(cat "$work/err")"
none="class 1 has 2 samples for 3 workers: no sample of it for worker 0"
grep -qF "warning: $none" "$work/err" || fail "no warning: $(cat "$work/err")"
[ "$(json "o['warning']")" = "$none" ] || fail "no warning in JSON"
printf '%s\n' 1,0,0 2,1,0 3,0,0 4,1,0 5,1,1 6,0,2 > "$work/fewer.csv"
run partition --data "$work/fewer.csv" --workers 2 --method class-sorted --json
none="class 1 has 1 samples for 2 workers: no sample of it for worker 0; \
class 2 has 1 samples for 2 workers: no sample of it for worker 0"
[ "$(json "o['warning']")" = "$none" ] || fail "fewer: $(json "o['warning']")"
run partition --data "$work/few.csv" --workers 3 --method equal-stratified --json
grep -qF "sizes: 2 to 2 samples" "$work/err" || fail "no sizes: $(cat "$work/err")"

# A class too large for all its similarities has its nearest neighbours; how
# many of these are found is told.
run partition --data synthetic:samples=18000,features=4,classes=2 --workers 2 --json
grep -q "sparse kernels for 2 of 2 classes: recall [01]\.[0-9]* of" "$work/err" ||
    fail "no recall: $(cat "$work/err")"
[ "$(json "o['recall'] > 0.5")" = True ] || fail "recall: $(json "o['recall']")"

run partition --data synthetic:samples=2000,features=4,classes=2 --workers 2 --json \
    --method submodular:kernel=sparse,sample=1,neighbours=1
[ "$(json "o['recall'] < 0.1")" = True ] || fail "one row of a class: $(cat "$work/out")"

# Workers without any sample are named, also where a file says so.
run partition --data $data --workers 2 --method equal-random --out "$work/two.npy"
run partition --data $data --workers 4 --method "$work/two.npy" --json
[ "$(json "o['warning']")" = "no sample at all for worker 2, 3" ] ||
    fail "no warning of a file: $(cat "$work/out")"
run partition --data $data --workers 2 --speeds 1e-300,1e300 --json
grep -qF "warning: no sample at all for worker 0" "$work/err" ||
    fail "no warning of speeds: $(cat "$work/err")"

# What is said of sizes in training is so.
placed() {
    run simulate --data $data --workers 2 --steps 1 --speeds 1,3 --placement "$2"
    grep -qxF "placement $2: 2 parts $1" "$work/err" || fail "$2: $(cat "$work/err")"
}
placed "of equal size, whatever --speeds says" equal-random
placed "of equal size, whatever --speeds says" equal-stratified
placed "as the file says" "$work/two.npy"
placed "sized by --speeds" proportional-random
placed "sized by --speeds" class-sorted
refuses 3 "--speeds measure: 6 samples are too few for 256 shards; give fewer, such as --shards 4" \
    simulate --data synthetic:samples=6,classes=2 --workers 4 --placement submodular --speeds measure

refuses 2 "--speeds: '0' is not a positive number; write one for each worker, such as 1,1,2,4" \
    partition --data $data --workers 2 --speeds 1,0
refuses 2 "--speeds: '-1' is not a positive number; write one for each worker, such as 1,1,2,4" \
    partition --data $data --workers 2 --speeds=-1,1
refuses 2 "--speeds: 'nan' is not a positive number; write one for each worker, such as 1,1,2,4" \
    partition --data $data --workers 2 --speeds nan,1
refuses 2 "--speeds: 2 speeds for 3 workers" \
    partition --data $data --workers 3 --speeds 1,1
refuses 2 "partition: --workers is missing; for example muster partition --data synthetic: --workers 4 --speeds 1,2,3,4" \
    partition --data $data
run partition --data $data --workers 2 --method submodlar
grep -q "did you mean submodular" "$work/err" && [ "$code" -eq 2 ] ||
    fail "a wrong name: $code $(cat "$work/err")"
refuses 3 "1000 samples are too few for 1001 workers" \
    partition --data $data --workers 1001
printf '1,2,0\n1,nan,1\n' > "$work/nan.csv"
run partition --data "$work/nan.csv" --workers 2
[ "$code" -eq 3 ] && grep -q "nan.csv:2" "$work/err" || fail "NaN: $(cat "$work/err")"
run partition --data synthetic:samples=999,features=8,classes=3 --workers 4 --method "$owners"
[ "$code" -eq 3 ] && grep -q "owners.npy.*1000 x 1 owners for 999 samples" "$work/err" ||
    fail "another length: $(cat "$work/err")"

# Features of their own: an embedding decides who gets which sample.
python3 - "$work" << 'END'
import array, sys
def save(name, rows, columns, values):
    head = "{'descr': '<f4', 'fortran_order': False, 'shape': (%d, %d), }" % (rows, columns)
    head += " " * (63 - (10 + len(head)) % 64) + "\n"
    with open(sys.argv[1] + "/" + name, "wb") as out:
        out.write(b"\x93NUMPY\x01\x00" + len(head).to_bytes(2, "little") + head.encode())
        array.array("f", values).tofile(out)
save("features.npy", 1000, 2, [((i * 37) % 101) / 101 for i in range(2000)])
save("short.npy", 999, 2, [0.5] * 1998)
save("nan.npy", 1000, 1, [float("nan")] * 1000)
END
run partition --data $data --workers 4 --json
raw=$(json "o['coverage_min']")
run partition --data $data --workers 4 --features "$work/features.npy" --json
[ "$(json "o['coverage_min']")" != "$raw" ] || fail "--features changes nothing"
run partition --data $data --workers 4 --features "$work/short.npy"
[ "$code" -eq 3 ] && grep -q "999 rows of 2 features for 1000 samples" "$work/err" ||
    fail "too few features: $(cat "$work/err")"
run partition --data $data --workers 4 --features "$work/nan.npy"
[ "$code" -eq 3 ] && grep -q "not finite" "$work/err" || fail "NaN: $(cat "$work/err")"
run train --data $data --local 4 --steps 2 --placement submodular --features "$work/short.npy"
[ "$code" -eq 3 ] && grep -q "999 rows of 2 features for 1000 samples" "$work/err" ||
    fail "train, too few features: $(cat "$work/err")"
run train --data $data --local 4 --steps 2 --json --placement submodular:project=2 --features "$work/features.npy"
[ "$code" -eq 0 ] || fail "train with features: $(cat "$work/err")"
refuses 2 "--features: needs --placement submodular, which compares samples by them" \
    train --data $data --local 4 --steps 2 --placement equal-random --features "$work/features.npy"

# A method's parameters: what the choice compares; measures are of the features.
run partition --data $data --workers 4 --method submodular:project=2 --json
[ "$(json "o['features'], o['coverage_min'] < $raw")" = "2 True" ] ||
    fail "a projection: $(cat "$work/out")"
run partition --data $data --workers 4 --method submodular:kernel=sparse,neighbours=4,turn=round-robin --json
grep -q "sparse kernels for 3 of 3 classes" "$work/err" || fail "no sparse kernels: $(cat "$work/err")"
refuses 2 "--method submodular: project=0: expected a whole number from 1 to 65536" \
    partition --data $data --workers 4 --method submodular:project=0
refuses 2 "--method submodular: parameter projct: unknown; did you mean project? There are quantiles, project, kernel, neighbours, sample, turn, drift, swaps" \
    partition --data $data --workers 4 --method submodular:projct=2
refuses 2 "--method equal-random: 'project': it takes no parameters" \
    partition --data $data --workers 4 --method equal-random:project=2
refuses 2 "--placement submodular: kernel=spars: unknown; did you mean sparse? There are auto, dense, sparse" \
    train --data $data --local 4 --steps 2 --placement submodular:kernel=spars

# Without labels all samples are one class, of every column.
printf '%s\n' 1,5 2,6 3,7 4,8 > "$work/plain.csv"
run partition --data "$work/plain.csv" --workers 2 --target none --json
[ "$(json "o['classes'], o['features'], o['sizes']")" = "1 2 [2, 2]" ] ||
    fail "without labels: $(cat "$work/out" "$work/err")"
! grep -q "is left out" "$work/err" || fail "a column is left out: $(cat "$work/err")"
printf '%s\n' a,y,b 1,5,0 2,6,0 3,7,1 4,8,1 > "$work/y.csv"
run partition --data "$work/y.csv" --workers 2 --target none --json
grep -qF "y.csv: column 2 'y' is left out as the label, by its name (--label chooses another)" "$work/err" &&
    [ "$(json "o['features']")" = 2 ] || fail "a column y: $(cat "$work/err")"
printf '\0\0\10\3\0\0\0\2\0\0\0\1\0\0\0\2\0\377\63\146' > "$work/train-images-idx3-ubyte"
timeout -k 5 60 "$MUSTER_BIN" partition --data - --workers 2 --target none --json \
    < "$work/train-images-idx3-ubyte" > "$work/out" 2> "$work/err"
[ "$(json "o['samples'], o['features']")" = "2 2" ] || fail "idx from stdin: $(cat "$work/err")"
refuses 2 "--label: $work/train-images-idx3-ubyte: no column of an idx file is the label" \
    partition --data "$work/train-images-idx3-ubyte" --workers 2 --target none --label 1
refuses 2 "--target no: expected class, value or none" \
    partition --data $data --workers 2 --target no
refuses 2 "--model: gradients need labels, and --target none reads none" \
    partition --data $data --workers 2 --target none --model softmax

# Real targets: classes are quantiles of them.
python3 -c "for i in range(60): print(f'{i % 7},{i / 7:.3f}')" > "$work/real.csv"
run partition --data "$work/real.csv" --workers 2 --method proportional-stratified:quantiles=5 --json
[ "$(json "o['classes'], o['sizes']")" = "5 [30, 30]" ] || fail "quantiles: $(cat "$work/out")"

run partition --data $data --workers 3 --method "$owners"
[ "$code" -eq 3 ] && grep -q "is given to worker 3; there are 3 workers" "$work/err" ||
    fail "no such worker: $(cat "$work/err")"
finish
