#!/usr/bin/env bash
# Results go to stdout, people's text to stderr: --json prints one object, the
# same that --run writes; --quiet says nothing; a resumed run takes its options
# from its folder; predict uses what train wrote.
. "$(dirname "$0")/lib.sh"
data=synthetic:samples=400,features=6,classes=3,seed=2
dir=$work/run

run train --data $data --local 2 --steps 20 --run "$dir" --json
[ "$code" -eq 0 ] || fail "train: exit code $code: $(cat "$work/err")"
[ "$(head -c 1 "$work/out")" = "{" ] && [ "$(grep -c '^{' "$work/out")" -eq 1 ] || fail "--json: not one object"
diff <(cat "$work/out") <(cat "$dir/summary.json"; echo) > "$work/diff" ||
    diff "$work/out" "$dir/summary.json" > "$work/diff" || fail "--json differs from summary.json: $(head -n 5 "$work/diff")"
[ -s "$work/err" ] || fail "nothing for people on stderr"
grep -q $'\033' "$work/err" "$work/out" && fail "colours without a terminal"
for file in config.json metrics.jsonl workers.jsonl summary.json cluster.yaml model.safetensors; do
    [ -s "$dir/$file" ] || fail "the run folder has no $file"
done
[ "$(wc -l < "$dir/metrics.jsonl")" -eq 20 ] || fail "metrics.jsonl: not a line a step"
for key in steps wall_s step_ms p50 p90 p99 mean loss test accuracy code n s m d workers class \
    straggle_rate compute_ms_p50 deaths parts_received bytes_up bytes_down messages_up bytes_moved \
    grad_err_max theta_norm exact; do
    grep -q "\"$key\":" "$dir/summary.json" || fail "summary.json has no $key"
done

run train --data $data --local 2 --steps 5 --quiet
[ "$code" -eq 0 ] && [ ! -s "$work/out" ] && [ ! -s "$work/err" ] || fail "--quiet is not: $(cat "$work/out" "$work/err")"

refuses 2 "$dir: holds another run; continue it with --resume $dir or choose another folder" \
    train --data $data --local 2 --steps 5 --run "$dir"

# The folder knows data, seed and workers; only the length changes.
run train --resume "$dir" --steps 30 --json
[ "$code" -eq 0 ] || fail "--resume: exit code $code: $(cat "$work/err")"
[ "$(wc -l < "$dir/metrics.jsonl")" -eq 30 ] || fail "--resume: metrics.jsonl has $(wc -l < "$dir/metrics.jsonl") lines, not 30"
run train --data $data --local 2 --steps 30 --json --run "$work/straight"
norms=$(sed -n 's/.*"theta_norm": \([0-9.]*\).*/\1/p' "$dir/summary.json" "$work/straight/summary.json")
echo "$norms" | awk '{ v[NR] = $1 } END { d = v[1] - v[2]; if (d < 0) d = -d; exit !(NR == 2 && d <= 1e-5 * v[2]) }' ||
    fail "a resumed run ends elsewhere than a straight one: $norms"

# Of synthetic data a fifth is kept for testing; predict takes that.
run predict "$dir" --data $data --out "$work/predicted.csv" --json
[ "$code" -eq 0 ] || fail "predict: exit code $code: $(cat "$work/err")"
grep -q '"samples": 80' "$work/out" || fail "predict --json: $(cat "$work/out")"
[ "$(grep -c . "$work/predicted.csv")" -ge 80 ] || fail "predict: not a line per row"
refuses 3 "$work/none: No such file or directory" predict "$work/none" --data $data
finish
