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
    {
        kill -KILL $(marked) # a worker that was lost tries again
        wait
    } 2> /dev/null
    none_left || fail "left running: $(marked)"
}

# theta DIR: the model's numbers, one a line.
theta() {
    local file=$1/model.safetensors header
    header=$(od -An -tu8 -N8 "$file" | tr -d ' ')
    od -An -v -tf4 -w4 -j $((8 + header)) "$file"
}

# same_theta DIR DIR: every number to 1e-4 of the largest.
same_theta() {
    paste <(theta "$1") <(theta "$2") | awk '{ d = $1 - $2; if (d < 0) d = -d
            m = $2 < 0 ? -$2 : $2; if (d > far) far = d; if (m > most) most = m }
        END { exit !(NR > 20 && NF == 2 && most > 0 && far <= 1e-4 * most) }'
}

for coding in "frc 2" "linear:tuned 4"; do
    read -r name s <<< "$coding"
    rm -rf "$work/honest"
    joined none --code "$name" --stragglers "$s" --steps 21 --run "$work/honest"
    [ "$code" -eq 0 ] || fail "$name, honest: exit code $code: $(tail -n 3 "$work/err.bg")"
    grep -q "wrong answer\|do not agree" "$work/err.bg" && fail "$name: an honest run is accused: $(cat "$work/err.bg")"
    honest_loss=$(value loss < "$work/out.bg")
    for lie in scale flip stale constant huge vast; do
        rm -rf "$work/lied"
        joined $lie --code "$name" --stragglers "$s" --steps 20 --run "$work/lied"
        [ "$code" -eq 0 ] || [ $lie = huge ] || [ $lie = vast ] ||
            fail "$name $lie: exit code $code: $(tail -n 3 "$work/err.bg")"
        says "$work/err.bg" "worker 4 sent a wrong answer to step" ||
            fail "$name $lie: not named: $(cat "$work/err.bg")"
        grep "wrong answer" "$work/err.bg" | grep -v "worker 4 " && fail "$name $lie: another was named"
    done
    for lie in scale flip stale constant vast; do
        rm -rf "$work/lied"
        joined $lie --code "$name" --stragglers "$s" --steps 21 --verify correct --run "$work/lied"
        [ "$code" -eq 0 ] || fail "$name $lie, correct: exit code $code: $(tail -n 3 "$work/err.bg")"
        same_theta "$work/lied" "$work/honest" ||
            fail "$name $lie, correct: another theta than the honest one: $(cat "$work/err.bg")"
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

# A code that needs every answer goes on approximately where it may, and ends
# where all are not finite: it does not wait for what will not come.
joined nan --code uncoded --on-loss degrade --steps 21
[ "$code" -eq 0 ] || fail "uncoded nan, degrade: exit code $code: $(tail -n 3 "$work/err.bg")"
says "$work/err.bg" "goes on approximately: uncoded (s = 0) cannot do without workers 4" &&
    says "$work/err.bg" "worker 4 is lost: three answers that are not finite" ||
    fail "uncoded nan, degrade: not named: $(cat "$work/err.bg")"
LIE=nan muster train --model "$plugin" --data $data --target value --local 3 --batch 0 --lr 0.2 --optimizer sgd \
    --on-loss degrade --steps 5 > "$work/out"
[ $? -eq 2 ] || fail "all nan, degrade: $(tail -n 3 "$work/err")"
says "$work/err" "answers of workers 0, 1, 2 are not finite" || fail "all nan: not named: $(cat "$work/err")"
finish
