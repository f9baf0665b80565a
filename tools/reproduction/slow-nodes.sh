# Johri, Yardi and Bodas: slow and active nodes, and shuffling the data among
# them. See lib.sh for what a page is.
title="Slow and active nodes, with shuffling"
paper="Johri, Yardi, Bodas, Approximate gradient coding for heterogeneous nodes, ITW 2021, and the first author's simulation code"
about="Some workers are slow for good. What they hold is missing again and again, unless workers change places: received parts, the distribution of misses, losses on sorted and random data, traces of EC2."
sections="bars misses losses traces"
checked="bars misses losses traces"

# A worker of the slow class straggles with probability .8, an active one .01.
bernoulli() { echo "bernoulli:slow=$1,p-slow=0.8,p-active=0.01,delay=100ms"; }

# policies: what `muster` offers; auto chooses by the observed model.
policies="none rotate:1 targeted auto"

# shuffled POLICY STEPS SEED WORKERS CODE DELAY ARGS: a simulation. A step waits
# 50 ms at most; a straggler needs 100.
shuffled() {
    local policy=$1 steps=$2 seed=$3 workers=$4 code=$5 delay=$6
    shift 6
    muster simulate --workers "$workers" --code "$code" --steps "$steps" \
        --seed "$seed" --delay "$delay" --deadline 50ms --shuffle "$policy" \
        --json "$@"
}

# data_sets POLICY: how many times the data was moved, of a summary on stdin.
# At the start every part goes to two workers, which is all that `none` moves.
data_sets() {
    local moved
    moved=$(value bytes_moved)
    [ "$1" != none ] || echo "$moved" > "$work/start"
    echo "$(calc "($moved - $(cat "$work/start")) * 2 / $(cat "$work/start")" 4)"
}

section_bars() {
    local code policy json steps
    steps=$(pick 1000 300)
    cat <<TEXT
## How often each part is received

36 workers, each part on two of them, $steps steps; a worker is slow with probability .53, as in the published
simulation (19 slow of 36). Every step takes what has come at its deadline. Published bars: without shuffling unlucky parts
are received in about 350 of 1000 steps and others always; with shuffling all alike. frc has groups of two workers with the
same parts, crc has worker i hold parts i and i + 1. The share of steps, over the parts:
TEXT
    csv bars code shuffle least mean largest "data sets moved"
    csv parts part $policies
    for code in erasurehead:d=2 crc:s=1; do
        for policy in $policies; do
            json=$(shuffled "$policy" "$steps" 3 36 "$code" "$(bernoulli 0.53)")
            list parts_received <<< "$json" | tr -s ' ' '\n' | sed '/^$/d' |
                awk -v s="$steps" '{ print $1 / s }' > "$work/received.$policy"
            row bars "${code%%:*}" "$policy" $(statistics < "$work/received.$policy" |
                awk '{ printf "%.3f %.3f %.3f", $3, $1, $4 }') "$(data_sets "$policy" <<< "$json")"
        done
        [ "$code" = crc:s=1 ] || paste -d, <(seq 0 35) $(printf "$work/received.%s " $policies) \
            >> "$files/parts.csv"
    done
    sed -i 's/^erasurehead,/frc,/' "$files/bars.csv"
    table bars
    plot bars "Share of steps in which each part was received (frc)" <<'TEXT'
set xlabel "part"
set ylabel "share of steps"
set yrange [0:1.05]
plot for [i=2:5] data("parts") using 1:i with points pt 7 ps 0.6
TEXT
    bar() { awk -F, -v c="$1" -v p="$2" -v k="$3" '$1 == c && $2 == p { print $k }' "$files/bars.csv"; }
    figures
    figure "frc, none: least" "about .35" "$(bar frc none 3)" 0.28 0.45 "two slow holders straggle together in .64 of the steps"
    figure "frc, none: mean" "-" "$(bar frc none 4)" 0.75 0.95 "a re-simulation of its model gave .852 for one draw of the slow workers"
    figure "frc, rotate:1: least" "as all others" "$(bar frc rotate:1 3)" 0.7 0.92 "the re-simulation had .823; there a rotation costs nothing and takes no time"
    figure "frc, rotate:1: largest minus least" "about 0" \
        "$(calc "$(bar frc rotate:1 5) - $(bar frc rotate:1 3)" 3)" 0 0.12 "parts travel while training goes on, so that some steps have the old places"
    figure "crc, none: least" "-" "$(bar crc none 3)" 0.25 0.45 "as for frc"
    figure "crc, rotate:1: least" "-" "$(bar crc rotate:1 3)" 0.7 0.92 "as for frc"
    figure "frc, targeted: least" "-" "$(bar frc targeted 3)" 0.85 1 "not in the paper: exchanges two workers only where a part has slow holders alone"
    figure "frc, auto: least" "-" "$(bar frc auto 3)" 0.7 1 "not in the paper: chooses by what it observes"
}

# P(M = m) of the paper: N steps, T holders, classes drawn once, or in each step.
distribution() { # N T P_HAT once|each
    awk -v N="$1" -v T="$2" -v h="$3" -v kind="$4" '
    function choose(n, m,   i, c) { c = 1; for (i = 1; i <= m; i++) c = c * (n - m + i) / i; return c }
    function binomial(n, m, q) { return choose(n, m) * q ^ m * (1 - q) ^ (n - m) }
    BEGIN {
        q = (h * .8 + (1 - h) * .01) ^ T
        for (m = 0; m <= N; m++) {
            p = 0
            if (kind == "each") p = binomial(N, m, q)
            else for (i = 0; i <= T; i++)
                p += binomial(T, i, h) * binomial(N, m, .8 ^ i * .01 ^ (T - i))
            print m, p
        }
    }'
}

moments() { # "m p" lines: mean, variance, P(M >= 50)
    awk '{ a += $1 * $2; b += $1 * $1 * $2; if ($1 >= 50) h += $2 }
         END { printf "%.4g %.4g %.3g\n", a, b - a * a, h }'
}

# drawn POLICY SEEDS: "m p" lines from simulations of 100 steps.
drawn() {
    local seed
    for seed in $(seq "$2"); do
        shuffled "$1" 100 "$seed" 36 erasurehead:d=2 "$(bernoulli 0.33)" |
            list parts_received | tr -s ' ' '\n' | sed '/^$/d'
    done | awk '{ c[100 - $1]++; n++ } END { for (m = 0; m <= 100; m++) print m, c[m] / n }'
}

section_misses() {
    local seeds kind policy
    seeds=$(pick 100 20)
    cat <<TEXT
## How many steps miss a part

M is the number of steps of N = 100 in which a part is missing: T = 2 holders, a worker is slow with probability .33. The paper
gives P(M = m) with classes drawn once (no shuffling) and drawn anew in every step (its model of shuffling). The mean is the
same; the spread is not. Beside it the misses of \`muster simulate\`, 36 workers, $seeds seeds, all parts together.
TEXT
    csv misses m "formula none" "simulated none" "formula shuffled" "simulated rotate:1"
    distribution 100 2 0.33 once > "$work/once"
    distribution 100 2 0.33 each > "$work/each"
    drawn none "$seeds" > "$work/none"
    drawn rotate:1 "$seeds" > "$work/rotate"
    paste -d' ' "$work/once" "$work/none" "$work/each" "$work/rotate" |
        awk '{ printf "%d,%.3g,%.3g,%.3g,%.3g\n", $1, $2, $4, $6, $8 }' >> "$files/misses.csv"
    csv moments of mean variance "P(M >= 50)"
    row moments "formula; no shuffling" $(moments < "$work/once")
    row moments "simulated; none" $(moments < "$work/none")
    row moments "formula; shuffling" $(moments < "$work/each")
    row moments "simulated; rotate:1" $(moments < "$work/rotate")
    table moments
    plot misses "P(M = m)" <<'TEXT'
set xlabel "m"
set ylabel "P(M = m)"
set logscale y
set yrange [1e-4:1]
plot data("misses") using 1:2 with lines, "" using 1:3 with points, \
     "" using 1:4 with lines, "" using 1:5 with points
TEXT
    moment() { awk -F, -v r="$1" -v k="$2" 'NR == r + 1 { print $k }' "$files/moments.csv"; }
    figures
    figure "mean; formula" "7.328" "$(moment 1 2)" 7.32 7.335 "computed from the paper's formula"
    figure "variance; formula, no shuffling" "395.5" "$(moment 1 3)" 395 396 "likewise"
    figure "variance; formula, shuffling" "6.79" "$(moment 3 3)" 6.78 6.80 "likewise"
    figure "mean; none" "7.328" "$(moment 2 2)" 6 9 "draws: 18 groups a seed; classes are the same for a whole run"
    figure "variance; none" "395.5" "$(moment 2 3)" 330 470 "likewise"
    figure "mean; rotate:1" "7.328" "$(moment 4 2)" 6 10 "draws; and a worker that straggled has the next places late, so that it is missing once more"
    figure "variance; rotate:1" "6.79" "$(moment 4 3)" 5 45 \
        "the slow workers of a run stay the same: the number of slow ones differs from run to run, and the formula draws them anew in every step"
}

# labelled FILE sorted|random SEED: 800 rows, four classes in three dimensions.
labelled() {
    awk -v seed="$3" '
    function uniform() { x = (x * 16807) % 2147483647; return x / 2147483647 }
    function normal() { return sqrt(-2 * log(uniform())) * cos(6.283185307 * uniform()) }
    BEGIN {
        x = seed * 7919 + 12345
        for (r = 0; r < 10; r++) uniform()
        for (r = 0; r < 800; r++) {
            c = int(4 * uniform())
            printf "%.4f,%.4f,%.4f,%d\n", 1.4 * cos(c * 1.5708) + normal(), \
                1.4 * sin(c * 1.5708) + normal(), normal(), c
        }
    }' > "$1"
    [ "$2" = random ] || { sort -s -t, -k4,4n "$1" > "$1.sorted"; mv "$1.sorted" "$1"; }
}

section_losses() {
    local layout model policy seed delay json seeds
    seeds=$(pick 6 3)
    cat <<TEXT
## What lost parts cost

Softmax on 800 generated rows of four classes, 8 workers, each part on two of them (frc), 600 steps of the full batch, $seeds
seeds. Sorted: a part has one class, so that a lost part is a lost class (the paper's adversarial layout). Bernoulli: half of
the workers are slow, as above; Markov: every worker changes between slow and active, staying with probability .95. The final
loss on all rows, mean and worst over the seeds, and how often shuffling moved the whole data. Without stragglers the loss is the first
line. The paper uses six small data sets of scikit-learn and least squares, and gives curves; these settings are its own but for the
data and the model.
TEXT
    csv losses layout model shuffle "loss mean" "loss worst" "data sets moved"
    for layout in random sorted; do
        for seed in $(seq $seeds); do
            labelled "$work/$layout.$seed.csv" $layout "$seed"
        done
        for model in ideal Bernoulli Markov; do
            for policy in $([ $model = ideal ] && echo none || echo $policies); do
                case $model in
                ideal) delay=constant:delay=0ms ;;
                Bernoulli) delay=$(bernoulli 0.5) ;;
                Markov) delay=markov:stay-slow=0.95,stay-active=0.95,delay=100ms ;;
                esac
                : > "$work/loss" ; : > "$work/moved"
                for seed in $(seq $seeds); do
                    json=$(shuffled "$policy" 600 "$seed" 8 erasurehead:d=2 "$delay" \
                        --data "$work/$layout.$seed.csv" --model softmax --batch 0 \
                        --optimizer sgd --lr 0.1)
                    value loss <<< "$json" >> "$work/loss"
                    data_sets "$policy" <<< "$json" >> "$work/moved"
                done
                row losses $layout $model "$policy" $(statistics < "$work/loss" |
                    awk '{ printf "%.4f %.4f", $1, $4 }') \
                    "$(statistics < "$work/moved" | awk '{ printf "%.4g", $1 }')"
            done
        done
    done
    table losses
    loss() { awk -F, -v l="$1" -v m="$2" -v p="$3" -v k="${4:-4}" \
        '$1 == l && $2 == m && $3 == p { print $k }' "$files/losses.csv"; }
    excess() { calc "$(loss "$1" "$2" "$3") - $(loss "$1" ideal none)" 3; }
    csv excess shuffle Bernoulli Markov
    for policy in $policies; do
        row excess "$policy" "$(excess sorted Bernoulli "$policy")" "$(excess sorted Markov "$policy")"
    done
    plot losses "Loss above that without stragglers, label-sorted parts" <<'TEXT'
set style data histograms
set style fill solid
set key top right inside
set ylabel "loss above ideal"
set yrange [0:]
plot data("excess") using 2:xtic(1), "" using 3
TEXT
    figures
    figure "Bernoulli, sorted: loss above ideal, none" "largest of all layouts" "$(excess sorted Bernoulli none)" 0.005 1 "other data, other model: compare signs and orders"
    figure "Bernoulli, random: loss above ideal, none" "small" "$(excess random Bernoulli none)" -0.005 0.005 "likewise"
    figure "Bernoulli, sorted: rotate:1 over none, above ideal" "far below 1" \
        "$(calc "$(excess sorted Bernoulli rotate:1) / $(excess sorted Bernoulli none)" 3)" -0.1 0.3 "likewise"
    figure "Bernoulli, sorted: targeted over none, above ideal" "-" \
        "$(calc "$(excess sorted Bernoulli targeted) / $(excess sorted Bernoulli none)" 3)" -0.1 0.5 "not in the paper"
    figure "Bernoulli, sorted: auto minus targeted" "-" \
        "$(calc "$(loss sorted Bernoulli auto) - $(loss sorted Bernoulli targeted)" 3)" -0.05 0.002 "not in the paper"
    figure "Markov, sorted: auto minus rotate:1" "-" \
        "$(calc "$(loss sorted Markov auto) - $(loss sorted Markov rotate:1)" 3)" -0.05 0.001 "not in the paper"
    figure "Markov, sorted: data moved, auto over rotate:1" "-" \
        "$(calc "$(loss sorted Markov auto 6) / $(loss sorted Markov rotate:1 6)" 3)" 0 1 "not in the paper"
}

# straggled FILE: P(straggle), P(again), P(begin): over twice the median.
straggled() {
    sed 1d "$1" | cut -d, -f3 | sort -g > "$work/sorted"
    local median
    median=$(awk '{ v[NR] = $1 } END { print NR % 2 ? v[(NR + 1) / 2] : (v[NR / 2] + v[NR / 2 + 1]) / 2 }' "$work/sorted")
    awk -F, -v median="$median" 'NR > 1 {
        late = $3 > 2 * median; n++; s += late
        if ($2 in before) { if (before[$2]) { again += late; a++ } else { begin += late; b++ } }
        before[$2] = late }
        END { printf "%.4g %.3f %.2f %.3f\n", median, s / n, a ? again / a : 0, begin / b }' "$1"
}

# A hundred times faster, so that a slow worker is not taken for a lost one.
trace_model() { echo "trace:file=$data/ec2-traces/$1.csv,scale=0.01"; }

section_traces() {
    local trace n steps code policy median json
    cat <<'TEXT'
## Traces of EC2

Seconds per worker and iteration of three runs on EC2, from the first author's repository. A worker straggles when it takes
over twice the median of all times; that threshold is ours. Then each trace is replayed with a code: `muster simulate --compute 0s
--delay trace:file=..,scale=0.01`, the mean step in seconds of the trace.
TEXT
    if [ ! -d "$data/ec2-traces" ]; then
        echo
        echo "The traces are not here (MUSTER_DATA names the folder with ec2-traces), so that this section is empty."
        return 0
    fi
    csv traces trace nodes iterations "median s" "P(straggle)" "P(again)" "P(begin)"
    csv received trace $policies
    csv replay trace uncoded "ignore:s=1" "cyclic-mds:s=1" "linear:repetition:s=1" "cyclic-mds:s=2"
    for trace in trace2 trace3 trace4; do
        n=$(sed 1d "$data/ec2-traces/$trace.csv" | cut -d, -f2 | sort -u | wc -l)
        steps=$(sed 1d "$data/ec2-traces/$trace.csv" | cut -d, -f1 | sort -u | wc -l)
        row traces $trace "$n" "$steps" $(straggled "$data/ec2-traces/$trace.csv")
        median=$(awk -F, -v t=$trace '$1 == t { print $4 }' "$files/traces.csv")
        row received $trace $(for policy in $policies; do
            muster simulate --workers "$n" --code crc:s=1 --steps "$steps" --compute 0s \
                --delay "$(trace_model $trace)" --deadline "$(calc "20 * $median" 6)ms" --shuffle "$policy" --json |
                list parts_received | tr -s ' ' '\n' | sed '/^$/d' | statistics |
                awk -v s="$steps" '{ printf "%.3f\n", $3 / s }'
        done)
        row replay $trace $(for code in uncoded ignore:s=1 cyclic-mds:s=1 linear:repetition:s=1 cyclic-mds:s=2; do
            muster simulate --workers "$n" --code $code --steps "$steps" --compute 0s \
                --delay "$(trace_model $trace)" --json |
                value mean | awk '{ printf "%.2f\n", $1 / 10 }'
        done)
    done
    table traces
    table replay
    cat <<'TEXT'

With a deadline of twice the median, each part on two workers (crc), the share of steps in which the part that was received least
often was received:
TEXT
    table received
    cat <<'TEXT'

The times of the traces count per step, whatever the load: what the machines did is replayed, not what more computing would have
cost them.
TEXT
    of() { awk -F, -v t="$2" -v k="$3" '$1 == t { print $k }' "$files/$1.csv"; }
    figures
    figure "trace2: P(straggle)" "-" "$(of traces trace2 5)" 0.047 0.057 "our threshold"
    figure "trace2: P(straggle again)" "-" "$(of traces trace2 6)" 0.78 0.88 "our threshold; one node of 15 is slow for good"
    figure "trace4: P(straggle again)" "-" "$(of traces trace4 6)" 0.3 0.55 "our threshold; three slow nodes"
    figure "trace3: P(straggle again)" "-" "$(of traces trace3 6)" 0.05 0.25 "our threshold; no slow class here"
    figure "trace4: least received part, none" "-" "$(of received trace4 2)" 0.6 0.9 "replayed, not measured there: two slow nodes hold the same part"
    figure "trace4: least received part, auto" "-" "$(of received trace4 5)" 0.9 1 "not in the paper"
    local t
    for t in trace2 trace3 trace4; do
        figure "$t: ignore over cyclic-mds, s = 1" "-" "$(calc "$(of replay $t 3) / $(of replay $t 4)" 3)" 0.3 1.0005 \
            "an approximate code with the same s is never later; it has a deadline of its own as well"
    done
    figure "trace2: cyclic-mds s = 1 over uncoded" "-" "$(calc "$(of replay trace2 4) / $(of replay trace2 2)" 3)" 0.05 0.6 "one slow node"
}
