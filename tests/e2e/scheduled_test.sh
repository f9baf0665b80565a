#!/usr/bin/env bash
# A code in stages on real processes: one worker is killed and returns, one is
# stopped and goes on, and every step stays exact; a quiet run sends what an
# uncoded one sends; a run is resumed; what it cannot be used with is refused.
. "$(dirname "$0")/lib.sh"

job="--data synthetic:samples=1200,features=20,classes=5,seed=3 --steps 60 --batch 120 --lr 0.1 --json"

# shellcheck disable=SC2086
expect 0 train $job --local 6 --code uncoded
norm_0=$(value theta_norm < "$work/out")
up_0=$(value bytes_up < "$work/out")
at_least "$norm_0" 0.01 || fail "theta_norm $norm_0: nothing was learnt"

# same WHAT: exact in every step, and theta that of the uncoded run.
same() {
    local norm
    norm=$(value theta_norm < "$work/out")
    close "$norm" "$norm_0" 1e-6 || fail "$1: theta_norm $norm, not $norm_0"
    [ "$(value exact < "$work/out")" = true ] || fail "$1: not exact: $(cat "$work/out")"
}

# like_uncoded WHAT ARGS: a run like the uncoded one.
like_uncoded() {
    local what=$1
    shift
    # shellcheck disable=SC2086
    expect 0 train $job --local 6 "$@" && same "$what"
}

# Nobody is late: hardly more comes up than uncoded. Every worker waits a few
# milliseconds, so that none is late only because the machine is busy.
like_uncoded quiet --code scheduled:s=2,start=asked --delay constant:delay=20ms
up=$(value bytes_up < "$work/out")
at_least "$(awk -v b="$up_0" 'BEGIN { print 1.1 * b }')" "$up" ||
    fail "quiet: $up bytes came up, uncoded $up_0"

# One is killed and returns, one is stopped and goes on. The delay makes steps
# long enough for both to be back before the end.
for code in scheduled:s=2 scheduled:s=2,start=now scheduled:s=2,order=staircase,pieces=2; do
    like_uncoded "$code" --code $code --delay constant:delay=10ms \
        --kill 1@5 --rejoin 1@15 --stop 4@10 --cont 4@30
    says "$work/err" 'worker 1 is lost' || fail "$code: the loss is not told: $(cat "$work/err")"
    says "$work/err" 'worker 1 is back' || fail "$code: worker 1 did not come back: $(cat "$work/err")"
done
like_uncoded slow --code scheduled:s=2 --slow 0:100ms --slow 3:100ms

# Two neighbours are slow, and s = 1: the order learns to leave them out.
like_uncoded learnt --code scheduled:s=1,order=speeds --slow 2:40ms --slow 3:40ms
says "$work/err" 'another order of the shares, for slow are: 2, 3' ||
    fail "the order did not change: $(cat "$work/err")"

# Too many are lost: exit code 4. The resumed run ends where the others did.
# shellcheck disable=SC2086
expect 4 train $job --local 6 --code scheduled:s=2 --checkpoint-every 10 --patience 1s \
    --kill 0@25 --kill 1@25 --kill 2@25 --run "$work/run"
expect 0 train --resume "$work/run" --patience 20s --kill 5@40 --json
same resumed

# refused WHY ARGS
refused() {
    local why=$1
    shift
    # shellcheck disable=SC2086
    expect 2 train $job "$@"
    says "$work/err" "$why" || fail "$*: no reason: $(cat "$work/err")"
}
refused correct --local 6 --code scheduled:s=2 --verify correct
refused topology --topology 2x3 --code scheduled:s=2
wait_until 10 none_left || fail "left running: $(marked)"
finish
