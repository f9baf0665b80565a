# Amiri and Gunduz: parts computed in an order and sent one by one. See lib.sh
# for what a page is.
title="Results sent as they are done"
paper="Amiri, Gunduz, Computation scheduling for distributed machine learning with straggling workers, 2018 (arXiv 1810.09992)"
about="A worker computes its parts in an order of its own and sends each when it is done, so that what a slow one has finished counts: expected step times of the cyclic and the staircase order beside all exact codes, the paper's lower bound, traces of EC2."
sections="table orders traces"
checked="table orders traces"

# montecarlo STEPS COPIES MEAN P FACTOR: 12 workers, each of which takes
# 1 + Exp(MEAN) for a part, and FACTOR times that with probability P. Prints the
# mean step of uncoded, frc, a code that any n - s are enough for, the cyclic
# order, the staircase, and the bound: who knows all times beforehand lets the
# first n parts that are done be different ones.
montecarlo() {
    awk -v steps="$1" -v copies="$2" -v mean="$3" -v p="$4" -v factor="$5" '
    function max(a, b) { return a > b ? a : b }
    function part_end(part, stairs,   t, w, end) {
        end = 1e300
        for (t = 0; t < copies; t++) {
            w = (part - t + n) % n
            if (!stairs || w % 2 == 0) if ((t + 1) * f[w] < end) end = (t + 1) * f[w]
            w = (part + t) % n
            if (stairs && w % 2 == 1) if ((t + 1) * f[w] < end) end = (t + 1) * f[w]
        }
        return end
    }
    # The k-th smallest of the times at which parts are done.
    function done_at(k,   w, i, best) {
        for (w = 0; w < n; w++) at[w] = 1
        for (i = 0; i < k; i++) {
            best = -1
            for (w = 0; w < n; w++)
                if (at[w] <= copies && (best < 0 || at[w] * f[w] < at[best] * f[best])) best = w
            at[best]++
        }
        return (at[best] - 1) * f[best]
    }
    # The k-th smallest of all workers.
    function worker_at(k,   w, v, smaller) {
        for (w = 0; w < n; w++) {
            smaller = 0
            for (v = 0; v < n; v++) smaller += f[v] < f[w]
            if (smaller == k - 1) return f[w]
        }
    }
    BEGIN {
        srand(5)
        n = 12
        for (step = 0; step < steps; step++) {
            uncoded = frc = cyclic = stairs = 0
            for (w = 0; w < n; w++) {
                f[w] = 1 - mean * log(1 - rand())
                if (p > 0 && rand() < p) f[w] *= factor
                uncoded = max(uncoded, f[w])
            }
            for (g = 0; g < n; g += copies) {
                best = f[g]
                for (w = g + 1; w < g + copies && w < n; w++) if (f[w] < best) best = f[w]
                frc = max(frc, copies * best)
            }
            for (w = 0; w < n; w++) {
                cyclic = max(cyclic, part_end(w, 0))
                stairs = max(stairs, part_end(w, 1))
            }
            s[0] += uncoded; s[1] += frc; s[2] += copies * worker_at(n - copies + 1)
            s[3] += cyclic; s[4] += stairs; s[5] += done_at(n)
        }
        for (i = 0; i < 6; i++) printf "%.4g ", s[i] / steps
        print ""
    }'
}

# delay_of MEAN P FACTOR: the same for `muster simulate`.
delay_of() {
    local slow=
    [ "$2" = 0 ] || slow="iid:p=$2,factor=$3*"
    echo "${slow}exponential:factor=$(calc "1 + $1")"
}

# means MEAN P FACTOR STEPS CODE..: the mean step of each code, a part's time 1.
means() {
    local delay
    delay=$(delay_of "$1" "$2" "$3")
    muster simulate --workers 12 --compute 1s --latency 0us --delay "$delay" --steps "$4" --json \
        --code "$(shift 4; IFS=+; echo "$*")" | tr -d '\n' | grep -o '"step_ms": {[^}]*}' |
        grep -o '"mean": *[^,}]*' | awk '{ printf "%.4g\n", $2 / 1000 }'
}

# cell FILE ROW COLUMN: of a csv file, by the first column.
cell() { awk -F, -v r="$2" -v k="$3" '$1 == r { print $k }' "$files/$1.csv"; }

# The workers of the table: MEAN P FACTOR of montecarlo.
declare -A kinds=([quiet]="0.05 0 1" [noisy]="0.5 0 1" [ten]="0.05 0.1 10" [hundred]="0.05 0.05 100")

# column KIND, KIND.tail, KIND.mc: the means of all codes, of both orders by more
# steps, or of the Monte Carlo; $codes, $steps, $tail and $draws are the table's.
column() {
    local kind=${kinds[${1%.*}]}
    # shellcheck disable=SC2086
    case $1 in
    *.mc) montecarlo "$draws" 3 $kind | tr ' ' '\n' | sed '/^$/d' ;;
    *.tail) means $kind "$tail" "${codes[@]:9}" ;;
    *) means $kind "$steps" "${codes[@]}" ;;
    esac > "$work/$1"
}

section_table() {
    local codes steps tail draws i j at
    codes=(uncoded frc:s=2 linear:repetition:s=2 crc:s=2 cyclic-mds:s=2 rs:s=2 ye-abbe-tuned:s=2
        heter:s=2 heter-group:s=2 scheduled:s=2,order=cyclic,start=now scheduled:s=2,order=staircase,start=now)
    steps=$(pick 10000 2000)
    tail=$(pick 150000 20000)
    draws=$(pick 100000 20000)
    cat <<TEXT
## Beside all exact codes

12 workers, s = 2, in units of the computing of one part. Quiet workers take 1 + Exp(.05) for a part, noisy ones 1 + Exp(.5); with
probability .1 a worker takes 10 times as long in a step, or with probability .05 a hundred times. \`muster simulate --workers 12
--compute 1s --delay ..\`, $steps steps; where workers may be 100 times slow, long steps are seldom and very long, so that
the two orders have $tail steps there. The last lines are an independent Monte Carlo of $draws steps (in this page's script):
what a step takes by definition, and the paper's lower bound.
TEXT
    csv table code quiet noisy "10 times; p = .1" "100 times; p = .05"
    together column -- hundred.tail {quiet,noisy,ten,hundred}{,.mc}
    { head -n 9 "$work/hundred"; cat "$work/hundred.tail"; } > "$work/hundred.all"
    for j in $(seq ${#codes[@]}); do
        row table "$(tr , ' ' <<< "${codes[j - 1]%,start=now}")" $(for i in quiet noisy ten hundred.all; do sed -n "${j}p" "$work/$i"; done)
    done
    j=0
    for at in uncoded frc "any n - s" "cyclic order" staircase "lower bound"; do
        j=$((j + 1))
        row table "Monte Carlo: $at" $(for i in quiet noisy ten hundred; do sed -n "${j}p" "$work/$i.mc"; done)
    done
    table table
    cat <<'TEXT'

Both orders take what the definition says, or a little less: a worker is told what is missing and leaves out what has come. Codes
that any n - s are enough for compute all s + 1 parts in every step, also when nobody is late; frc takes the first of each group.
TEXT
    over() { calc "$(cell table "$1" "$3") / $(cell table "$2" "$3")" 4; }
    figures
    local order="scheduled:s=2 order=cyclic" mc="Monte Carlo: cyclic order"
    figure "quiet: cyclic order over uncoded" "-" "$(over "$order" uncoded 2)" 0.98 1.01 "nothing is computed twice in a quiet step"
    figure "quiet: cyclic order over its Monte Carlo" "-" "$(over "$order" "$mc" 2)" 0.97 1.03 "-"
    figure "noisy: cyclic order over its Monte Carlo" "-" "$(over "$order" "$mc" 3)" 0.97 1.03 "what has come is left out"
    figure "10 times: cyclic order over its Monte Carlo" "-" "$(over "$order" "$mc" 4)" 0.93 1.03 "likewise"
    figure "100 times: cyclic order over its Monte Carlo" "-" "$(over "$order" "$mc" 5)" 0.85 1.15 "three slow neighbours once in 700 steps make most of the spread"
    figure "10 times: uncoded over cyclic order" "significant" "$(over uncoded "$order" 4)" 3.4 4.4 "other delays than the paper's"
    figure "10 times: frc over cyclic order" "significant" "$(over frc:s=2 "$order" 4)" 1.45 1.75 "likewise"
    figure "10 times: cyclic-mds over cyclic order" "significant" "$(over cyclic-mds:s=2 "$order" 4)" 2 3.5 "likewise"
    figure "10 times: staircase over the bound" "relatively small" \
        "$(over "scheduled:s=2 order=staircase" "Monte Carlo: lower bound" 4)" 1 1.35 "likewise"
}

# order_row STEPS R: the line of a load.
order_row() {
    local order times
    read -r -a times <<< "$(montecarlo "$(pick 100000 20000)" "$2" 0.5 0 1)"
    cells "$2" $(for order in cyclic staircase; do
        means 0.5 0 1 "$1" "scheduled:s=$(($2 - 1)),order=$order,start=now"
    done) "${times[3]}" "${times[4]}" "${times[5]}"
}

section_orders() {
    local steps
    steps=$(pick 10000 2000)
    cat <<TEXT
## The orders and the bound, by load

The mean step against the load r = s + 1, parts a worker holds, with noisy workers (1 + Exp(.5)). The bound knows all times beforehand
and lets the first 12 parts that are done be different ones: what the best order could reach.
TEXT
    csv orders r cyclic staircase "cyclic by definition" "staircase by definition" bound
    # The long ones first.
    together order_row "$steps" -- 12 6 4 3 2 1 | sort -n >> "$files/orders.csv"
    table orders
    plot orders "Mean step against the load" <<'TEXT'
set xlabel "load r"
set ylabel "mean step, parts"
plot for [i=2:6] data("orders") using 1:i with linespoints
TEXT
    gap() { calc "$(cell orders "$1" "$2") / $(cell orders "$1" 6)" 4; }
    figures
    figure "r = 2: cyclic over the bound" "relatively small" "$(gap 2 2)" 1.1 1.5 "other delays than the paper's"
    figure "r = 3: cyclic over the bound" "relatively small" "$(gap 3 2)" 1.1 1.5 "likewise"
    figure "r = 3: staircase over the bound" "relatively small" "$(gap 3 3)" 1.05 1.45 "likewise"
    figure "r = 3: staircase over cyclic" "-" "$(calc "$(cell orders 3 3) / $(cell orders 3 2)" 4)" 0.9 1.02 "likewise"
    figure "r = 12: staircase over cyclic" "-" "$(calc "$(cell orders 12 3) / $(cell orders 12 2)" 4)" 0.9 1.02 "likewise"
}

# trace_bound TRACE COPIES: the mean over iterations of the bound, seconds.
trace_bound() {
    sed 1d "$data/ec2-traces/$1.csv" | awk -F, -v copies="$2" '
    function end(   w, i, best, n) {
        n = count
        for (w = 0; w < n; w++) at[w] = 1
        for (i = 0; i < n; i++) {
            best = -1
            for (w = 0; w < n; w++)
                if (at[w] <= copies && (best < 0 || at[w] * f[w] < at[best] * f[best])) best = w
            at[best]++
        }
        return (at[best] - 1) * f[best]
    }
    $1 != last && count > 0 { sum += end(); steps++; count = 0 }
    { last = $1; f[count++] = $3 }
    END { sum += end(); printf "%.4g\n", sum / (steps + 1) }'
}

section_traces() {
    local trace n steps code at codes
    codes="uncoded linear:repetition:s=2 cyclic-mds:s=2 ye-abbe-tuned:s=2 heter:s=2 scheduled:s=1,order=cyclic,start=now scheduled:s=2,order=cyclic,start=now scheduled:s=2,order=cyclic,pieces=4,start=now"
    cat <<'TEXT'
## Traces of EC2

Seconds per worker and iteration of three runs on EC2 (see [slow nodes](slow-nodes.md)), taken as the time of one part: a worker with d parts
takes d times as long. `muster simulate --compute 0s --delay trace:file=..,scale=0.01,per=load`, the mean step in seconds of the trace, and the
bound for s = 2 and whole parts: `pieces=4` cuts them, and may take less.
TEXT
    if [ ! -d "$data/ec2-traces" ]; then
        echo
        echo "The traces are not here (MUSTER_DATA names the folder with ec2-traces), so that this section is empty."
        return 0
    fi
    csv ec2 trace $(for code in $codes; do tr , ' ' <<< "${code%,start=now}" | tr ' ' ';'; done) bound
    for trace in trace2 trace3 trace4; do
        n=$(sed 1d "$data/ec2-traces/$trace.csv" | cut -d, -f2 | sort -u | wc -l)
        steps=$(sed 1d "$data/ec2-traces/$trace.csv" | cut -d, -f1 | sort -u | wc -l)
        row ec2 $trace $(for code in $codes; do
            muster simulate --workers "$n" --code "$code" --steps "$steps" --compute 0s \
                --delay "trace:file=$data/ec2-traces/$trace.csv,scale=0.01,per=load" --json |
                value mean | awk '{ printf "%.2f\n", $1 / 10 }'
        done) "$(trace_bound $trace 3)"
    done
    table ec2
    figures
    for trace in trace2 trace3 trace4; do
        figure "$trace: cyclic order, s = 2, over uncoded" "significant reduction" \
            "$(calc "$(cell ec2 $trace 8) / $(cell ec2 $trace 2)" 4)" 0.1 1.01 "other traces than the paper's"
        figure "$trace: cyclic order over cyclic-mds, s = 2" "significant reduction" \
            "$(calc "$(cell ec2 $trace 8) / $(cell ec2 $trace 4)" 4)" 0.25 0.9 "likewise"
        figure "$trace: cyclic order, s = 2, over the bound" "relatively small" \
            "$(calc "$(cell ec2 $trace 8) / $(cell ec2 $trace 10)" 4)" 1 1.6 "likewise"
    done
}
