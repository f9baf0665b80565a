#!/usr/bin/env bash
# A wrong command line is refused in one line that says what would be right.
. "$(dirname "$0")/lib.sh"
data="--data synthetic:samples=100,features=4,classes=2"

refuses 2 "--stragler: unknown option of train; did you mean --stragglers?" train --stragler 1
refuses 2 "--xyzzyplugh: unknown option of train; see \`muster train --help\`" train --xyzzyplugh
refuses 2 "train: what is 'mnist'? Options begin with --" train mnist
refuses 2 "--steps: needs a value: N" train --steps
refuses 2 "--steps: 'x' is not a whole number" train --steps=x
refuses 2 "--lr: -1 is outside 0 to 1000000" train --lr -1
refuses 2 "train: --data is missing; for example --data synthetic:samples=10000" train
# shellcheck disable=SC2086
{
refuses 2 "--kill 99@5: there are 8 workers, numbered 0 to 7" train $data --local 8 --kill 99@5
refuses 2 "--slow 1:fast: write W:TIME such as 3:200ms (at most 1h), or W:FACTORx such as 3:10x (at least 1x), with @STEP to begin there" train $data --slow 1:fast
refuses 2 "--rejoin 1@5: worker 1 is not killed before" train $data --rejoin 1@5
refuses 2 "--stragglers 4: of 4 workers at most 3 may be left out" train $data --local 4 --stragglers 4
refuses 2 "--workers 3 and --local 2 disagree: use one of them" train $data --workers 3 --local 2 --listen 127.0.0.1:0
refuses 2 "--listen: needs --workers N, how many will join, or --local N, to be started here" train $data --listen 127.0.0.1:0
# A name or a key that is nearly right: the one that was meant.
refuses 2 "--model sofmax: unknown; did you mean softmax? There are linear, logistic, softmax, mlp, cnn, mf, complex, distmult, transe, skipgram, PATH.so (./mine.so)" train $data --steps 1 --model sofmax
refuses 2 "--model mlp: parameter hiden: unknown; did you mean hidden? There are hidden, dropout, norm, class-weights, smoothing" train $data --steps 1 --model mlp:hiden=3
refuses 2 "--optimizer adma: unknown; did you mean adam? There are sgd, momentum, nesterov, adam, adamw" train $data --steps 1 --optimizer adma
refuses 2 "--delay iid: p=0x1: expected a number from 0 to 1" train $data --steps 1 --delay iid:p=0x1,delay=1h
refuses 2 "--shuffle rotat: unknown; did you mean rotate:30? There are none, auto, targeted, rotate:30" train $data --steps 1 --local 4 --shuffle rotat:5
refuses 2 "--delay constant: delay= is given twice" simulate --workers 4 --delay constant:delay=5ms,delay=50ms
refuses 2 "--model mlp: hidden= is given twice" train $data --steps 1 --model mlp:hidden=4,hidden=8
refuses 2 "code frc: s= is given twice" code frc:s=1,s=3 --workers 4
refuses 2 "--shards 2: too few for the 3 parts of code uncoded; 12 is the default" train $data --local 3 --steps 1 --shards 2
refuses 2 "--shards 101: there are 100 samples for them; give no more shards than samples" simulate $data --workers 3 --steps 1 --shards 101
refuses 2 "--model mf: a sparse task, which only train takes; use linear, logistic, softmax, mlp, cnn or PATH.so" partition $data --workers 4 --model mf
refuses 2 "--data synthetc: unknown; did you mean synthetic? There are synthetic, zipf" train --data synthetc:samples=100
refuses 2 "--model mf: rank=0x4: expected a whole number from 1 to 4096" train --data zipf:rows=9,cols=9,cells=99 --model mf:rank=0x4
}
refuses 2 "join: --connect is missing; for example muster join 10.0.0.1:7700" join
refuses 2 "predict: --from is missing; for example muster predict runs/first --data PATH" predict
refuses 2 "code: which one? \`muster code list\` names them all; for example muster code frc --workers 12" code
refuses 2 "neighbors: what is '--cuont'? see \`muster neighbors --help\`" neighbors a b --cuont 3
refuses 2 "--count: needs a value: N" neighbors a b --count
refuses 2 "neighbors: expected PATH WORD; see \`muster neighbors --help\`" neighbors a
refuses 2 "code: --workers is missing; for example muster code frc --workers 12; \`muster code list\` names all codes" code frc
refuses 2 "code: --workers is missing; for example muster code frc --workers 12; \`muster code list\` names all codes" code frc --workers 0 --matrix --json

# Messages that take longer than the others wait: the option is named.
run simulate --workers 2 --latency 3s
[ "$code" -eq 4 ] && grep -q 'missing: 0, 1; --latency 3s is longer than the 2s that a worker' "$work/err" ||
    fail "--latency 3s: exit code $code: $(cat "$work/err")"
run simulate --workers 2 --latency 1.2s --heartbeat 500ms
[ "$code" -eq 4 ] && grep -q 'use --heartbeat 2.4s' "$work/err" ||
    fail "--heartbeat 500ms: exit code $code: $(cat "$work/err")"
run simulate --workers 2 --steps 3 --latency 1.2s --heartbeat 2.4s
[ "$code" -eq 0 ] || fail "--heartbeat 2.4s: exit code $code: $(cat "$work/err")"

# YAML: errors name file and line; flags win.
cat > "$work/bad.yaml" << 'YAML'
# a run
steps: 5
stragler: 1
YAML
refuses 2 "$work/bad.yaml:3: stragler: unknown option of train; did you mean stragglers?" train --config "$work/bad.yaml"
printf 'steps: many\n' > "$work/many.yaml"
refuses 2 "$work/many.yaml:1: steps: 'many' is not a whole number" train --config "$work/many.yaml"
printf 'steps: [1]\n' > "$work/list.yaml"
refuses 2 "$work/list.yaml:1: a list does not belong here" train --config "$work/list.yaml"
refuses 3 "$work/none.yaml: No such file or directory" train --config "$work/none.yaml"

# Folders that are none, or hold no run.
mkdir "$work/empty"
: > "$work/file"
# shellcheck disable=SC2086
{
refuses 3 "--resume $work/none: there is no run to continue: config.json: No such file or directory; --run DIR starts one" train --resume "$work/none"
refuses 3 "--resume $work/file: there is no run to continue: config.json: Not a directory; --run DIR starts one" train $data --resume "$work/file"
refuses 2 "$work/file: a file stands where the run folder would be; choose another name" train $data --steps 1 --run "$work/file"
refuses 2 "$work/file/run: a file stands where the run folder would be; choose another name" train $data --steps 1 --run "$work/file/run"
refuses 2 "--checkpoint-every: needs --run DIR, where checkpoints are kept" train $data --checkpoint-every 5
refuses 3 "$work/empty/model.safetensors: No such file or directory" predict "$work/empty" $data
}
refuses 3 "$work/none: No such file or directory" predict "$work/none" --data synthetic:
refuses 3 "$work/empty/vectors.txt: no vectors here; a run of skipgram, complex, distmult or transe writes them when it ends" neighbors "$work/empty" word
mkdir -p "$work/full/vectors.txt"
refuses 3 "$work/full/vectors.txt: not a regular file" neighbors "$work/full" word
refuses 3 "$work/file: expected a folder with train2id.txt, train.txt, train.tsv or train.del (or .gz)" train --model complex --data "$work/file"
printf '{"verb": "train", "stepps": 3}\n' > "$work/empty/config.json"
refuses 3 "$work/empty/config.json: stepps: unknown option of train; did you mean steps?" train --resume "$work/empty"

# Names are read before the data, which may take long.
for wrong in '--model sofmax' '--optimizer adma' '--schedule cosin' '--listen 127.0.0.1:99999 --workers 2'; do
    # shellcheck disable=SC2086
    run train --data "$work/nowhere" $wrong
    [ "$code" -eq 2 ] || fail "$wrong and no data: exit code $code: $(cat "$work/err")"
done
refuses 2 "--code frc:s=1+: a code is missing; write them as uncoded+frc:s=1" simulate --workers 4 --code frc:s=1+
printf '0.5,0.7\n0.4,0.9\n' > "$work/real.csv"
run train --data "$work/real.csv" --model softmax
grep -q 'the data has real values; use linear' "$work/err" || fail "real values: $(cat "$work/err")"
printf 'kill: [99@5]\nlocal: 8\ndata: synthetic:samples=100\n' > "$work/kill.yaml"
refuses 2 "--kill 99@5: there are 4 workers, numbered 0 to 3" train --config "$work/kill.yaml" --local 4
finish
