#!/usr/bin/env bash
# `muster bench X` runs muster-bench-X: beside the program, installed, or along
# PATH, in this order; its arguments and exit code pass through.
. "$(dirname "$0")/lib.sh"

# An installation of its own, so that what is built beside does not matter.
mkdir -p "$work/bin" "$work/libexec/muster" "$work/path"
cp "$MUSTER_BIN" "$work/bin/muster"
lib=$(dirname "$MUSTER_BIN")
export LD_LIBRARY_PATH="$lib${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}"
MUSTER_BIN=$work/bin/muster
bench() {
    printf '#!/bin/sh\necho "%s: $*"\nexit %s\n' "$2" "$3" > "$work/$1"
    chmod +x "$work/$1"
}
export PATH="$work/path:/usr/bin:/bin"

gives 0 "" "muster: no bench programs here; \`make\` builds them" bench
bench path/muster-bench-one "one along PATH" 0
bench libexec/muster/muster-bench-two "two installed" 7
bench path/muster-bench-two "two along PATH" 0
bench path/muster-bench-one-mpi "a peer that one runs" 0
touch "$work/path/muster-bench-dud"
gives 0 "one"$'\n'"two" "" bench
gives 0 "one along PATH: --json a b" "" bench one --json "a b"
gives 7 "two installed: " "" bench two
bench bin/muster-bench-two "two beside" 0
gives 0 "two beside: x" "" bench two x
refuses 2 "bench: there is no 'three'; \`muster bench\` lists what there is" bench three
refuses 2 "bench: there is no '../path/muster-bench-one'; \`muster bench\` lists what there is" bench ../path/muster-bench-one
finish
