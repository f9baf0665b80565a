#!/usr/bin/env bash
# A delay is the same in train (sleeps) and in simulate (virtual time): by load,
# by message, from a step on; --record-delays shows both.
. "$(dirname "$0")/lib.sh"

job="--data synthetic:samples=600,features=20,classes=5,seed=3 --batch 60 --lr 0.1"

# both NAME OPTIONS: $work/NAME.train and $work/NAME.sim are the workers' times.
# Simulated computing takes no time, so that the record is the delay alone.
both() {
    local name=$1
    shift
    # shellcheck disable=SC2086
    expect 0 train $job --json "$@" --record-delays "$work/$name.train"
    cp "$work/err" "$work/$name.err"
    cp "$work/out" "$work/$name.json"
    expect 0 simulate "${@/--local/--workers}" --compute 0s --quiet --record-delays "$work/$name.sim"
    [ "$(wc -l < "$work/$name.train")" -eq "$(wc -l < "$work/$name.sim")" ] ||
        fail "$name: the records differ in length"
}

# A worker sleeps for at least its delay, and as long as the simulated one
# computes, which is most of the steps' time here: $2 of them by less than $3 s.
agrees() {
    paste -d, "$work/$1.train" "$work/$1.sim" | awk -F, -v share="$2" -v near="$3" '
        NR == 1 { next }
        $3 < $6 - 1e-6 { print "step " $1 ", worker " $2 ": " $3 " s, not " $6; bad = 1; exit 1 }
        $3 < $6 + near { close_ones++ }
        END { if (!bad && close_ones < share * (NR - 1)) { print close_ones " of " NR - 1 " are near"; exit 1 } }
    ' > "$work/why" || fail "$1: $(cat "$work/why")"
}

# From a step on, and back: uncoded, so that nobody is told to leave a step.
both change --local 3 --code uncoded --steps 30 --slow 1:150ms@10 --slow 1:0@20
agrees change 0.5 0.1
slow=$(awk -F, '$3 >= 0.15 && $2 == 1 { print $1 }' "$work/change.sim" | tr '\n' ' ')
[ "$slow" = "10 11 12 13 14 15 16 17 18 19 " ] || fail "change: slow in $slow"
says "$work/change.err" 'step 10: worker 1 changes its slowness, as asked' ||
    fail "the change is not told: $(cat "$work/change.err")"
says "$work/change.err" "--delay trace:file=$work/change.train,base=" ||
    fail "how to replay it is not told: $(cat "$work/change.err")"

# By load (two of four parts) and by message (a half).
both load --local 4 --code frc --stragglers 1 --steps 10 --delay constant:delay=20ms,per=load
agrees load 0 1
awk -F, 'NR > 1 && ($3 < 0.0399 || $3 > 0.0401) { exit 1 }' "$work/load.sim" ||
    fail "load: not 40 ms: $(cat "$work/load.sim")"
both message --local 4 --code ye-abbe:s=0,m=2 --steps 10 --delay constant:delay=80ms,per=message
agrees message 0 1
awk -F, 'NR > 1 && ($3 < 0.0399 || $3 > 0.0401) { exit 1 }' "$work/message.sim" ||
    fail "message: not 40 ms: $(cat "$work/message.sim")"

# Random ones: the same draws.
both random --local 3 --code uncoded --steps 40 \
    --delay exponential:mean=10ms,per=load+geometric:time=5ms,p=0.5,way=up
agrees random 0.5 0.02

# The record is a trace, and how workers straggled is in the summary.
# shellcheck disable=SC2086
expect 0 train $job --json --local 3 --code uncoded --steps 40 --delay "trace:file=$work/random.sim"
for key in p_straggle p_straggle_again spell_steps slow p_slow p_active stay_slow stay_active; do
    grep -q "\"$key\":" "$work/change.json" || fail "summary: no $key"
done
# shellcheck disable=SC2086
expect 0 train $job --json --local 4 --code uncoded --steps 60 --slow 2:20ms
at_least "$(value p_straggle < "$work/out")" 0.2 || fail "p_straggle $(value p_straggle < "$work/out")"
says "$work/err" 'workers straggled in ' || fail "no rates: $(cat "$work/err")"
# shellcheck disable=SC2086
expect 1 train $job --local 2 --steps 5 --record-delays "$work/missing/x.csv"
none_left || fail "left running: $(marked)"
finish
