#!/usr/bin/env bash
# What `cmake --install` puts in place can be used: the program runs, and a
# user's program builds against headers and library through pkg-config.
. "$(dirname "$0")/lib.sh"
: "${MUSTER_BUILD:?set MUSTER_BUILD to the build folder}"
prefix=$work/prefix
cmake --install "$MUSTER_BUILD" --prefix "$prefix" > "$work/log" 2>&1 ||
    fail "cmake --install: $(tail -n 2 "$work/log")"
"$prefix/bin/muster" version > "$work/out" 2>&1 || fail "the installed program: $(cat "$work/out")"

# The module of an engine is found from the installed library, and from an
# installed bench program. Without mpirun, since that takes longer than we do.
module=$(find "$prefix" -name muster-ucx.so)
bench=$prefix/libexec/muster/muster-bench-star
if [ -n "$module" ]; then
    timeout 20 "$prefix/bin/muster" join 127.0.0.1:1 --engine ucx --patience 10ms 2> "$work/err"
    grep -q 'cannot be loaded' "$work/err" && fail "the installed library: $(cat "$work/err")"
    grep -q '127.0.0.1:1' "$work/err" || fail "the installed program: $(cat "$work/err")"
fi
if [ -n "$module" ] && [ -x "$bench" ]; then
    PATH=$work "$prefix/bin/muster" bench star --workers 2 --sizes 1e4 --engine ucx > "$work/out" 2>&1 ||
        fail "the installed bench program: $(cat "$work/out")"
    grep -q '^ucx  *[0-9.]' "$work/out" || fail "no rate of UCX: $(cat "$work/out")"
    grep -q '^Open MPI  *not measured: ' "$work/out" || fail "Open MPI: $(cat "$work/out")"
    mv "$module" "$module.gone"
    PATH=$work "$prefix/bin/muster" bench star --workers 2 --sizes 1e4 --engine ucx > "$work/out" 2>&1 &&
        fail "a bench program without the module: $(cat "$work/out")"
    grep -q 'engine ucx cannot be loaded' "$work/out" || fail "not told: $(cat "$work/out")"
fi

# The bench programs, where they are built, are found by the installed program.
# Here they need not run: a build folder is configured and stand-ins put into it.
side=$work/side
{
    cmake -S "$MUSTER_SOURCE" -B "$side" -G Ninja -DMUSTER_BENCH=ON &&
        cd "$side" && ninja -t targets all | sed -n 's/^\(muster-bench-[a-z-]*\): .*/\1/p' > "$work/names"
} > "$work/log" 2>&1 || fail "cmake: $(tail -n 2 "$work/log")"
[ -s "$work/names" ] || fail "there is no bench program"
while read -r name; do
    printf '#!/bin/sh\necho "%s $*"\n' "$name" > "$side/$name"
    chmod +x "$side/$name"
done < "$work/names"
cmake --install "$side" --component bench --prefix "$prefix" > "$work/log" 2>&1 ||
    fail "cmake --install of the bench programs: $(tail -n 2 "$work/log")"
MUSTER_BIN=$prefix/bin/muster
names=$(sed 's/^muster-bench-//' "$work/names" | grep -v -e '-mpi$' | LC_ALL=C sort)
PATH=/usr/bin:/bin gives 0 "$names" "" bench
PATH=/usr/bin:/bin gives 0 "muster-bench-code --json" "" bench code --json

cat > "$work/mine.c" << 'EOF'
#include <muster/code.h>
#include <stdio.h>
int main(void)
{
    muster_code_opts opts = MUSTER_CODE_OPTS_INIT;
    muster_code *code;
    opts.name = "frc";
    opts.workers = 6;
    opts.stragglers = 1;
    if (muster_code_create(&opts, NULL, &code) != MUSTER_OK) {
        return 1;
    }
    muster_code_info info = MUSTER_CODE_INFO_INIT;
    if (muster_code_describe(code, &info) != MUSTER_OK) {
        return 1;
    }
    printf("%u\n", info.parts);
    muster_code_free(code);
    return 0;
}
EOF
pc=$(dirname "$(find "$prefix" -name muster.pc)")
lib=$(dirname "$(find "$prefix" -name libmuster.so)")
# A sanitized library asks for its runtime first: build the program likewise.
flags=$(grep -o '^MUSTER_SANITIZE:STRING=..*' "$MUSTER_BUILD/CMakeCache.txt" | sed 's/.*=/-fsanitize=/')
# shellcheck disable=SC2046,SC2086
PKG_CONFIG_PATH=$pc cc $flags "$work/mine.c" -o "$work/mine" $(PKG_CONFIG_PATH=$pc pkg-config --cflags --libs muster) ||
    fail "a program does not build against the installed library"
[ "$(LD_LIBRARY_PATH=$lib "$work/mine")" = 6 ] || fail "the user's program does not run"
finish
