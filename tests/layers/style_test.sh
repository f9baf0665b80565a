#!/usr/bin/env bash
# House rules that a machine can see: sizes, banned functions, header contracts,
# formatting, public headers that compile alone as C17 and C++17, and exported
# names that are declared names.
set -uo pipefail
cd "$(dirname "$0")/../.."
bad=0
complain() { echo "$*" >&2; bad=1; }

sources=$(git ls-files -co --exclude-standard '*.c' '*.h')

# Sizes: 1000 lines is the end for a .c file, 300 for a public header.
for file in $sources; do
    lines=$(wc -l < "$file")
    case $file in
    include/muster/*.h) [ "$lines" -le 300 ] || complain "$file: $lines lines, a public header may have 300" ;;
    *) [ "$lines" -le 1000 ] || complain "$file: $lines lines, split it by reason to change" ;;
    esac
done

# Lines: 80 columns, in code and comments.
# shellcheck disable=SC2086
long=$(awk 'length($0) > 80 { print FILENAME ":" FNR ": " length($0) " columns" }' $sources)
[ -z "$long" ] || complain "$long
lines of more than 80 columns above"

# Banned everywhere: unbounded or unchecked functions. The heap has one door;
# what a library allocated is freed with the remark `heap: whose`.
grep -nE '\b(sprintf|vsprintf|strcpy|strcat|strtok|gets|atoi|atol|atof)[[:space:]]*\(' $sources &&
    complain "banned functions above: use the bounded, checked ones"
outside=$(git ls-files -co --exclude-standard 'src/*.c' 'src/*.h' | grep -vE '^src/base/mem\.|_test\.[ch]$')
grep -nE '(^|[^_a-zA-Z>.])(malloc|calloc|realloc|free|strdup|aligned_alloc)[[:space:]]*\(' $outside |
    grep -vE ':\s*(\*|//|/\*)|// heap: ' && complain "heap use above: go through base/mem.h"

# The number of BLAS threads belongs to the program, never to the library.
grep -rnE --exclude='*_test.c' 'openblas_set_num_threads|(goto|omp)_set_num_threads' src include &&
    complain "the library changes its process above: only programs set threads"

# Unfinished marks.
grep -nE '\b(TODO|FIXME|XXX)\b' $sources | grep -v '^tests/layers/' &&
    complain "unfinished marks above"

# Every header says what it is, and guards itself by its name.
for header in $(git ls-files -co --exclude-standard 'include/*.h' 'src/*.h'); do
    head -n 2 "$header" | grep -q -- ' -- ' || complain "$header: no 'path -- one sentence' at the top"
    grep -q '^#ifndef MUSTER_' "$header" || complain "$header: no MUSTER_ guard"
done

# Every room has its design page.
for room in $(git ls-files -co --exclude-standard 'src/*.c' | cut -d/ -f2 | sort -u); do
    [ -s "docs/design/$room.md" ] || complain "docs/design/$room.md is missing"
done

# Formatting.
if command -v clang-format > /dev/null; then
    # shellcheck disable=SC2086
    clang-format --dry-run --Werror $sources || complain "run: make format"
else
    [ "${CI:-}" != true ] || complain "clang-format is missing"
    echo "formatting not checked: clang-format is not installed"
fi

# Public headers stand alone, in C and C++.
for header in include/muster/*.h; do
    echo "#include \"muster/$(basename "$header")\"" > "$MUSTER_BUILD/alone.c"
    echo "extern int not_empty;" >> "$MUSTER_BUILD/alone.c"
    cp "$MUSTER_BUILD/alone.c" "$MUSTER_BUILD/alone.cc"
    cc -std=c17 -Wall -Wextra -Werror -pedantic -Iinclude -fsyntax-only "$MUSTER_BUILD/alone.c" ||
        complain "$header does not compile alone as C17"
    if command -v c++ > /dev/null; then
        c++ -std=c++17 -Wall -Wextra -Werror -Iinclude -fsyntax-only "$MUSTER_BUILD/alone.cc" ||
            complain "$header does not compile alone as C++17"
    fi
done

# Exported = declared, and every name has the one symbol version.
if [ -f "$MUSTER_BUILD/libmuster.so" ]; then
    nm -D --defined-only "$MUSTER_BUILD/libmuster.so" | awk '{print $3}' |
        grep -E '^muster_' | sed 's/@.*//' | sort -u > "$MUSTER_BUILD/exported.txt"
    tools/exports > "$MUSTER_BUILD/declared.txt"
    difference=$(diff "$MUSTER_BUILD/exported.txt" "$MUSTER_BUILD/declared.txt" || true)
    [ -z "$difference" ] || complain "exported (<) and declared (>) names differ: $difference"
    version=$(tools/exports --version)
    unversioned=$(nm -D --defined-only --with-symbol-versions "$MUSTER_BUILD/libmuster.so" |
        awk '{print $3}' | grep -E '^muster_' | grep -vE "@@$version\$" || true)
    [ -z "$unversioned" ] || complain "exported without the version $version: $unversioned"
    other=$(nm -D --defined-only "$MUSTER_BUILD/libmuster.so" | awk '{print $3}' |
        grep -vE '^(muster_|MUSTER_[0-9.]+(@|$)|_init$|_fini$|__asan|__tsan|__ubsan|__odr|__sanitizer)' || true)
    [ -z "$other" ] || complain "libmuster.so exports foreign names: $other"
fi
exit $bad
