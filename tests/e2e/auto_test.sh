#!/usr/bin/env bash
# --code auto: the code changes while eight real workers train; no step is lost
# or done twice, the model is the uncoded one, and a resumed run measures anew.
. "$(dirname "$0")/lib.sh"
common=(--data synthetic:samples=4000,features=20 --local 8 --batch 800 --json)
slow=(--slow 0:50ms --slow 1:50ms --slow 0:0ms@60 --slow 1:0ms@60
    --slow 2:50ms@60 --slow 3:50ms@60)

# json FILE EXPRESSION: of the object `o` in it.
json() {
    python3 -c "import json; o=json.load(open('$1')); print($2)"
}
# every_step RUN COUNT: the lines of metrics.jsonl are those steps, once each.
every_step() {
    python3 - "$1/metrics.jsonl" "$2" << 'EOF' || fail "$1: steps are lost or repeated"
import json, sys
steps = [json.loads(line)["step"] for line in open(sys.argv[1])]
sys.exit(steps != list(range(int(sys.argv[2]))))
EOF
}

expect 0 train "${common[@]}" --steps 120
norm=$(json "$work/out" "o['theta_norm']")
loss=$(json "$work/out" "o['loss']")

expect 0 train "${common[@]}" --steps 120 --code auto "${slow[@]}" --run "$work/run"
cp "$work/err" "$work/err.auto"
grep -q "in place of uncoded: steps of .* ms are expected, not of" "$work/err" ||
    fail "the code did not change: $(cat "$work/err")"
close "$(json "$work/out" "o['theta_norm']")" "$norm" 1e-4 || fail "another model"
close "$(json "$work/out" "o['loss']")" "$loss" 1e-4 || fail "another loss"
[ "$(json "$work/run/summary.json" "o['code']['name'] != 'uncoded' and o['code']['s'] >= 2")" = True ] ||
    fail "the summary has another code: $(cat "$work/run/summary.json")"
[ "$(json "$work/run/summary.json" "o['exact'] and o['bytes_moved'] > 0")" = True ] ||
    fail "not exact, or nothing moved"
every_step "$work/run" 120

# A resumed run begins uncoded and goes over again.
expect 0 train --resume "$work/run" --steps 160 --json
every_step "$work/run" 160
expect 0 train "${common[@]}" --steps 160
norm=$(json "$work/out" "o['theta_norm']")
close "$(json "$work/run/summary.json" "o['theta_norm']")" "$norm" 1e-4 ||
    fail "another model after --resume"

# Equal workers: coding does not pay.
expect 0 simulate --workers 8 --steps 60 --code auto --json
[ "$(json "$work/out" "o['codes'][0]['plans']")" = 1 ] || fail "equal workers were coded"
grep -q "code uncoded stays" "$work/err" || fail "$(cat "$work/err")"

# refused TEXT OPTIONS..: with a word of the option that is in the way.
refused() {
    local text=$1
    shift
    expect 2 train --data synthetic: --code auto "$@"
    grep -q -- "--code auto.*$text" "$work/err" || fail "$*: $(cat "$work/err")"
}

refused local:4 --algorithm local:4
refused "--speeds measure" --placement submodular --speeds measure
refused --placement --placement submodular
refused --shuffle --shuffle rotate:5
refused --stragglers --stragglers 2
expect 2 code auto --workers 4
finish
