#!/usr/bin/env bash
# --code auto under edges, as real processes: the two-layer code changes while
# nine workers under three edges train, with a slow worker, then a slow edge,
# then an edge that dies and returns; no step is lost or done twice, the model
# is the uncoded one, and a resumed run measures anew.
. "$(dirname "$0")/lib.sh"
common=(--data synthetic:samples=3600,features=20 --batch 720 --json)
edges=(--topology 3x3 --code auto)

# json FILE EXPRESSION: of the object `o` in it.
json() {
    python3 -c "import json; o=json.load(open('$1')); print($2)"
}
# every_step RUN COUNT: the lines of metrics.jsonl are those steps, once each.
every_step() {
    python3 - "$1/metrics.jsonl" "$2" << 'END' || fail "$1: steps are lost or repeated"
import json, sys
steps = [json.loads(line)["step"] for line in open(sys.argv[1])]
sys.exit(steps != list(range(int(sys.argv[2]))))
END
}
# same NAME: as the uncoded run.
same() {
    close "$(json "$work/out" "o['theta_norm']")" "$norm" 1e-4 || fail "$1: another model"
    close "$(json "$work/out" "o['loss']")" "$loss" 1e-4 || fail "$1: another loss"
}

expect 0 train "${common[@]}" --local 3 --steps 120
norm=$(json "$work/out" "o['theta_norm']")
loss=$(json "$work/out" "o['loss']")

# A worker under each edge is slow, and later an edge instead.
expect 0 train "${common[@]}" "${edges[@]}" --steps 120 --run "$work/run" \
    --slow 1:50ms --slow 4:50ms --slow 8:50ms --slow 1:0ms@60 --slow 4:0ms@60 \
    --slow 8:0ms@60 --slow edge2:50ms@60
same slow
says "$work/err" "code hier:se=[0-9],sw=[0-9] in place of hier:se=0,sw=0: steps of .* ms are expected, not of" ||
    fail "the code did not change: $(cat "$work/err")"
[ "$(grep -c "in place of hier" "$work/err")" -ge 2 ] ||
    fail "a slow edge did not change it: $(cat "$work/err")"
[ "$(json "$work/run/summary.json" "o['code']['name'] == 'hier' and o['code']['s'] > 0")" = True ] ||
    fail "the summary has another code: $(cat "$work/run/summary.json")"
[ "$(json "$work/run/summary.json" "o['exact'] and o['bytes_moved'] > 0")" = True ] ||
    fail "not exact, or nothing moved"
every_step "$work/run" 120
# What was measured is of load 1, whatever the codes were.
expect 0 plan --cluster "$work/run/cluster.yaml" --json

# A resumed run begins without tolerance.
expect 0 train --resume "$work/run" --steps 160 --json
every_step "$work/run" 160

# An edge dies after the change, and returns under the plan in force.
expect 0 train "${common[@]}" "${edges[@]}" --steps 120 \
    --slow edge1:30ms --kill edge2@50 --rejoin edge2@55 --patience 20s
same killed
says "$work/err" "edge 2 is lost" || fail "the loss is not told: $(cat "$work/err")"

# Equal workers: coding does not pay.
expect 0 simulate --topology 3x3 --steps 60 --code auto --json
[ "$(json "$work/out" "o['codes'][0]['plans']")" = 1 ] || fail "equal workers were coded"
grep -q "code hier stays" "$work/err" || fail "$(cat "$work/err")"
wait_until 10 none_left || fail "left running: $(marked)"
finish
