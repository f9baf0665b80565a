#!/usr/bin/env bash
# Data larger than memory: with `ulimit -d` half of which the rows do not fit,
# they lie in a file without a name, the coordinator's own memory stays small,
# and the run ends as one that has them in memory.
. "$(dirname "$0")/lib.sh"

! grep -q __asan_init "$MUSTER_BIN" && ! grep -q __tsan_init "$MUSTER_BIN" ||
    skip "a sanitizer has memory of its own"
export TMPDIR=${TMPDIR:-/var/tmp}

samples=16000 features=1000 # 64 MB
options="--model softmax --local 2 --threads 1 --batch 500 --steps 8 --quiet --json"
limit_kb=122880 # 60 MB of it for rows

# Dense rows from npy, sparse ones from libsvm: columns and values of 24 MB each.
awk -v n=6000 'BEGIN { srand(3); for (i = 0; i < n; i++) {
    printf "%d", i % 3; for (c = 1; c <= 1000; c++) printf " %d:%d", c, (i * c + int(3 * rand())) % 7 + 1
    print "" } }' > "$work/train.libsvm"

# own_kb PID: private memory that is written to.
own_kb() {
    awk '/^[0-9a-f]+-[0-9a-f]+ / { own = $2 ~ /^rw.p/ } /^Rss:/ && own { sum += $2 }
         END { print sum + 0 }' "/proc/$1/smaps" 2> /dev/null
}
# filed_kb PID: mapped from a file without a name.
filed_kb() {
    awk '/^[0-9a-f]+-[0-9a-f]+ / { filed = $2 == "rw-s" && $6 !~ /memfd/ }
         /^Size:/ && filed { sum += $2 } END { print sum + 0 }' "/proc/$1/smaps" 2> /dev/null
}

# check DATA ROWS_KB OWN_KB
check() {
    # shellcheck disable=SC2086
    expect 0 train --data "$1" $options && loss_0=$(value loss < "$work/out")
    rm -f "$work/out.bg" "$work/err.bg"
    # shellcheck disable=SC2086
    (ulimit -d $limit_kb && E2E_MARK=$mark exec "$MUSTER_BIN" train --data "$1" $options) \
        > "$work/out.bg" 2> "$work/err.bg" &
    pid=$!
    own=0 filed=0
    while ! gone "$pid"; do
        now=$(own_kb "$pid") file=$(filed_kb "$pid")
        [ "${now:-0}" -le "$own" ] || own=$now
        [ "${file:-0}" -le "$filed" ] || filed=$file
        sleep 0.02
    done
    wait_for "$pid"
    [ "$code" -eq 0 ] || fail "$1: exit code $code: $(tail -n 3 "$work/err.bg")"
    close "$(value loss < "$work/out.bg")" "$loss_0" 1e-6 || fail "$1: $(cat "$work/out.bg"), wanted loss $loss_0"
    [ "$filed" -ge "$2" ] || fail "$1: $filed KB in files: the rows were not among them"
    [ "$own" -le "$3" ] || fail "$1: $own KB of the coordinator's own memory"
    echo "$1: $filed KB in files, $own KB of its own"
}

check "synthetic:samples=$samples,features=$features,classes=3,test=0" $((samples * features * 4 / 1024)) 40960
check "$work/train.libsvm" 46000 40960
finish
