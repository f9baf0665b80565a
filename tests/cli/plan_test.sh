#!/usr/bin/env bash
# muster plan: a plan from a cluster file, and from the one that a run wrote;
# bad files are refused by file, line and key; codes and simulations read it.
. "$(dirname "$0")/lib.sh"
cd "$work" || exit 1

cat > c.yaml << 'END'
version: 1
defaults:
  worker: {compute: {shift: 10ms, mean: 5ms}, link: {latency: 20ms, loss: 0.1}}
  edge: {link: {latency: 50ms, loss: 0.1}}
edges:
  - link: {latency: 1s}
    workers: [{count: 8}, {count: 2, speed: 0.1}]
  - count: 3
    workers: [{count: 8}, {count: 2, speed: 0.1}]
END
run plan --cluster c.yaml --json --explain
[ "$code" -eq 0 ] || fail "plan --json: exit code $code"
for key in chosen code s m d s_e s_w expected_ms surrogate_ms alternatives per_worker; do
    grep -q "\"$key\":" "$work/out" || fail "plan --json has no key $key"
done
grep -q '"left_out": \[0, 1, 2,' "$work/out" || fail "nobody is left out: $(cut -c1-400 "$work/out")"
run plan --cluster c.yaml --all-workers --json
grep -q '"chosen": {"code": "hier"' "$work/out" || fail "not hier: $(cut -c1-80 "$work/out")"
run plan --cluster c.yaml --used used.yaml
[ "$code" -eq 0 ] || fail "plan --used: exit code $code"
grep -q '^  worker-only ' "$work/out" || fail "plan prints no comparison"

printf 'version: 1\nworkers:\n  - {sped: 2}\n' > bad.yaml
refuses 3 "bad.yaml:3: workers[0].sped: key sped: unknown; did you mean speed? There are speed, compute, link, count" plan --cluster bad.yaml
refuses 3 "none.yaml: cannot be opened: No such file or directory; expected a cluster file" plan --cluster none.yaml
run plan
[ "$code" -eq 2 ] || fail "plan without --cluster: exit code $code"

# A run's own file.
run train --data synthetic:samples=400 --local 3 --steps 20 --run r --quiet
[ "$code" -eq 0 ] || fail "train: exit code $code"
run plan --cluster r/cluster.yaml --json
[ "$code" -eq 0 ] || fail "plan of a run's cluster.yaml: exit code $code: $(cat "$work/err")"
run code heter:s=1 --workers 3 --speeds r/cluster.yaml --json
[ "$code" -eq 0 ] || fail "--speeds FILE: exit code $code"
refuses 3 "r/cluster.yaml: has 3 workers, the run has 4" code heter:s=1 --workers 4 --speeds r/cluster.yaml
run simulate --workers 40 --cluster c.yaml --code hier:se=1,sw=1,edges=4x10 --steps 20 --json
[ "$code" -eq 0 ] || fail "simulate --cluster: exit code $code: $(cat "$work/err")"

# What a file has and virtual time has not is said.
printf 'version: 1\nprocessors: 2\nworkers: [{count: 4}]\n' > shared.yaml
run simulate --cluster shared.yaml --code uncoded+frc:s=1 --steps 5
[ "$(grep -c 'processors: 2 is not simulated' "$work/err")" -eq 1 ] ||
    fail "shared processors: $(cat "$work/err")"

# The file says how many workers there are, and under which edges.
run simulate --cluster used.yaml --code hier:se=0,sw=0 --steps 20 --json
grep -q '"edges": 3' "$work/out" || grep -q '"workers": 24' "$work/out" ||
    fail "simulate --cluster used.yaml: exit code $code: $(cut -c1-300 "$work/out")"
refuses 1 "--used no/where.yaml: No such file or directory" plan --cluster c.yaml --used no/where.yaml

# The two-layer code says its bound.
run code hier:se=1,sw=2,edges=4x10 --workers 40 --json
grep -q '"load": 0.15, .*"load_bound": 0.15, "flat_s": 16, "flat_load": 0.425' "$work/out" ||
    fail "code hier: $(cat "$work/out")"
refuses 2 "hier: edge 2 has 10 of the 14 workers and would hold more than all parts 2 times over (se = 1, me = 1); feasible are se + me <= 1, or at most 7 workers under an edge" code hier:se=1,edges=2,2,10 --workers 14
finish
