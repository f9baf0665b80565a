#!/usr/bin/env bash
# The manual, docs/cli.md, ends with the help of every verb, as the program
# prints it. `MUSTER_BIN=.. tests/cli/manual_test.sh --update` writes it anew.
MUSTER_SOURCE=${MUSTER_SOURCE:-$(cd "$(dirname "$0")/../.." && pwd)}
. "$(dirname "$0")/lib.sh"
manual=$MUSTER_SOURCE/docs/cli.md

sed '/^## Verbs$/q' "$manual" > "$work/manual.md"
run --help
verbs=$(sed -n 's/^  \([a-z]*\) .*/\1/p' "$work/out")
[ -n "$verbs" ] || fail "the overview lists no verb"
for verb in $verbs; do
    run "$verb" --help
    {
        printf '\n### %s\n\n```text\n' "$verb"
        cat "$work/out"
        printf '```\n'
    } >> "$work/manual.md"
done
if [ "${1:-}" = --update ]; then
    cp "$work/manual.md" "$manual"
elif ! diff -u "$manual" "$work/manual.md"; then
    fail "docs/cli.md is not what the program says; run tests/cli/manual_test.sh --update"
fi
finish
