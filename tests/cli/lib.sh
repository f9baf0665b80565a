# Helpers of the command's tests; sourced. Each case says what goes in and what
# must come out: exit code, stdout, stderr.
set -uo pipefail
: "${MUSTER_BIN:?set MUSTER_BIN to the muster program}"
work=$(mktemp -d "${TMPDIR:-/tmp}/muster-cli-XXXXXX")
trap 'rm -rf "$work"' EXIT
failures=0
export NO_COLOR=1

fail() {
    echo "FAIL: $*" >&2
    failures=$((failures + 1))
}

finish() {
    [ "$failures" -eq 0 ] || { echo "$failures checks failed" >&2; exit 1; }
    exit 0
}

# run ARGS: sets $code; stdout and stderr in $work.
run() {
    timeout -k 5 60 "$MUSTER_BIN" "$@" > "$work/out" 2> "$work/err" < /dev/null
    code=$?
}

# same FILE TEXT WHAT: the file holds exactly this text (and a newline).
same() {
    [ "$(cat "$work/$1")" = "$2" ] ||
        fail "$3: $1 is"$'\n'"$(cat "$work/$1")"$'\n'"and not"$'\n'"$2"
}

# gives CODE STDOUT STDERR ARGS: all three, exactly.
gives() {
    local wanted=$1 out=$2 err=$3
    shift 3
    run "$@"
    [ "$code" -eq "$wanted" ] || fail "muster $*: exit code $code, not $wanted"
    same out "$out" "muster $*"
    same err "$err" "muster $*"
}

# refuses CODE STDERR ARGS: nothing on stdout, one line on stderr.
refuses() {
    local wanted=$1 err=$2
    shift 2
    gives "$wanted" "" "muster: $err" "$@"
}
