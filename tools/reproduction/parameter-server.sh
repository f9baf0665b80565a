# Renz-Wieland, Gemulla, Kaoudi, Markl: rows managed by how they are accessed.
# See lib.sh for what a page is.
title="A parameter server for uneven access"
paper="Renz-Wieland, Gemulla, Kaoudi, Markl, NuPS: A parameter server for machine learning with non-uniform parameter access, SIGMOD 2022 (arXiv 2104.00501)"
about="How rows come to the node that uses them, with what samples: rows that move and rows that are copied, against a classic server and against copies of bounded age alone; how old copies may be, which rows are hot, one to eight nodes."
sections="management sampling staleness hot nodes plain"
checked="management sampling plain"

model="complex:dim=64,negatives=4,loss=logistic,reciprocal=0,n3=0,decay=1"

# cut NAME COUNT STEP: every STEP-th line of a set of FB15k-237, COUNT of them.
cut_set() {
    gzip -dc "$data/fb15k237/$1.txt.gz" | tail -n +2 |
        awk -v n="$2" -v step="$3" 'NR % step == 0 && k < n { line[++k] = $0 }
            END { print k; for (i = 1; i <= k; i++) print line[i] }' > "$work/graph/$1.txt"
}

# A graph that a classic server gets through: 20,000 triples of it.
small_graph() {
    [ ! -s "$work/graph/train2id.txt" ] || return 0
    mkdir -p "$work/graph"
    cut_set train2id 20000 13
    cut_set valid2id 500 20
    cut_set test2id 500 20
    cp "$data/fb15k237"/{entity2id,relation2id}.txt.gz "$work/graph/"
}

here() { [ -s "$data/fb15k237/train2id.txt.gz" ]; }

# train DATA NODES EPOCHS SEED MANAGE OPTION ..: the summary of a run. Options
# that begin with a comma are the model's.
train() {
    local from=$1 nodes=$2 epochs=$3 seed=$4 manage=$5 options= of=
    shift 5
    for of; do [ "${of#,}" = "$of" ] || { options+=$of; shift; }; done
    muster train --model "$model$options" --data "$from" --nodes "$nodes" --epochs "$epochs" \
        --seed "$seed" --manage "$manage" "$@" --json
}

# mean KEY FILE..: of several summaries.
mean() {
    local key=$1 file
    shift
    for file; do value "$key" < "$file"; done | statistics | cut -d' ' -f1
}

section_management() {
    local manage scheme epochs
    cat <<'TEXT'
## Management and sampling

ComplEx with 64 floats a row and 4 negatives a question, every thirteenth triple of FB15k-237 (20,000 of them; all 14,541 entities), two
nodes of one thread on this machine. `classic` allocates rows statically and goes to the owner for each access, as servers before this
line of work do; `relocate` moves rows to the node that asked for them; `replicate` copies every row that is used and synchronises the
copies after a bounded time, as servers with stale reads (SSP) do, by the clock instead of by iterations; `auto` is the default:
rows move, and what several nodes use at once is copied. Samples: independent draws, each draw used 16 times, and draws from what is
here. Triples a second, the share of accesses that needed another node, and the share of their time that workers waited:
TEXT
    here || return 0
    small_graph
    csv management management samples triples/s "remote accesses" waiting "over classic"
    for manage in classic relocate replicate auto; do
        for scheme in independent reuse local; do
            epochs=1
            case $manage in auto | replicate) epochs=8 ;; relocate) epochs=2 ;; esac
            train "$work/graph" 2 "$epochs" 1 "$manage" ",scheme=$scheme,reuse=16" > "$work/$manage-$scheme"
            row management "$manage" "$scheme" "$(calc "$(value units_per_s < "$work/$manage-$scheme")" 3)" \
                "$(calc "$(value remote_share < "$work/$manage-$scheme")" 3)" \
                "$(calc "$(value wait_share < "$work/$manage-$scheme")" 3)" \
                "$(calc "$(value units_per_s < "$work/$manage-$scheme") / $(value units_per_s < "$work/classic-$scheme")" 3)"
        done
    done
    table management
    ratio() { calc "$(value units_per_s < "$work/$1") / $(value units_per_s < "$work/$2")" 3; }
    figures
    figure "auto over classic" "up to an order of magnitude over older servers" "$(ratio auto-independent classic-independent)" 8 400 \
        "the paper's abstract says up to one order of magnitude on 8 x 8 threads; here classic waits for a round trip of one machine an access, and nothing else hides it"
    figure "relocate over classic" "4 to 203 (Lapse; which moves rows)" "$(ratio relocate-independent classic-independent)" 1.5 40 \
        "other tasks and a network; this is one machine"
    figure "auto over relocate" "up to an order of magnitude over older servers" "$(ratio auto-independent relocate-independent)" 2 60 \
        "relocate fights for the rows that both nodes use"
    figure "relocate: local samples over independent ones" "-" "$(ratio relocate-local relocate-independent)" 0.8 15 \
        "a sample that is here costs no round trip"
    figure "auto: remote accesses" "-" "$(calc "$(value remote_share < "$work/auto-independent")" 3)" 0 0.02 \
        "-"
}

section_sampling() {
    local scheme seed epochs seeds
    epochs=$(pick 4 2)
    seeds=$(pick "1 2" 1)
    cat <<TEXT

## What samples cost in quality

The same model on all of FB15k-237, two nodes, \`auto\`, $epochs epochs, mean of seeds $seeds. The levels are the paper's: L1 are independent
draws, L2 bounds how draws depend on each other, L3 is right in the long run only, L4 promises nothing. Filtered test MRR:
TEXT
    here || return 0
    csv sampling samples level MRR "of independent"
    for scheme in independent:L1 reuse,reuse=4:L2 reuse,reuse=16:L2 postpone,reuse=16:L3 local:L4 repurpose:L4; do
        for seed in $seeds; do
            train "$data/fb15k237" 2 "$epochs" "$seed" auto ",scheme=${scheme%:*}" > "$work/s.$seed"
        done
        mean test_mrr $(for seed in $seeds; do echo "$work/s.$seed"; done) > "$work/mrr.${scheme%:*}"
        row sampling "$(tr ',' ' ' <<< "${scheme%:*}")" "${scheme#*:}" "$(calc "$(cat "$work/mrr.${scheme%:*}")" 4)" \
            "$(calc "$(cat "$work/mrr.${scheme%:*}") / $(cat "$work/mrr.independent")" 4)"
    done
    table sampling
    of() { calc "$(cat "$work/mrr.$1") / $(cat "$work/mrr.independent")" 4; }
    figures
    figure "each sample 4 times" "-" "$(of reuse,reuse=4)" 0.9 1.1 "a few seeds of a small model"
    figure "each sample 16 times" "-" "$(of reuse,reuse=16)" 0.8 1.06 \
        "here it costs: 4 negatives of 14,541 entities come from groups of 250; so the default is independent draws"
    figure "local samples" "-" "$(of local)" 0.6 1.25 "L4 changes the loss itself"
}

section_staleness() {
    local age manage
    cat <<'TEXT'

## How old copies may be

All of FB15k-237, two nodes, 4 epochs, `--staleness`. `replicate` copies everything. How copies are kept near
each other while they are that old is in docs/design/ps.md.
TEXT
    here || return 0
    csv staleness management staleness triples/s MRR "rows synchronised a triple" waiting
    for manage in replicate auto; do
        for age in 2ms 100ms 1s; do
            train "$data/fb15k237" 2 4 1 "$manage" --staleness "$age" > "$work/a.$manage.$age"
            row staleness "$manage" "$age" "$(calc "$(value units_per_s < "$work/a.$manage.$age")" 3)" \
                "$(calc "$(value test_mrr < "$work/a.$manage.$age")" 4)" \
                "$(calc "$(value sync_rows < "$work/a.$manage.$age") / $(value steps < "$work/a.$manage.$age")" 3)" \
                "$(calc "$(value wait_share < "$work/a.$manage.$age")" 3)"
        done
    done
    table staleness
    figures
    figure "auto: MRR at 1 s over 2 ms" "-" \
        "$(calc "$(value test_mrr < "$work/a.auto.1s") / $(value test_mrr < "$work/a.auto.2ms")" 4)" 0.9 1.08 \
        "-"
    figure "auto: rate at 1 s over 2 ms" "-" \
        "$(calc "$(value units_per_s < "$work/a.auto.1s") / $(value units_per_s < "$work/a.auto.2ms")" 3)" 0.6 4 "-"
}

# hot_file COUNT: the rows that occur most often, for --manage static: entities
# are table 0, relations table 1, and each triple asks with its relation twice.
hot_file() {
    tail -n +2 "$work/graph/train2id.txt" |
        awk '{ n["0 " $1]++; n["0 " $2]++; n["1 " $3] += 2 } END { for (k in n) print n[k], k }' |
        sort -k1,1nr -k2,2n -k3,3n | head -n "$1" | cut -d' ' -f2- > "$work/hot.$1"
}

section_hot() {
    local count factor
    cat <<'TEXT'

## Which rows are hot

The small graph, two nodes, 2 epochs. `static:FILE` copies the rows that occur most often and moves the rest, as the paper does by
frequencies known beforehand; its rule is a hundred times the mean. `auto` counts while it runs. Rates:
TEXT
    here || return 0
    small_graph
    csv hot management rows triples/s "remote accesses" waiting
    for count in 15 150 1500 15000; do # the last: all that occur
        hot_file "$count"
        train "$work/graph" 2 2 1 "static:$work/hot.$count" > "$work/h.$count"
        row hot static "$(wc -l < "$work/hot.$count")" "$(calc "$(value units_per_s < "$work/h.$count")" 3)" \
            "$(calc "$(value remote_share < "$work/h.$count")" 3)" "$(calc "$(value wait_share < "$work/h.$count")" 3)"
    done
    for factor in 10 100 1000; do
        train "$work/graph" 2 2 1 auto --hot-factor "$factor" > "$work/f.$factor"
        row hot "auto; factor $factor" "$(value copies < "$work/f.$factor") copied" "$(calc "$(value units_per_s < "$work/f.$factor")" 3)" \
            "$(calc "$(value remote_share < "$work/f.$factor")" 3)" "$(calc "$(value wait_share < "$work/f.$factor")" 3)"
    done
    table hot
    figures
    figure "static: 1500 rows over 15" "-" \
        "$(calc "$(value units_per_s < "$work/h.1500") / $(value units_per_s < "$work/h.15")" 3)" 0.7 10 "-"
    figure "auto over the best static set" "matched or outperformed (AdaPM; which is not told either)" \
        "$(calc "$(value units_per_s < "$work/f.100") / $(cut -d, -f1,3 "$files/hot.csv" | sed -n 's/^static,//p' | sort -g | tail -n 1)" 3)" 0.5 30 \
        "every entity is a negative of both nodes here, so no row is used by one node alone, and moving any of them is in vain"
}

section_nodes() {
    local nodes manage
    cat <<'TEXT'

## One to eight nodes

The small graph, 4 epochs (`relocate`: one), one thread a node. This machine has few processors: with more nodes than processors the
figures show what management costs, not how it scales. Rates over that of one node, and the share of time that workers waited:
TEXT
    here || return 0
    small_graph
    train "$work/graph" 1 4 1 auto > "$work/n.1"
    csv nodes nodes management triples/s "over one node" waiting
    row nodes 1 - "$(calc "$(value units_per_s < "$work/n.1")" 3)" 1 0
    for nodes in 2 4 8; do
        for manage in auto replicate relocate; do
            train "$work/graph" "$nodes" "$([ $manage = relocate ] && echo 1 || echo 4)" 1 "$manage" > "$work/n.$manage.$nodes"
            row nodes "$nodes" "$manage" "$(calc "$(value units_per_s < "$work/n.$manage.$nodes")" 3)" \
                "$(calc "$(value units_per_s < "$work/n.$manage.$nodes") / $(value units_per_s < "$work/n.1")" 3)" \
                "$(calc "$(value wait_share < "$work/n.$manage.$nodes")" 3)"
        done
    done
    table nodes
    figures
    figure "auto: 8 nodes over 8 nodes of relocate" "-" \
        "$(calc "$(value units_per_s < "$work/n.auto.8") / $(value units_per_s < "$work/n.relocate.8")" 3)" 1.5 100 "-"
    figure "auto: 2 nodes over one" "up to linear on 8 nodes" \
        "$(calc "$(value units_per_s < "$work/n.auto.2") / $(value units_per_s < "$work/n.1")" 3)" 0.2 2 \
        "an epoch of 20,000 triples takes a tenth of a second: copies hardly meet; docs/parameter-server.md has 16 cores and whole data"
}

section_plain() {
    local bench
    bench=$(dirname "$MUSTER_BIN")/muster-bench-ps
    cat <<'TEXT'

## Hot rows that nobody announced

Two nodes pull and push rows one by one and announce nothing; half of all accesses go to 20 rows of 10,000, and after two seconds to
20 others. The share of the accesses to hot rows that needed another node, in the second second of each set
(`muster bench ps --only hot`):
TEXT
    [ -x "$bench" ] || { echo "(muster-bench-ps is not built)"; return 0; }
    "$bench" --only hot --json > "$work/plain" 2>> "$log" || failed "$bench --only hot"
    share() { grep "\"$1\"" "$work/plain" | value value; }
    csv plain set "remote accesses"
    row plain first "$(calc "$(share hot_plain_remote)" 3)"
    row plain second "$(calc "$(share hot_plain_changed_remote)" 3)"
    table plain
    figures
    figure "first set" "-" "$(calc "$(share hot_plain_remote)" 3)" 0 0.05 "rows are counted while they are used"
    figure "second set" "-" "$(calc "$(share hot_plain_changed_remote)" 3)" 0 0.05 "-"
}
