#!/usr/bin/env bash
# --data-at workers: workers read the data themselves. The model is that of a
# run whose coordinator sends the shards, and what it sends is without them: with every kind of file, when shards move, under edges, after a resume
# and for workers that join. Who has another file, or none, is told so and named.
. "$(dirname "$0")/lib.sh"

# 1200 rows of 12 features in 3 classes.
awk 'BEGIN {
    srand(5); for (j = 1; j <= 12; j++) printf "f%d,", j; print "label"
    for (i = 0; i < 1200; i++) {
        c = i % 3; for (j = 1; j <= 12; j++) printf "%.4f,", rand() + (j % 3 == c)
        print c } }' > "$work/rows.csv"
gzip -k "$work/rows.csv"
awk -F, 'NR > 1 { printf "%d", $13; for (j = 1; j <= 12; j++)
    if ($j > 0.5) printf " %d:%s", j, $j; print "" }' "$work/rows.csv" > "$work/rows.svm"
shards_bytes=$((1200 * 12 * 4)) # each sent once, at least
run="--steps 30 --batch 300 --code frc --stragglers 1 --json --quiet"

# same NAME OPTIONS: both ways end with the same model; workers are sent little.
same() {
    local name=$1 theta moved
    shift
    # shellcheck disable=SC2086
    expect 0 train $run "$@" || return
    theta=$(value theta_norm < "$work/out")
    # shellcheck disable=SC2086
    expect 0 train $run "$@" --data-at workers || return
    close "$(value theta_norm < "$work/out")" "$theta" 1e-6 ||
        fail "$name: theta is $(value theta_norm < "$work/out"), not $theta"
    moved=$(value bytes_moved < "$work/out")
    at_least $((shards_bytes / 2)) "$moved" ||
        fail "$name: $moved bytes were sent as shards"
}

same csv --data "$work/rows.csv" --local 4
same csv.gz --data "$work/rows.csv.gz" --local 4
same libsvm --data "$work/rows.svm" --local 4
same regression --data "$work/rows.csv" --local 4 --label f1 --model linear
same synthetic --data synthetic:samples=1200,features=12,classes=3 --local 4
same moving --data "$work/rows.csv" --local 4 --shuffle rotate:3
same placed --data "$work/rows.csv" --local 4 --code uncoded --stragglers 0 \
    --placement proportional-stratified --speeds 1,1,2,4
same edges --data "$work/rows.csv" --topology 2x2 --code hier:se=0,sw=1 --stragglers 0
(cd "$work" && same relative --data rows.csv --local 4
    exit "$failures") || fail "a relative path"

expect 2 train --data - --data-at workers < "$work/rows.csv"
says "$work/err" "data-at workers.*stdin" || fail "stdin: $(cat "$work/err")"
expect 2 train --data "$work/rows.csv" --data-at nodes
says "$work/err" "expected coordinator or workers" || fail "$(cat "$work/err")"

# Resume ------------------------------------------------------------------

# shellcheck disable=SC2086
expect 0 train $run --data "$work/rows.csv" --local 4 --steps 60 && theta=$(value theta_norm < "$work/out")
# shellcheck disable=SC2086
expect 0 train $run --data "$work/rows.csv" --local 4 --data-at workers --run "$work/run"
expect 0 train --resume "$work/run" --steps 60 --json --quiet
close "$(value theta_norm < "$work/out")" "$theta" 1e-5 ||
    fail "resumed: theta is $(value theta_norm < "$work/out"), not $theta"
says "$work/run/config.json" '"data-at": *"workers"\|"data_at": *"workers"' ||
    fail "config.json does not say who reads the data"

# Workers that join -------------------------------------------------------

sed 's/^0\.0/0.9/' "$work/rows.csv" > "$work/other.csv"
head -n 900 "$work/rows.csv" > "$work/short.csv"
mkdir "$work/there" && mv "$work/rows.csv.gz" "$work/there/rows.csv.gz"
# shellcheck disable=SC2086
expect 0 train $run --data "$work/rows.csv" --local 2 --code uncoded --stragglers 0 &&
    theta=$(value theta_norm < "$work/out")
"$MUSTER_BIN" key > "$work/run.key"
export MUSTER_KEY_FILE=$work/run.key
muster_in_background train --data "$work/rows.csv" --data-at workers --steps 30 --batch 300 \
    --code uncoded --workers 2 --listen 127.0.0.1:0 --json --patience 60s
coordinator=$pid
wait_until 20 says "$work/err.bg" "muster join tcp:127.0.0.1:" ||
    { fail "no coordinator: $(cat "$work/err.bg")"; finish; }
address=$(grep -o 'tcp:127.0.0.1:[0-9]*' "$work/err.bg" | head -n 1)

expect 3 join "$address" --worker 1 --data "$work/none.csv"
says "$work/err" "none.csv.*No such file.*--data-at workers.*join --data PATH" ||
    fail "no file: $(cat "$work/err")"
wait_until 20 says "$work/err.bg" "worker 1 is lost: .*none.csv.*No such file" ||
    fail "the coordinator does not name it: $(cat "$work/err.bg")"
expect 3 join "$address" --worker 1 --data "$work/short.csv"
says "$work/err" "short.csv.*899 samples.*coordinator's has 1200" ||
    fail "another size: $(cat "$work/err")"
expect 3 join "$address" --worker 0 --data "$work/other.csv"
says "$work/err" "other.csv.*shard [0-9]* has another hash" ||
    fail "another file: $(cat "$work/err")"
wait_until 20 says "$work/err.bg" "worker 0 is lost: .*other.csv.*shard [0-9]* has another hash" ||
    fail "the coordinator does not name it: $(cat "$work/err.bg")"

E2E_MARK=$mark "$MUSTER_BIN" join "$address" --data "$work/there/rows.csv.gz" 2> "$work/err.0" &
first=$!
expect 0 join "$address"
wait_for "$first"
[ "$code" -eq 0 ] || fail "worker: exit code $code: $(cat "$work/err.0")"
wait_for "$coordinator"
[ "$code" -eq 0 ] || fail "coordinator: exit code $code: $(cat "$work/err.bg")"
close "$(value theta_norm < "$work/out.bg")" "$theta" 1e-6 ||
    fail "joined: theta is $(value theta_norm < "$work/out.bg"), not $theta"
at_least $((shards_bytes / 2)) "$(value bytes_moved < "$work/out.bg")" ||
    fail "joined: $(value bytes_moved < "$work/out.bg") bytes were sent as shards"
finish
