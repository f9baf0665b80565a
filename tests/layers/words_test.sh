#!/usr/bin/env bash
# Identifiers that must not come back, as words.txt lists them. Comments and
# strings are not read.
set -uo pipefail
cd "$(dirname "$0")/../.." || exit 1

check() { # FILES: prints file:line: identifier, and what to say instead
    awk '
    function say(name, word) {
        if (word in instead) {
            printf "%s:%d: %s: say %s\n", FILENAME, FNR, name, instead[word]
            bad = 1
        }
    }
    FNR == NR {
        if ($0 ~ /^#/ || NF == 0) next
        word = $1; $1 = ""; sub(/^ /, ""); instead[word] = $0
        next
    }
    FNR == 1 { comment = 0 }
    {
        line = $0
        gsub(/\\["\\]/, "", line)
        gsub(/"[^"]*"/, "", line)
        out = ""
        while (line != "") {
            if (comment) {
                end = index(line, "*/")
                if (end == 0) { line = ""; continue }
                line = substr(line, end + 2); comment = 0
            }
            start = index(line, "/*"); rest = index(line, "//")
            if (rest && (!start || rest < start)) {
                out = out substr(line, 1, rest - 1); line = ""
            } else if (start) {
                out = out substr(line, 1, start - 1) " "
                line = substr(line, start + 2); comment = 1
            } else { out = out line; line = "" }
        }
        gsub(/[^A-Za-z0-9_]+/, " ", out)
        count = split(out, names, " ")
        for (i = 1; i <= count; i++) {
            say(names[i], "=" tolower(names[i]))
            for (word in instead) {
                if (index(word, "_") && index(names[i], word) == 1) {
                    say(names[i], word)
                }
            }
            parts = split(tolower(names[i]), part, "_")
            for (j = 1; j <= parts; j++) {
                say(names[i], part[j])
            }
        }
    }
    END { exit bad }
    ' tests/layers/words.txt "$@"
}

files=$(git ls-files -co --exclude-standard 'src/*.[ch]' 'include/*.h' 'cli/*.[ch]')
# shellcheck disable=SC2086
check $files || exit 1
echo "words: $(echo "$files" | wc -l) files use none of words.txt"

# The check itself must be able to fail.
probe=${MUSTER_BUILD:-build}/words_probe.c
{
    echo '/* visitor */ int muster_visitor_count; // visitor'
    echo 'int most, at_most, muster_gain_take, gain;'
} > "$probe"
[ "$(check "$probe" | wc -l)" -eq 3 ] || {
    echo "the check of words does not see what it should" >&2
    exit 1
}
