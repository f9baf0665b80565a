#!/usr/bin/env bash
# tools/reproduce makes a page of one file, and fails when a figure leaves its
# spread, when a command fails and when the committed figures are others; the
# committed pages are whole.
: "${MUSTER_SOURCE:?set MUSTER_SOURCE to the sources}"
. "$(dirname "$0")/lib.sh"
cd "$MUSTER_SOURCE" || exit 1
MUSTER_BIN=$(realpath "$MUSTER_BIN")
export MUSTER_BIN REPRODUCE_PAGES=$work/pages REPRODUCE_DOCS=$work/docs
export REPRODUCE_RESULTS=$work/results REPRODUCE_NETWORK=bandwidth
mkdir "$work/pages" "$work/docs"

# page VALUE COMMAND: a page of two sections.
page() {
    cat > "$work/pages/toy.sh" <<PAGE
title="Toy"
paper="Nobody, 2000"
about="Two sections."
sections="first second"
checked="first"
section_first() {
    echo "## First"
    csv answers name answer
    row answers six $1
    table answers
    figures
    figure "six" "6" "$1" 5 7 "it is a toy"
}
section_second() {
    echo "## Second"
    $2 > "\$work/second"
    figures
    figure "workers" "-" "\$(value n < "\$work/second")" 4 4 "asked for"
}
PAGE
}

# reproduce CODE ARGS: exit code of the tool.
reproduce() {
    local wanted=$1 code
    shift
    bash tools/reproduce "$@" > "$work/out" 2> "$work/err"
    code=$?
    [ "$code" -eq "$wanted" ] ||
        fail "reproduce $*: exit code $code, not $wanted: $(cat "$work/err")"
}

page 6 "muster code frc:s=1 --workers 4 --json"
reproduce 0 toy
grep -q '^| six | 6 | 6 | 5 .. 7 | it is a toy |$' "$work/docs/toy.md" || fail "no row of the figure"
grep -q '^| six | 6 |$' "$work/docs/toy.md" || fail "no table"
grep -q '^| \[Toy\](toy.md) | Nobody, 2000 | Two sections. |$' "$work/docs/README.md" || fail "no index"
[ "$(cat "$work/docs/toy/figures.csv")" = "section,figure,value,low,high
first,six,6,5,7
second,workers,4,4,4" ] || fail "figures: $(cat "$work/docs/toy/figures.csv")"
reproduce 0 --check toy
[ ! -e "$work/results-check/toy/second.md" ] || fail "--check measures what is not checked"

page 8 "muster code frc:s=1 --workers 4 --json"
reproduce 1 --check toy
grep -q 'toy/first: six: 8 is not within 5 .. 7' "$work/err" || fail "not named: $(cat "$work/err")"
reproduce 1 toy/first
page 6 "muster code frc:s=1 --workers 5 --json"
reproduce 1 toy/second
grep -q 'failed: muster code frc:s=1 --workers 5' "$work/err" || fail "not named: $(cat "$work/err")"
page 6 true
sed -i 's/figure "six"/figure "half a dozen"/' "$work/pages/toy.sh"
reproduce 1 --check toy
grep -q 'are not those of the script' "$work/err" || fail "other figures are not seen: $(cat "$work/err")"
reproduce 2 nosuch
reproduce 2 toy/third

# What is committed: every page with its figures within their spreads.
for script in $(grep -lE '^title=' tools/reproduction/*.sh); do
    name=$(basename -s .sh "$script")
    [ -s "docs/reproduction/$name.md" ] || { fail "docs/reproduction/$name.md is missing"; continue; }
    grep -q "($name.md)" docs/reproduction/README.md || fail "the index lacks $name"
    awk -F, 'NR > 1 && ($3 == "" || $3 + 0 < $4 + 0 || $3 + 0 > $5 + 0) { print; bad = 1 }
        END { exit bad }' "docs/reproduction/$name/figures.csv" || fail "$name: figures above"
    for file in $(grep -oE "\($name/[^)]*\)" "docs/reproduction/$name.md" | tr -d '()'); do
        [ -s "docs/reproduction/$file" ] || fail "$name.md links to $file, which is missing"
    done
done
finish
