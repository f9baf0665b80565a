#!/usr/bin/env bash
# Placements in training: they change the time, never the result of sync;
# averages of local models go on without a worker and take it back.
. "$(dirname "$0")/lib.sh"
data=synthetic:samples=3000,features=12,classes=3
common=(--data $data --local 4 --batch 240 --steps 40 --json)

# json EXPRESSION: of the summary `o` that was printed.
json() {
    python3 -c "import json; o=json.load(open('$work/out')); print($1)"
}
# near A B TOLERANCE: relative.
near() {
    python3 -c "import sys; a,b=$1,$2; sys.exit(abs(a-b) > $3*abs(b))" ||
        fail "$1 is not within $3 of $2"
}

expect 0 train "${common[@]}"
norm=$(json "o['theta_norm']")
for method in proportional-stratified submodular class-sorted; do
    expect 0 train "${common[@]}" --placement $method --speeds 1,2,3,4
    near "$(json "o['theta_norm']")" "$norm" 1e-5
    [ "$(json "o['exact']")" = True ] || fail "$method is not exact"
done
expect 0 train "${common[@]}" --batch 0
loss=$(json "o['loss']")
expect 0 train "${common[@]}" --placement equal-stratified --code frc:s=1 --batch 0
near "$(json "o['loss']")" "$loss" 1e-5
[ "$(json "all('idle_share' in w for w in o['workers'])")" = True ] || fail "no idle share"

# The file that partition writes is a placement; one of another length is not.
expect 0 partition --data $data --workers 4 --speeds 1,2,3,4 --out "$work/owners.npy"
expect 0 train "${common[@]}" --placement "$work/owners.npy" --run "$work/run"
near "$(json "o['theta_norm']")" "$norm" 1e-5
expect 3 train --data synthetic:samples=2999,features=12,classes=3 --local 4 \
    --placement "$work/owners.npy"
grep -q "3000 x 1 owners for 2999 samples" "$work/err" || fail "$(cat "$work/err")"
expect 3 train --data $data --local 3 --placement "$work/owners.npy"
grep -q "given to worker 3" "$work/err" || fail "$(cat "$work/err")"
expect 2 train "${common[@]}" --placement submodlar
expect 2 train "${common[@]}" --placement submodular --shuffle rotate:5

# Measured speeds: samples move, the result stays, and steps get shorter.
machines=(--data $data --workers 4 --batch 240 --steps 200 --json --slow 0:8x --slow 1:4x)
expect 0 simulate "${machines[@]}"
norm=$(json "o['codes'][0]['theta_norm']")
wait_ms=$(json "o['codes'][0]['step_ms']['p50']")
expect 0 simulate "${machines[@]}" --placement proportional-stratified --speeds measure
near "$(json "o['codes'][0]['theta_norm']")" "$norm" 1e-5
[ "$(json "o['codes'][0]['step_ms']['p50'] < $wait_ms / 2")" = True ] ||
    fail "measured speeds gain nothing: $(cat "$work/out")"
[ "$(json "o['codes'][0]['plans'] > 1")" = True ] || fail "no other plan"
expect 2 train "${common[@]}" --speeds measure
expect 2 train "${common[@]}" --speeds measure --placement submodular --code frc:s=1
expect 2 partition --data $data --workers 2 --speeds measure

# One step on all own samples, averaged, is one step on all samples.
expect 0 train "${common[@]}" --batch 0 --optimizer sgd
norm=$(json "o['theta_norm']")
expect 0 train "${common[@]}" --batch 0 --optimizer sgd --algorithm local:1 \
    --placement proportional-random --speeds 1,2,3,4 --l2 0
near "$(json "o['theta_norm']")" "$norm" 1e-5

# A worker that dies and returns: the run goes on, and ends near the other.
expect 0 train "${common[@]}" --algorithm local:4
loss=$(json "o['loss']")
expect 0 train "${common[@]}" --algorithm local:4 --kill 2@10 --rejoin 2@20
near "$(json "o['loss']")" "$loss" 0.01
[ "$(json "o['workers'][2]['deaths']")" = 1 ] || fail "nobody died"
expect 0 simulate --data $data --workers 4 --batch 240 --steps 40 --json \
    --algorithm local:4 --kill 2@10 --rejoin 2@20
near "$(json "o['codes'][0]['loss']")" "$loss" 0.01

# Gradients of own samples, applied as they come: near the synchronous result,
# also with a slow worker whose samples nobody else has, one that dies and
# returns, and after an interruption. Without a bound a step takes a millisecond
# at least: else a worker that waits for a core misses hundreds of steps.
own=(--data $data --local 4 --batch 240 --json --optimizer sgd --lr 0.3 --l2 0.01
    --epochs 60 --placement class-sorted)
expect 0 train "${own[@]}"
loss=$(json "o['loss']")
for algorithm in "ssp:0 --slow 0:2ms" "ssp:3 --slow 0:2ms" "async --delay constant:delay=1ms"; do
    # shellcheck disable=SC2086
    expect 0 train "${own[@]}" --algorithm $algorithm
    near "$(json "o['loss']")" "$loss" 0.05
    [ "$(json "o['steps']")" = 750 ] || fail "$algorithm: $(json "o['steps']") steps"
done
expect 0 train "${own[@]}" --algorithm async --placement equal-stratified \
    --delay constant:delay=1ms --slow 1:3ms --kill 2@100 --rejoin 2@120
near "$(json "o['loss']")" "$loss" 0.01
[ "$(json "o['workers'][2]['deaths']")" = 1 ] || fail "nobody died"
expect 0 train "${own[@]}" --algorithm ssp:2 --steps 300 --run "$work/ssp" \
    --checkpoint-every 100
expect 0 train --resume "$work/ssp" --steps 750 --json
near "$(json "o['loss']")" "$loss" 0.05
# A gradient that is to count more than a step does so in several updates:
# classes that only the slowest worker has are not lost (with one at most, the
# loss was 7 % above).
far=(--data $data --workers 4 --batch 240 --json --optimizer sgd --lr 0.1 --l2 0.01
    --epochs 200 --placement class-sorted --compute 4ms --slow 0:40x --delay exponential:mean=1ms)
expect 0 simulate "${far[@]}"
far_loss=$(json "o['codes'][0]['loss']")
expect 0 simulate "${far[@]}" --algorithm async
near "$(json "o['codes'][0]['loss']")" "$far_loss" 0.02

# Models of the workers' own, averaged with neighbours.
for algorithm in gossip:ring gossip:random:2; do
    expect 0 train "${own[@]}" --algorithm $algorithm
    near "$(json "o['loss']")" "$loss" 0.01
    expect 0 train "${own[@]}" --algorithm $algorithm --kill 2@100 --rejoin 2@120 \
        --placement equal-stratified
    near "$(json "o['loss']")" "$loss" 0.01
    [ "$(json "o['workers'][2]['deaths']")" = 1 ] || fail "nobody died"
done
expect 0 train "${own[@]}" --algorithm gossip:ring --steps 300 --run "$work/gossip"
expect 0 train --resume "$work/gossip" --steps 750 --json
near "$(json "o['loss']")" "$loss" 0.01
expect 2 train "${common[@]}" --algorithm gossip
expect 2 train "${common[@]}" --algorithm gossip:random:0
expect 2 train "${common[@]}" --algorithm ssp:
expect 2 train "${common[@]}" --algorithm async --code frc:s=1
expect 2 train "${common[@]}" --algorithm async --deadline 10ms
expect 2 train "${common[@]}" --algorithm local:0
expect 2 train "${common[@]}" --algorithm local:4 --code frc:s=1

# Until a target: the steps and seconds to it.
expect 0 train "${common[@]}" --steps 4000 --until accuracy=0.6 --eval-every 2
[ "$(json "o['target']['test_accuracy'] >= 0.6 and o['steps'] < 4000")" = True ] ||
    fail "the target: $(cat "$work/out")"
[ "$(json "o['target']['step'] % 2")" = 0 ] || fail "evaluated in between"
# Evaluations run beside the steps, short ones or long, and the run ends at the
# same step: the next evaluation's.
ends=$(json "o['target']['step'], o['steps'], o['theta_norm']")
for pace in "--slow 1:3ms" "--delay exponential:mean=1ms"; do
    # shellcheck disable=SC2086
    expect 0 train "${common[@]}" --steps 4000 --until accuracy=0.6 --eval-every 2 $pace
    [ "$(json "o['target']['step'], o['steps'], o['theta_norm']")" = "$ends" ] ||
        fail "$pace: $(json "o['target'], o['steps'], o['theta_norm']"), not $ends"
done
[ "$(json "o['steps'] - o['target']['step']")" = 2 ] || fail "not at the next evaluation"
[ "$(json "[e['step'] for e in o['evaluations']] == list(range(2, o['steps'], 2))")" = True ] ||
    fail "$(json "o['evaluations']")"
expect 2 train "${common[@]}" --until accuracy=2
expect 2 train "${common[@]}" --until speed=2
finish
