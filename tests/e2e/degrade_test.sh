#!/usr/bin/env bash
# --on-loss degrade: with fewer workers than an exact code needs, the run goes
# on, and every line says so: log, progress, metrics.jsonl, summary. With the
# worker back it is exact again. --on-loss stop ends the run at once. A learnt deadline means nothing to an exact code, and
# that is said, too.
. "$(dirname "$0")/lib.sh"

job="--data synthetic:samples=1200,features=20,classes=5,seed=3 --batch 100 --lr 0.1 --json"
metrics="$work/run/metrics.jsonl"

# Lost at step 5 and started again at step 25; steps of 60 ms, so that a new process
# is there before the end.
# shellcheck disable=SC2086
expect 0 train $job --local 4 --steps 90 --on-loss degrade --kill 1@5 --rejoin 1@25 \
    --delay constant:delay=60ms --run "$work/run"
[ "$(wc -l < "$metrics")" -eq 90 ] || fail "not 90 lines in metrics.jsonl"
[ "$(grep -c '"degraded":\(true\|false\)}$' "$metrics")" -eq 90 ] || fail "a line does not say whether it is degraded"
degraded=$(grep -c '"degraded":true' "$metrics")
at_least "$degraded" 15 || fail "only $degraded lines are degraded"
at_least 80 "$degraded" || fail "$degraded lines are degraded: it never was exact again"
head -n 5 "$metrics" | grep -q '"degraded":true' && fail "degraded before the loss"
tail -n 1 "$metrics" | grep -q '"degraded":false' || fail "not exact at the end: $(tail -n 1 "$metrics")"
# Degraded, inexact, and a grad_err of half the gradient's size: all or none.
awk '{ degraded = /"degraded":true/; inexact = /"exact":false/
       match($0, /"grad_err":[^,]*/); err = substr($0, RSTART + 11, RLENGTH - 11) + 0
       if (degraded != inexact || degraded != (err > 0.1)) { print; bad = 1 } }
     END { exit bad }' "$metrics" || fail "a line contradicts itself"
[ "$(value degraded_steps < "$work/out")" = "$degraded" ] || fail "the summary counts $(value degraded_steps < "$work/out"), not $degraded"
[ "$(value exact < "$work/out")" = false ] || fail "called exact"
says "$work/err" 'goes on approximately: uncoded (s = 0) cannot do without workers 1' ||
    fail "the loss is not told: $(cat "$work/err")"
says "$work/err" 'exact again at step' || fail "the return is not told: $(cat "$work/err")"
says "$work/err" "$degraded of these steps were approximate" || fail "the end does not tell: $(cat "$work/err")"

# Lost for good: the progress lines say it as well (the first is told at once).
# shellcheck disable=SC2086
expect 0 train $job --local 4 --steps 20 --on-loss degrade --kill 1@1 --delay constant:delay=60ms
says "$work/err" 'approximate (too few workers): grad_err' || fail "no progress line says so: $(cat "$work/err")"

# Or it stops at once, with a checkpoint: there is no pause.
# shellcheck disable=SC2086
expect 4 train $job --local 4 --steps 1000000 --on-loss stop --kill 1@5 --run "$work/stop"
says "$work/err" 'step 5: 3 of 4 workers are ready, too few for uncoded (s = 0); missing: 1' ||
    fail "--on-loss stop does not say why: $(cat "$work/err")"
says "$work/err" 'paused' && fail "--on-loss stop paused: $(cat "$work/err")"
[ -n "$(ls -A "$work/stop/checkpoint" 2> /dev/null)" ] || fail "--on-loss stop: no checkpoint"

# The totals of an earlier life stay with the run.
# shellcheck disable=SC2086
expect 0 train $job --resume "$work/run" --steps 100 --delay constant:delay=1ms
[ "$(value degraded_steps < "$work/out")" = "$degraded" ] || fail "resumed: $(value degraded_steps < "$work/out") degraded steps"
[ "$(value exact < "$work/out")" = false ] || fail "resumed: called exact"
says "$work/err" 'as asked' && fail "resumed: the faults of the earlier life were done again: $(cat "$work/err")"

# An exact code goes on at a deadline that is given: both of a group are late.
# shellcheck disable=SC2086
expect 0 train $job --local 4 --steps 5 --code frc:s=1 --slow 0:2s --slow 1:2s --deadline 20ms
says "$work/err" 'goes on approximately: ' || fail "--deadline 20ms with frc: $(cat "$work/err")"
[ "$(value degraded_steps < "$work/out")" = 5 ] || fail "--deadline: $(value degraded_steps < "$work/out") degraded steps"
# shellcheck disable=SC2086
expect 0 train $job --local 4 --steps 5 --code frc:s=1 --deadline auto
says "$work/err" '--deadline auto changes nothing: frc is exact' || fail "--deadline auto with frc: $(cat "$work/err")"
# shellcheck disable=SC2086
expect 0 train $job --local 4 --steps 5 --code ignore --deadline auto
says "$work/err" '--deadline' && fail "--deadline auto with ignore: $(cat "$work/err")"
none_left || fail "left running: $(marked)"
finish
