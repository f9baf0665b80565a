#!/usr/bin/env bash
# The rooms' arrows: every #include of src/ and cli/ is checked against
# arrows.txt, so that a layer cannot be crossed by accident. A room is a folder
# of src/, or a folder inside one where arrows.txt names it (ps/store); any
# other inner folder (code/families) belongs to the room around it.
set -euo pipefail
cd "$(dirname "$0")/../.."

check() {
    awk '
    function room_of(parts, first, count,    inner) {
        inner = parts[first] "/" parts[first + 1]
        return count > first + 1 && inner in known ? inner : parts[first]
    }
    FNR == NR {
        if ($0 ~ /^#/ || NF == 0) next
        room = $1; sub(":", "", room); known[room] = 1
        for (i = 2; i <= NF; i++) may[room, $i] = 1
        next
    }
    FNR == 1 {
        count = split(FILENAME, path, "/")
        room = path[1] == "src" ? room_of(path, 2, count) : path[1]
        test = FILENAME ~ /_test\.[ch]$/
        if (path[1] == "src" && !(room in known)) {
            printf "%s: room %s is not in arrows.txt\n", FILENAME, room
            bad = 1
        }
    }
    /^#include "/ {
        target = $2; gsub(/"/, "", target)
        count = split(target, t, "/")
        if (t[1] == "muster") next
        if (path[1] == "cli") {
            if (count > 1) {
                printf "%s:%d: cli may include muster/ only, not %s\n",
                    FILENAME, FNR, target
                bad = 1
            }
            next
        }
        other = room_of(t, 1, count)
        if (other == room || other == "base") next
        if (test && (other in known)) next
        if (!((room, other) in may)) {
            printf "%s:%d: %s may not include %s\n", FILENAME, FNR, room, target
            bad = 1
        }
    }
    END { exit bad }
    ' tests/layers/arrows.txt "$@"
}

files=$(git ls-files -co --exclude-standard 'src/*.c' 'src/*.h' 'cli/*.c' 'cli/*.h')
# shellcheck disable=SC2086
check $files
echo "layers: $(echo "$files" | wc -l) files respect the arrows"

# The check itself must be able to fail, at both folder levels.
rooms=${MUSTER_BUILD:-build}/layers
must_refuse() { # FILE INCLUDED
    mkdir -p "$rooms/$(dirname "$1")" "$rooms/tests/layers"
    cp tests/layers/arrows.txt "$rooms/tests/layers/"
    echo "#include \"$2\"" > "$rooms/$1"
    if (cd "$rooms" && check "$1" > /dev/null); then
        echo "the layer check accepts $2 in $1" >&2
        exit 1
    fi
}
must_refuse src/wire/probe.c net/net.h
must_refuse src/ps/store/probe.c ps/protocol/protocol.h
must_refuse src/task/probe.c ps/store/store.h
must_refuse src/nowhere/probe.c base/mem.h
