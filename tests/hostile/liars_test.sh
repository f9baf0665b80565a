#!/usr/bin/env bash
# Machines that lie: one of 9 workers sends a gradient that is not its own. With
# --verify warn, the default, it is named within 20 steps; with correct the
# model is that of the honest run to 1e-4; with NaN it counts as a straggler,
# and is lost after three such answers.
. "$(dirname "$0")/../e2e/lib.sh"
: "${MUSTER_BUILD:?set MUSTER_BUILD to the build folder}"
plugin=$MUSTER_BUILD/liar_model.so
[ -f "$plugin" ] || { fail "$plugin was not built"; finish; }
slow=
data=synthetic:samples=600,features=20,classes=2,seed=4

# joined LIE ARGS..: a run whose worker 4 lies, the others do not; its exit
# code is in $code, its JSON in $work/out.bg.
joined() {
    local lie=$1 i options
    shift
    rm -f "$work/socket"
    muster_in_background train --model "$plugin" --data $data --target value --workers 9 \
        --listen "unix:$work/socket" --batch 0 --lr 0.2 --optimizer sgd --json "$@"
    wait_until 20 test -S "$work/socket" || { fail "no coordinator: $(cat "$work/err.bg")"; return; }
    for i in 0 1 2 3 4 5 6 7 8; do
        options="--worker $i --allow-model $plugin --quiet"
        [[ $slow == *" $i "* ]] && options="$options --slow $i:60ms" || options="$options --slow $i:20ms"
        # shellcheck disable=SC2086
        if [ "$i" -eq 4 ] && [ "$lie" != none ]; then
            LIE=$lie E2E_MARK=$mark "$MUSTER_BIN" join "unix:$work/socket" $options 2> "$work/err.$i" &
        else
            E2E_MARK=$mark "$MUSTER_BIN" join "unix:$work/socket" $options 2> "$work/err.$i" &
        fi
    done
    wait_for "$pid"
    kill -KILL $(marked) 2> /dev/null # a worker that was lost tries again
    wait_until 10 none_left || fail "left running: $(marked)"
}

for coding in "frc 2" "linear:tuned 4"; do
    read -r name s <<< "$coding"
    joined none --code "$name" --stragglers "$s" --steps 21
    [ "$code" -eq 0 ] || fail "$name, honest: exit code $code: $(tail -n 3 "$work/err.bg")"
    grep -q "wrong answer\|do not agree" "$work/err.bg" && fail "$name: an honest run is accused: $(cat "$work/err.bg")"
    honest=$(value theta_norm < "$work/out.bg")
    honest_loss=$(value loss < "$work/out.bg")
    for lie in scale flip stale constant huge; do
        joined $lie --code "$name" --stragglers "$s" --steps 20
        [ "$code" -eq 0 ] || [ $lie = huge ] ||
            fail "$name $lie: exit code $code: $(tail -n 3 "$work/err.bg")"
        says "$work/err.bg" "worker 4 sent a wrong answer to step" ||
            fail "$name $lie: not named: $(cat "$work/err.bg")"
        grep "wrong answer" "$work/err.bg" | grep -v "worker 4 " && fail "$name $lie: another was named"
    done
    for lie in scale stale; do
        joined $lie --code "$name" --stragglers "$s" --steps 21 --verify correct
        [ "$code" -eq 0 ] || fail "$name $lie, correct: exit code $code: $(tail -n 3 "$work/err.bg")"
        close "$(value theta_norm < "$work/out.bg")" "$honest" 1e-4 &&
            close "$(value loss < "$work/out.bg")" "$honest_loss" 1e-4 ||
            fail "$name $lie, correct: $(value loss < "$work/out.bg"), not $honest_loss: $(cat "$work/err.bg")"
    done
    # With all others slow the liar is the first.
    slow=" 0 1 2 3 5 6 7 8 "
    for lie in nan inf; do
        joined $lie --code "$name" --stragglers "$s" --steps 21
        [ "$code" -eq 0 ] || fail "$name $lie: exit code $code: $(tail -n 3 "$work/err.bg")"
        close "$(value loss < "$work/out.bg")" "$honest_loss" 1e-4 ||
            fail "$name $lie: loss $(value loss < "$work/out.bg"), not $honest_loss"
        says "$work/err.bg" "answer to step [0-9]* that is not finite; it counts as none (1 so far)" &&
            says "$work/err.bg" "(3 so far)" && says "$work/err.bg" "worker 4 is lost: three answers that are not finite" ||
            fail "$name $lie: not named, counted and lost: $(cat "$work/err.bg")"
    done
    slow=
done
finish
