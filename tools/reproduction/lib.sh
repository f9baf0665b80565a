# What the pages of tools/reproduce share; sourced by it.
#
# A page is a file tools/reproduction/NAME.sh. It sets
#   title, paper, about   a line each, for the page's head and the index
#   sections              names of its sections, in order
#   checked               those that `tools/reproduce --check` measures
# and defines for each section a function section_NAME, which prints the
# section's Markdown: its own words, and what the functions below print. A
# section runs by itself; it keeps files for others to use in $work.
#
#   pick FULL QUICK       a size: QUICK under --check
#   muster ARGS           runs the program; what it says goes to $log
#   together COMMAND ..   COMMAND WORD for every word after `--`, $at_once of
#                         them at a time. That is as many as there are
#                         processors, for simulated time. A section sets more
#                         for real runs that sleep or wait for slow links.
#   value KEY, list KEY   a number, an array of numbers, of JSON on stdin
#   calc EXPRESSION       a number, by awk
#   csv NAME COLUMN..     begins a csv file; row NAME VALUE.. adds to it, and
#                         cells VALUE.. prints such a line
#   table NAME            prints it as a Markdown table
#   plot NAME TEXT        reads gnuplot commands; prints a link to NAME.svg
#   figures, figure ..    a table of what the paper says, what we get, how far
#                         it may be off, and why they differ

pick() { [ "$is_check" -eq 0 ] && echo "$1" || echo "$2"; }

muster() {
    echo "\$ muster $*" >> "$log"
    NO_COLOR=1 timeout -k 5 300 "$MUSTER_BIN" "$@" 2>> "$log" || failed "muster $*"
}

# together COMMAND ARG.. -- WORD..: what COMMAND ARG.. WORD prints, word by word.
together() {
    local command=() word most=${at_once:-$(nproc)}
    while [ "$1" != -- ]; do command+=("$1"); shift; done
    shift
    for word; do
        [ "$(jobs -rp | wc -l)" -lt "$most" ] || wait -n || true
        "${command[@]}" "$word" > "$work/together.$word" &
    done
    wait
    for word; do cat "$work/together.$word"; rm -f "$work/together.$word"; done
}

# A failure inside $(..) must end the section as well.
failed() {
    echo "failed: $*" >> "$work/failed"
    return 1
}

value() {
    grep -o "\"$1\": *[^,}]*" | head -n 1 | sed 's/^[^:]*: *//; s/"//g'
}

list() {
    tr -d '\n' | grep -o "\"$1\": *\[[^]]*\]" | head -n 1 |
        sed 's/^[^[]*\[//; s/\]//; s/,/ /g'
}

calc() { awk "BEGIN { printf \"%.${2:-6}g\", $1 }"; }

# Of numbers, one a line: mean, standard deviation, least, largest.
statistics() {
    awk '{ n++; s += $1; q += $1 * $1
           if (n == 1 || $1 < a) a = $1; if (n == 1 || $1 > b) b = $1 }
         END { m = s / n; v = q / n - m * m
               printf "%.6g %.6g %.6g %.6g\n", m, sqrt(v < 0 ? 0 : v), a, b }'
}

cells() { (IFS=,; echo "$*"); }
csv() { cells "${@:2}" > "$files/$1.csv"; }
row() { cells "${@:2}" >> "$files/$1.csv"; }

table() {
    echo
    awk -F, '{ gsub(/,/, " | "); print "| " $0 " |" }
             NR == 1 { gsub(/[^|]+/, "---"); print "|" $0 "|" }' "$files/$1.csv"
    echo
    echo "([$1.csv]($page/$1.csv))"
}

# Gnuplot commands come on stdin; csv files are named as data("NAME").
plot() {
    local name=$1 text=$2
    [ "$is_check" -eq 0 ] || { cat > /dev/null; return 0; }
    if ! (
        cat <<EOP
set terminal svg size 640,360 font "sans,12" background "white"
set output "$files/$name.svg"
set datafile separator ","
set datafile missing NaN
set key noenhanced
set xtics noenhanced
set key autotitle columnheader
set key outside right
set grid
data(name) = "$files/" . name . ".csv"
EOP
        cat
    ) | gnuplot >> "$log" 2>&1; then
        echo "gnuplot failed on $name; see $log" >&2
        return 1
    fi
    printf '\n![%s](%s/%s.svg)\n' "$text" "$page" "$name"
}

figures() {
    printf '\n| figure | the paper | here | spread | why they differ |\n'
    printf '|---|---|---|---|---|\n'
}

# figure NAME PAPER OURS LOW HIGH WHY
figure() {
    printf '| %s | %s | %s | %s .. %s | %s |\n' "$1" "$2" "$3" "$4" "$5" "$6"
    echo "${1//,/;},$3,$4,$5" >> "$figures"
}
