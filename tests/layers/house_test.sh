#!/usr/bin/env bash
# docs/design/README.md and ps.md are true: each file they name exists, and each
# function they name stands in one of the files of its line.
set -uo pipefail
cd "$(dirname "$0")/../.." || exit 1

check() { # PAGE: prints what is wrong
    grep -E '`(src|tests|cli|include|bench)/' "$1" | while IFS= read -r line; do
        files=$(echo "$line" | grep -oE '`(src|tests|cli|include|bench)/[a-zA-Z0-9_./]+`' | tr -d '`')
        for file in $files; do
            [ -e "$file" ] || echo "$1 names $file, which does not exist"
        done
        for function in $(echo "$line" | grep -oE '`[a-z_0-9]+\(\)`' | tr -d '`()'); do
            # shellcheck disable=SC2086
            grep -qsE "(^|[^a-z_0-9])$function\(" $files ||
                echo "$1 names $function(), which is not in" $files
        done
    done
}

wrong=$(check docs/design/README.md; check docs/design/ps.md)
[ -z "$wrong" ] || { echo "$wrong" >&2; exit 1; }
named=$(grep -oE '`[a-z_0-9]+\(\)`' docs/design/README.md | sort -u | wc -l)
[ "$named" -ge 20 ] || { echo "the page names only $named functions" >&2; exit 1; }

# The check itself must be able to fail.
probe=${MUSTER_BUILD:-build}/house_probe.md
echo '| a | `src/base/mem.c` | `muster_mem_nothing()` |' > "$probe"
[ -n "$(check "$probe")" ] || { echo "the check accepts a missing function" >&2; exit 1; }
echo '| a | `src/base/nowhere.c` | |' > "$probe"
[ -n "$(check "$probe")" ] || { echo "the check accepts a missing file" >&2; exit 1; }
echo "the house: $named functions found where the page says"
