#!/usr/bin/env bash
# A type name has one meaning in the tree: every muster_ struct, union or enum
# has one body, and no typedef gives a second type the same name. Prints each
# second definition beside the first. Tests have types of their own and are
# left out. Before that the check shows that it finds what it should.
set -euo pipefail
cd "$(dirname "$0")/../.."

# Definitions are read line by line, as clang-format lays them out:
#   struct NAME {   typedef enum NAME {   } NAME;   typedef OLD NAME;
#   typedef RESULT (*NAME)(..
# `typedef struct NAME NAME;` names an opaque type and defines nothing.
check() {
    awk '
    function strip(line,    at) {
        if (in_comment) {
            at = index(line, "*/")
            if (!at) return ""
            line = substr(line, at + 2); in_comment = 0
        }
        sub(/\/\/.*/, "", line)
        gsub(/\/\*[^*]*\*\//, "", line)
        at = index(line, "/*")
        if (at) { line = substr(line, 1, at - 1); in_comment = 1 }
        return line
    }
    function define(name, what) {
        if (name !~ /^muster_/) return
        here = FILENAME ":" FNR ": " what " " name
        if (name in first) {
            print here " is also " first[name]
            bad = 1
            return
        }
        first[name] = here
    }
    FNR == 1 { in_comment = 0; tag = "" }
    {
        line = strip($0)
        if (match(line, /(struct|union|enum)[ ]+[a-z][a-z0-9_]*[ ]*\{/)) {
            text = substr(line, RSTART, RLENGTH)
            sub(/[ ]*\{/, "", text)
            split(text, word, /[ ]+/)
            define(word[2], word[1])
            if (line ~ /^typedef/) tag = word[2]
        } else if (line ~ /^typedef (struct|union|enum)[ ]*\{/) {
            tag = ""
        }
        if (match(line, /^\}[ ]*[a-z][a-z0-9_]*;/)) {
            text = substr(line, RSTART + 1, RLENGTH - 2)
            gsub(/ /, "", text)
            if (text != tag) define(text, "typedef")
            tag = ""
        } else if (match(line, /^typedef [^{]*\(\*[a-z][a-z0-9_]*\)/)) {
            text = line
            sub(/.*\(\*/, "", text); sub(/\).*/, "", text)
            define(text, "typedef")
        } else if (line ~ /^typedef [^{(]*;$/) {
            count = split(substr(line, 1, length(line) - 1), word, /[ *]+/)
            name = word[count]; sub(/\[.*/, "", name)
            if (!(count == 4 && word[3] == name)) define(name, "typedef")
        }
    }
    END { exit bad }
    ' "$@"
}

# The check can fail: each pair below is two types of one name.
probe=$(mktemp -d)
trap 'rm -r "$probe"' EXIT
finds() {
    printf '%b' "$1" > "$probe/a.h"
    printf '%b' "$2" > "$probe/b.c"
    ! check "$probe/a.h" "$probe/b.c" > /dev/null || {
        echo "two types of one name pass: $1 and $2" >&2
        exit 1
    }
}
finds 'struct muster_x {\n};\n' 'typedef struct muster_x {\n} muster_x;\n'
finds 'typedef enum muster_x {\n} muster_x;\n' 'struct muster_x {\n};\n'
finds 'typedef struct muster_x {\n} muster_x;\n' 'typedef uint64_t muster_x;\n'
finds 'typedef struct {\n} muster_x;\n' 'typedef void (*muster_x)(int a);\n'
printf 'typedef struct muster_x muster_x;\n// struct muster_x {\n' > "$probe/a.h"
printf '/*\n * struct muster_x {\n */\nstruct muster_x {\n};\n' > "$probe/b.c"
check "$probe/a.h" "$probe/b.c" || {
    echo "an opaque type and its body are taken for two types" >&2
    exit 1
}

# The tree.
# shellcheck disable=SC2046
check $(git ls-files -co --exclude-standard 'include/*.h' 'src/*.h' 'src/*.c' \
    'cli/*.h' 'cli/*.c' | grep -vE '_test\.[ch]$' | while read -r file; do
    [ ! -f "$file" ] || echo "$file"
done) || {
    echo "a type name has one meaning: rename the later ones above" >&2
    exit 1
}
