# He and Dube: data placed by what each worker can do and by what it looks like.
# See lib.sh for what a page is.
title="Data placed on unequal workers"
paper="He, Dube, RCD-SGD: Resource-constrained distributed SGD in heterogeneous environment via submodular partitioning, ICCV 2023 Workshops (arXiv 2211.00839)"
about="Samples by speed, by class and by a submodular choice, under five training algorithms: time to an accuracy, with the effect of the sizes and that of the choice apart."
sections="algorithms many real"
checked="algorithms"

placements="equal-stratified proportional-stratified submodular"

# Speeds 1, 2, 3, 4, 1, .. of N workers.
speeds() { seq 0 $(($1 - 1)) | awk '{ printf "%s%d", (NR > 1 ? "," : ""), $1 % 4 + 1 }'; }

# owners METHOD WORKERS SEED: what --placement takes. A choice is made once and
# serves every algorithm.
owners() {
    local file=$work/owners.$2.$3.npy
    [ "$1" = submodular ] || { echo "$1"; return; }
    [ -e "$file" ] || muster partition --data "$data/mnist" --workers "$2" \
        --speeds "$(speeds "$2")" --seed "$3" --method submodular --out "$file" > /dev/null
    echo "$file"
}

# job WORKERS ALGORITHM METHOD SEED: the options that runs and simulations share.
job() {
    local every=5
    [ "${2#local}" = "$2" ] || every=1
    echo "--data $data/mnist --model mlp:hidden=32 --speeds $(speeds "$1")" \
        "--batch 1024 --optimizer sgd --lr 0.2 --steps 800 --until accuracy=0.91" \
        "--eval-every $every --algorithm $2 --placement $(owners "$3" "$1" "$4")" \
        "--seed $4 --json"
}
# What the summary on stdin says of the target.
target() { tr -d '\n' | sed 's/.*"target"//'; }

# to_target WORKERS ALGORITHM METHOD SEED: virtual seconds until the accuracy.
to_target() { muster simulate --workers "$1" --compute 40ms $(job "$@") | target | value seconds; }

# race NAME WORKERS SEEDS ALGORITHM..: mean and deviation of each, by placement.
race() {
    local name=$1 workers=$2 seeds=$3 algorithm method
    shift 3
    csv "$name" algorithm placement "seconds, mean" deviation least largest
    sed -i 's/seconds, mean/seconds/' "$files/$name.csv"
    for algorithm; do
        for method in $placements; do
            together to_target "$workers" "$algorithm" "$method" -- $seeds > "$work/$name.seconds"
            row "$name" "$algorithm" "$method" $(statistics < "$work/$name.seconds")
        done
    done
    table "$name"
}

# seconds NAME ALGORITHM METHOD
seconds() { awk -F, -v a="$2" -v m="$3" '$1 == a && $2 == m { print $3 }' "$files/$1.csv"; }
# saved NAME ALGORITHM FROM TO: share of the time that TO saves.
saved() { calc "1 - $(seconds "$1" "$2" "$4") / $(seconds "$1" "$2" "$3")" 3; }

# effects NAME ALGORITHM LOW HIGH: of the sizes, within LOW .. HIGH, and of the
# choice.
effects() {
    figure "$2: sizes" "-" "$(saved "$1" "$2" equal-stratified proportional-stratified)" "$3" "$4" "proportional-stratified against equal-stratified"
    figure "$2: choice" "-" "$(saved "$1" "$2" proportional-stratified submodular)" -0.15 0.15 "submodular against proportional-stratified: same sizes, same classes"
    figure "$2: both" "up to .32" "$(saved "$1" "$2" equal-stratified submodular)" "$(calc "$3 - 0.1" 3)" "$(calc "$4 + 0.1" 3)" "the paper's settings are not known to us; this is submodular against equal-stratified"
}

section_algorithms() {
    local seeds
    seeds=$(pick "1 2 3 4 5" "1")
    cat <<TEXT
## Five algorithms, 8 workers of speeds 1:2:3:4:1:2:3:4

mnist, an mlp of 32 units, batches of 1,024, test accuracy .91, seeds $seeds. Arithmetic is exact and time is virtual: a worker
of speed 1 takes 40 ms for an eighth of a batch. The paper's abstract says that its placement accelerates existing algorithms by
up to 32 %; its settings, baselines and tables could not be read, so the last column of each figure says what is compared here.
Virtual seconds to the accuracy:
TEXT
    race algorithms 8 "$seeds" sync local:16 ssp:2 async gossip:ring
    echo
    echo "Shares of the time that are saved:"
    figures
    effects algorithms sync 0.5 0.65
    effects algorithms local:16 0.45 0.7
    effects algorithms ssp:2 0.45 0.7
    effects algorithms async -0.2 0.35
    effects algorithms gossip:ring 0.45 0.7
    cat <<'TEXT'

Where workers wait for the slowest one, sizes by speed save what the slowest made them wait; `async` waits for nobody, and has
little to gain. Which samples a worker has, sizes and classes being equal, matters as little as chance does.
TEXT
}

section_many() {
    local seeds
    seeds=$(pick "1 2 3 4 5" "1")
    cat <<TEXT
## 16 workers: long local steps, and gossip

Where workers hold few samples and go long ways by themselves, what they hold should matter most. The same job with 16 workers of
speeds 1 to 4, 64 steps of a worker's own between averages, and gossip in a ring. With local:64 the accuracy
comes after three or four averages, so that its times are coarse. Virtual seconds:
TEXT
    placements="proportional-stratified submodular"
    race many 16 "$seeds" local:64 gossip:ring
    echo
    figures
    figure "local:64: choice" "up to .32" "$(saved many local:64 proportional-stratified submodular)" -0.25 0.25 "submodular against proportional-stratified"
    figure "gossip:ring: choice" "up to .32" "$(saved many gossip:ring proportional-stratified submodular)" -0.15 0.15 "likewise"
}

section_real() {
    local seeds algorithm method seed
    seeds=$(pick "1 2 3 4 5" "1")
    cat <<TEXT
## The same 16 workers as processes

The runs of the last section with \`muster train --local 16\` on this machine, without sleeps, seeds $seeds: a step is one average with
local:64. Models do not depend on timing, so the steps are those of the simulations; the seconds are those of 17 processes on
$(nproc) cores, and tell of messages and waits for a core more than of placement.
TEXT
    csv real algorithm placement steps deviation least largest seconds deviation least largest
    for algorithm in local:64 gossip:ring; do
        for method in proportional-stratified submodular; do
            for seed in $seeds; do
                muster train --local 16 $(job 16 "$algorithm" "$method" "$seed") | target > "$work/real.$seed"
            done
            row real "$algorithm" "$method" \
                $(for seed in $seeds; do value step < "$work/real.$seed"; done | statistics) \
                $(for seed in $seeds; do value seconds < "$work/real.$seed"; done | statistics)
        done
    done
    table real
    echo
    figures
    for algorithm in local:64 gossip:ring; do
        figure "$algorithm: choice; steps of processes" "up to .32" "$(saved real $algorithm proportional-stratified submodular)" -0.25 0.25 "submodular against proportional-stratified, in steps"
    done
}
