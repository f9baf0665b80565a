#!/usr/bin/env bash
# A task of one's own against the public headers: examples/ps_bias.c finds the
# truth alone, and on two nodes whose workers say ahead what they will use.
. "$(dirname "$0")/lib.sh"
: "${MUSTER_BUILD:?set MUSTER_BUILD to the build folder}"

for nodes in 1 2; do
    timeout "$limit" "$MUSTER_BUILD/example_ps_bias" "$nodes" \
        > "$work/out" 2>&1 ||
        fail "example_ps_bias $nodes: $(cat "$work/out")"
    grep -q "mean squared error" "$work/out" || fail "no fit was printed"
done
finish
