# Tang, Li, Chen and Chen: codes in two layers, edges and workers, and the
# choice of their tolerances. See lib.sh for what a page is.
title="Hierarchical gradient coding"
paper="Tang, Li, Chen, Chen, Design and optimization of hierarchical gradient coding for distributed learning at edge devices, 2024 (arXiv 2406.10831)"
about="Workers under edges under a coordinator, a code in each layer, tolerances chosen from delays: load against its bound, step times of all schemes, accuracy against time, what comes in at the coordinator, 10,000 workers, and a real run against its prediction."
sections="load bars grid accuracy ingress scale real"
checked="load bars grid accuracy ingress scale"

# cluster NAME SLOW_EDGE SLOW_WORKERS: 4 edges of 10 workers. Computing a shard
# takes 10 ms and Exp(5 ms), a link 20 ms, an edge's 50 ms, a tenth of all tries
# fail. The first edge's link takes SLOW_EDGE times as long; SLOW_WORKERS workers
# under each edge are ten times slower.
cluster() {
    cat > "$work/$1.yaml" <<EOP
version: 1
defaults:
  worker: {compute: {shift: 10ms, mean: 5ms}, link: {latency: 20ms, loss: 0.1}}
  edge: {link: {latency: 50ms, loss: 0.1}}
edges:
  - link: {latency: $((50 * $2))ms}
    workers: [{count: $((10 - $3))}, {count: $3, speed: 0.1}]
  - count: 3
    workers: [{count: $((10 - $3))}, {count: $3, speed: 0.1}]
EOP
}

# plan NAME ARGS: the plan of a cluster, in $work/NAME.plan.
plan() {
    muster plan --cluster "$work/$1.yaml" --json "${@:2}" > "$work/$1.plan"
}

# field KEY: a number or a text with commas, of JSON on stdin.
field() { grep -oE "\"$1\": *(\"[^\"]*\"|[^,}]*)" | head -n 1 | sed 's/^[^:]*: *//; s/[" ]//g'; }

# chosen NAME KEY, alternative NAME LABEL KEY: of that plan.
chosen() { field "$2" < "$work/$1.plan"; }
alternative() { grep -o "{\"label\": \"$2\"[^}]*}" "$work/$1.plan" | field "$3"; }

# step_ms FILE CODE: the mean simulated step. Messages are short: time is what
# the file says.
step_ms() {
    muster simulate --cluster "$1" --code "$2" --steps "$(pick 1000 400)" \
        --model-floats 100 --json | tr -d '\n' |
        grep -o '"step_ms": {[^}]*}' | field mean
}

section_load() {
    local line sizes pair s_e s_w json worst=0
    cat <<'TEXT'
## Load against the bound

The share of the data that a worker computes, D/K, is at least (s_e + 1)(s_w + 1) / sum m_i (Theorem 1 of the paper). `hier` meets it
with equality, also where edges are unequal. A flat code that survives the same losses must tolerate s_e m + (n - s_e) s_w workers, and
its load is one more than that over the number of workers.
TEXT
    csv load edges s_e s_w "D/K" bound "flat s" "flat D/K"
    for line in 4x4:1:1 4x10:1:1 4x10:1:2 4x10:1:3 4x10:2:2 "3,4,5,6:1:2" "5,10,10,15:1:2" "4,5,6:1:1"; do
        IFS=: read -r sizes s_e s_w <<< "$line"
        json=$(muster code "hier:se=$s_e,sw=$s_w" --topology "$sizes" \
            --workers "$(tr ',' '\n' <<< "$sizes" | awk -Fx '{ s += NF == 2 ? $1 * $2 : $1 } END { print s }')" --json)
        row load "${sizes//,/ }" "$s_e" "$s_w" "$(value load <<< "$json")" "$(value load_bound <<< "$json")" \
            "$(value flat_s <<< "$json")" "$(value flat_load <<< "$json")"
    done
    table load
    worst=$(awk -F, 'NR > 1 { d = $4 / $5 - 1; d = d < 0 ? -d : d; if (d > w) w = d } END { print w + 0 }' "$files/load.csv")
    of() { awk -F, -v k="$1" '$1 == "4x10" && $2 == 1 && $3 == 2 { print $k }' "$files/load.csv"; }
    figures
    figure "largest D/K over the bound; minus 1" "0" "$worst" 0 1e-5 "equality, for every topology of the table"
    figure "4 x 10 (1; 2): D/K" "-" "$(of 4)" 0.1499 0.1501 "the bound"
    figure "4 x 10 (1; 2): flat D/K" "-" "$(of 7)" 0.4249 0.4251 "s = 16"
}

section_bars() {
    local name label spec
    cat <<'TEXT'
## Step times

Two clusters of 4 edges with 10 workers each. Computing a shard takes 10 ms + Exp(5 ms), a link 20 ms, an edge's link 50 ms, a tenth
of all tries fail. *strong*: the first edge's link is 20 times slower, two workers under each edge are 10 times slower. *moderate*: 10
times, and one worker. The paper's clusters are not published. `muster plan` chooses; the mean step of `muster simulate` is
beside what the plan expects.
TEXT
    cluster strong 20 2
    cluster moderate 10 1
    csv bars cluster scheme code "expected ms" "simulated ms"
    for name in strong moderate; do
        plan $name --all-workers
        for label in uncoded worker-only edge-only flat; do
            spec=$(alternative $name $label spec)
            row bars $name $label "${spec//,/ }" "$(alternative $name $label expected_ms)" \
                "$(step_ms "$work/$name.yaml" "$spec")"
        done
        spec=$(chosen $name spec)
        row bars $name planned "${spec//,/ }" "$(chosen $name expected_ms)" "$(step_ms "$work/$name.yaml" "$spec")"
        plan $name --used "$work/$name.used.yaml"
        spec=$(chosen $name spec)
        row bars $name "planned; without slow machines" "${spec//,/ } of $(chosen $name workers) workers" \
            "$(chosen $name expected_ms)" "$(step_ms "$work/$name.used.yaml" "$spec")"
    done
    table bars
    csv bars-ms scheme strong moderate
    awk -F, 'NR > 1 { if (!($2 in a)) order[++n] = $2; a[$2] = a[$2] "," $5 }
        END { for (i = 1; i <= n; i++) print order[i] a[order[i]] }' "$files/bars.csv" >> "$files/bars-ms.csv"
    plot bars "Mean step in ms" <<'TEXT'
set style data histograms
set style fill solid
set key top right inside
set ylabel "ms"
set yrange [0:]
set xtics rotate by -20
plot data("bars-ms") using 2:xtic(1), "" using 3
TEXT
    ms() { awk -F, -v c="$1" -v s="$2" '$1 == c && $2 == s { print $5 }' "$files/bars.csv"; }
    off() { awk -F, 'NR > 1 { d = $5 / $4 - 1; d = d < 0 ? -d : d; if (d > w) w = d } END { printf "%.3g", w }' "$files/bars.csv"; }
    figures
    figure "strong: uncoded over planned" "up to 4.37" "$(calc "$(ms strong uncoded) / $(ms strong planned)" 3)" 6 12 "another cluster; ours is slower where it is slow"
    figure "moderate: uncoded over planned" "up to 4.37" "$(calc "$(ms moderate uncoded) / $(ms moderate planned)" 3)" 3.5 8 "likewise"
    figure "strong: worker-only over planned" "-" "$(calc "$(ms strong worker-only) / $(ms strong planned)" 3)" 2 12 "the slow edge is waited for"
    figure "strong: edge-only over planned" "-" "$(calc "$(ms strong edge-only) / $(ms strong planned)" 3)" 1.4 3 "the slow workers are waited for"
    figure "strong: flat over planned" "-" "$(calc "$(ms strong flat) / $(ms strong planned)" 3)" 1.01 1.5 "three groups of 13 workers and one; its messages pass the edges one by one"
    figure "strong: planned over that without slow machines" "-" \
        "$(calc "$(ms strong planned) / $(ms strong "planned; without slow machines")" 3)" 1 2 "not in the paper: nothing is computed twice"
    figure "largest gap of simulated and expected" "-" "$(off)" 0 0.05 "not in the paper"
}

section_grid() {
    local s_e s_w best
    cat <<'TEXT'
## Over (s_e, s_w)

The mean simulated step in ms on the *strong* cluster.
TEXT
    cluster strong 20 2
    plan strong --all-workers
    csv grid s_w "s_e = 0" "s_e = 1" "s_e = 2"
    for s_w in 0 1 2 3 4 5; do
        row grid $s_w $(for s_e in 0 1 2; do step_ms "$work/strong.yaml" hier:se=$s_e,sw=$s_w; done)
    done
    table grid
    plot grid "Mean step in ms over s_w" <<'TEXT'
set xlabel "s_w"
set ylabel "ms"
set logscale y
plot for [i=2:4] data("grid") using 1:i with linespoints
TEXT
    best=$(awk -F, 'NR > 1 { for (i = 2; i <= 4; i++) if (b == 0 || $i < b) b = $i } END { print b }' "$files/grid.csv")
    figures
    figure "planned over the best of the grid" "-" \
        "$(calc "$(step_ms "$work/strong.yaml" "$(chosen strong spec)") / $best" 4)" 0.95 1.05 "simulated"
    figure "surrogate over expected; minus 1" "negative" "$(chosen strong surrogate_gap)" -0.5 0.1 "the mean of a maximum is above the maximum of means"
}

section_accuracy() {
    local name spec json goal
    cat <<'TEXT'
## Accuracy against time

Softmax on mnist, 600 samples a step, on the *strong* cluster: the same roles in virtual time, with the gradients computed, evaluated
after every fifth step. Every exact code takes the same steps; only their time differs. Seconds until the test accuracy is reached:
TEXT
    if [ ! -d "$data/mnist" ]; then
        echo
        echo "The data is not here (MUSTER_DATA names the folder with mnist), so that this section is empty."
        return 0
    fi
    cluster strong 20 2
    plan strong --all-workers
    csv accuracy "test accuracy" steps uncoded worker-only edge-only planned
    for goal in 0.8 0.86 0.88 0.89; do
        for name in uncoded worker-only edge-only planned; do
            spec=$([ $name = planned ] && chosen strong spec || alternative strong $name spec)
            json=$(muster simulate --cluster "$work/strong.yaml" --code "$spec" --data "$data/mnist" --model softmax \
                --batch 600 --lr 0.1 --steps 400 --until accuracy=$goal --eval-every 5 --json | tr -d '\n')
            field steps <<< "$json" >> "$work/steps.$goal"
            field virtual_s <<< "$json" > "$work/seconds.$name"
        done
        row accuracy $goal "$(tail -n 1 "$work/steps.$goal")" $(cat "$work"/seconds.{uncoded,worker-only,edge-only,planned})
    done
    table accuracy
    plot accuracy "Test accuracy against seconds" <<'TEXT'
set xlabel "seconds"
set ylabel "test accuracy"
set logscale x
plot for [i=3:6] data("accuracy") using i:1 with linespoints
TEXT
    of() { awk -F, -v g="$1" -v k="$2" '$1 == g { print $k }' "$files/accuracy.csv"; }
    figures
    figure "time to .89: uncoded over planned" "up to 4.37" "$(calc "$(of 0.89 3) / $(of 0.89 6)" 3)" 6 12 "as the step times"
    figure "steps to .89: largest minus least of the schemes" "0" \
        "$(sort -g "$work/steps.0.89" | awk 'NR == 1 { a = $1 } { b = $1 } END { print b - a }')" 0 0 "exact codes"
    rm -f "$work"/steps.*
}

section_ingress() {
    local line scheme code json steps
    steps=$(pick 200 100)
    cat <<'TEXT'
## What comes in at the coordinator

Messages and bytes that the coordinator receives in a step, 4 edges with 10 workers, tolerances (1, 2), and flat codes that
survive the same (s = 16). A code that decodes from any n - s_e edges, or from any n - s workers, needs so many messages; here both layers
form groups where the numbers allow it, and one message of each group is enough. Of 40 workers, cyclic-mds with s = 16 is beyond its
float32 limit: its sums may be off by 1.6 of the gradient. It is here for its messages; no plan chooses it.
TEXT
    cluster strong 20 2
    csv ingress scheme code "messages a step" "kB a step"
    for line in "edges|hier:se=1,sw=2" "edges; m_e = 2|hier:se=1,sw=2,me=2,mw=1" \
        "flat; groups|linear:repetition:s=16" "flat; any n - s|cyclic-mds:s=16"; do
        scheme=${line%%|*} code=${line#*|}
        json=$(muster simulate --cluster "$work/strong.yaml" --code "$code" --steps "$steps" --json)
        row ingress "$scheme" "${code//,/ }" "$(calc "$(value messages_up <<< "$json") / $steps" 4)" \
            "$(calc "$(value bytes_up <<< "$json") / $steps / 1000" 4)"
    done
    table ingress
    of() { awk -F, -v s="$1" -v k="$2" '$1 == s { print $k }' "$files/ingress.csv"; }
    figures
    figure "edges: messages a step" "n - s_e = 3" "$(of edges 3)" 2 4 "two groups of two edges; others may come before a step ends"
    figure "flat; any n - s over edges: messages" "24/3" "$(calc "$(of "flat; any n - s" 3) / $(of edges 3)" 3)" 6 14 "24 of 40 workers must be heard"
    figure "edges; m_e = 2 over m_e = 1: bytes" "1/2" "$(calc "$(of "edges; m_e = 2" 4) / $(of edges 4)" 3)" 0.4 0.7 "two more messages of half the length may come"
}

section_scale() {
    local steps seconds delay options
    local TIMEFORMAT="%U %S"
    steps=$(pick 1000 100)
    cat <<TEXT
## Ten thousand workers

100 edges with 100 workers each, (1, 1), $steps steps of \`muster simulate\` on one core, without delays and with those of
\`--delay exponential:mean=20ms\`. Seconds are those of the processor.
TEXT
    csv scale delays workers edges steps "seconds of one core" "simulated mean step ms"
    for delay in none exponential; do
        options=()
        [ $delay = none ] || options=(--delay exponential:mean=20ms)
        { time muster simulate --topology 100x100 --code hier:se=1,sw=1 --steps "$steps" "${options[@]}" --json \
            > "$work/scale.json"; } 2> "$work/scale.time"
        seconds=$(awk '{ print $1 + $2 }' "$work/scale.time")
        row scale $delay 10000 100 "$steps" "$seconds" "$(tr -d '\n' < "$work/scale.json" | grep -o '"step_ms": {[^}]*}' | field mean)"
    done
    table scale
    of() { awk -F, -v s="$1" '$1 == s { print $5 }' "$files/scale.csv"; }
    figures
    figure "seconds for a thousand steps" "-" "$(calc "$(of none) * 1000 / $steps" 3)" 1 60 "not in the paper; the time to begin counts"
    figure "exponential delays: seconds likewise" "-" "$(calc "$(of exponential) * 1000 / $steps" 3)" 1 60 "every worker draws a delay in every step"
}

section_real() {
    local spec run
    cat <<'TEXT'
## A real run against its prediction

4 edges with 3 workers each as processes of this machine, which sleep as long as the cluster file says: computing takes 20 ms + Exp(20
ms), a worker's link 10 ms and an edge's 20 ms each way, a tenth of all tries fail; one edge's link is 5 times slower, one
worker under each edge 5 times. `muster plan` says what a step takes, `muster train --delay cluster:file=..` what it took.
TEXT
    cat > "$work/real.yaml" <<'EOP'
version: 1
defaults:
  worker: {compute: {shift: 20ms, mean: 20ms}, link: {latency: 10ms, loss: 0.1}}
  edge: {link: {latency: 20ms, loss: 0.1}}
edges:
  - link: {latency: 100ms}
    workers: [{count: 2}, {speed: 0.2}]
  - count: 3
    workers: [{count: 2}, {speed: 0.2}]
EOP
    plan real --all-workers
    csv real scheme code "expected ms" "measured ms" ratio
    for scheme in uncoded edge-only planned; do
        spec=$([ $scheme = planned ] && chosen real spec || alternative real $scheme spec)
        expected=$([ $scheme = planned ] && chosen real expected_ms || alternative real $scheme expected_ms)
        run=$(muster train --cluster "$work/real.yaml" --delay "cluster:file=$work/real.yaml" --code "$spec" \
            --data synthetic:samples=1200,features=20,classes=5 --batch 120 --lr 0.1 --steps 100 --json |
            tr -d '\n' | grep -o '"step_ms": {[^}]*}' | field mean)
        row real $scheme "${spec//,/ }" "$expected" "$run" "$(calc "$run / $expected" 3)"
    done
    table real
    of() { awk -F, -v s="$1" '$1 == s { print $5 }' "$files/real.csv"; }
    figures
    figure "planned: measured over expected" "-" "$(of planned)" 0.85 1.15 "16 processes on this machine compute and talk besides what the file says"
    figure "edge-only: measured over expected" "-" "$(of edge-only)" 0.85 1.15 "likewise"
    figure "uncoded: measured over expected" "-" "$(of uncoded)" 0.85 1.15 "likewise"
}
