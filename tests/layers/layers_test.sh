#!/usr/bin/env bash
# The rooms' arrows: every #include of src/ and cli/ is checked against
# arrows.txt, so that a layer cannot be crossed by accident.
set -euo pipefail
cd "$(dirname "$0")/../.."

check() {
    awk '
    FNR == NR {
        if ($0 ~ /^#/ || NF == 0) next
        room = $1; sub(":", "", room); known[room] = 1
        for (i = 2; i <= NF; i++) may[room, $i] = 1
        next
    }
    {
        split(FILENAME, path, "/")
        room = path[1] == "src" ? path[2] : path[1]
        test = FILENAME ~ /_test\.c$/
    }
    FNR == 1 && path[1] == "src" && !(room in known) {
        printf "%s: room %s is not in arrows.txt\n", FILENAME, room; bad = 1
    }
    /^#include "/ {
        target = $2; gsub(/"/, "", target); split(target, t, "/")
        if (t[1] == "muster" || room == "tests") next
        if (path[1] == "cli") {
            if (target ~ /\//) { printf "%s:%d: cli may include muster/ only, not %s\n", FILENAME, FNR, target; bad = 1 }
            next
        }
        if (t[1] == room || t[1] == "base") next
        if (test && (t[1] in known)) next
        if (!((room, t[1]) in may)) {
            printf "%s:%d: %s may not include %s\n", FILENAME, FNR, room, target; bad = 1
        }
    }
    END { exit bad }
    ' tests/layers/arrows.txt "$@"
}

files=$(git ls-files -co --exclude-standard 'src/*.c' 'src/*.h' 'cli/*.c' 'cli/*.h')
# shellcheck disable=SC2086
check $files
echo "layers: $(echo "$files" | wc -l) files respect the arrows"

# The check itself must be able to fail.
mkdir -p "${MUSTER_BUILD:-build}/layers/src/wire"
probe=${MUSTER_BUILD:-build}/layers/src/wire/probe.c
echo '#include "net/net.h"' > "$probe"
if (cd "${MUSTER_BUILD:-build}/layers" && mkdir -p tests/layers &&
    cp "$OLDPWD/tests/layers/arrows.txt" tests/layers/ && check src/wire/probe.c > /dev/null); then
    echo "the layer check accepts an upward include" >&2
    exit 1
fi
