#!/usr/bin/env bash
# What is built and what is installed: libraries are looked for beside the
# program and nowhere else, and everything is hardened (position independent,
# read-only relocations, bound at start, stack protector, checked functions).
set -uo pipefail
cd "$(dirname "$0")/../.." || exit 1
bad=0
complain() { echo "$*" >&2; bad=1; }

if ! command -v readelf > /dev/null; then
    echo "skipped: readelf is not installed"
    [ "${CI:-}" = true ] && exit 1
    exit 77
fi
grep -q 'MUSTER_SANITIZE:STRING=.' "$MUSTER_BUILD/CMakeCache.txt" && sanitized=1 || sanitized=0

check_paths() { # FILE
    local entries
    entries=$(readelf -d "$1" | sed -n 's/.*R\(UN\)\?PATH.*\[\(.*\)\]/\2/p')
    case ":$entries:" in
    ::) return ;; # none at all
    *::*) complain "$1: an empty entry in its library path: $entries" ;;
    esac
    for entry in $(echo "$entries" | tr ':' ' '); do
        case $entry in
        '$ORIGIN' | '$ORIGIN/'*) ;;
        *) complain "$1: libraries may come from $entry" ;;
        esac
    done
}

check_hardening() { # FILE
    local about
    about=$(readelf -hldW "$1")
    grep -q 'Type:  *DYN' <<< "$about" || complain "$1: not position independent"
    grep -q GNU_RELRO <<< "$about" || complain "$1: no read-only relocations"
    grep -q BIND_NOW <<< "$about" || complain "$1: not bound at start"
}

uses() { # FILE SYMBOL
    [ "$(readelf -sW "$1" | grep -c "$2")" -gt 0 ]
}

prefix=$MUSTER_BUILD/binaries
rm -rf "$prefix"
cmake --install "$MUSTER_BUILD" --prefix "$prefix" > /dev/null || complain "cannot install"
count=0
for file in "$MUSTER_BUILD"/muster "$MUSTER_BUILD"/*.so "$MUSTER_BUILD"/example_* \
    "$MUSTER_BUILD"/muster-bench-* \
    $(find "$prefix" -type f \( -name '*.so*' -o -perm -u+x \)); do
    readelf -h "$file" > /dev/null 2>&1 || continue
    count=$((count + 1))
    check_paths "$file"
    [ $sanitized -eq 1 ] || check_hardening "$file"
done
[ $count -ge 4 ] || complain "only $count programs found in $MUSTER_BUILD"
if [ $sanitized -eq 1 ]; then
    echo "hardening not checked: this build has sanitizers instead"
else
    for file in muster libmuster.so; do
        uses "$MUSTER_BUILD/$file" __stack_chk_fail || complain "$file: no stack protector"
        uses "$MUSTER_BUILD/$file" '_chk@' || complain "$file: no checked functions (FORTIFY_SOURCE)"
    done
fi

# The check itself must be able to fail: a program with a build's habits.
echo 'int main(void) { return 0; }' > "$prefix/probe.c"
cc -o "$prefix/probe" "$prefix/probe.c" -Wl,-rpath,/tmp: -Wl,-z,norelro -Wl,-z,lazy
if (bad=0; check_paths "$prefix/probe"; check_hardening "$prefix/probe"; exit $bad) 2> /dev/null; then
    complain "the check accepts a bad program"
fi
[ $bad -eq 0 ] && echo "binaries: $count programs checked"
exit $bad
