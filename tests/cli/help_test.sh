#!/usr/bin/env bash
# Help goes to stdout with an example, for every verb that the overview lists;
# verbs are found, or one is suggested.
. "$(dirname "$0")/lib.sh"

run --help
[ "$code" -eq 0 ] && [ ! -s "$work/err" ] || fail "muster --help: exit code $code"
cp "$work/out" "$work/overview"
head -n 1 "$work/overview" | grep -qx 'usage: muster VERB \[options\]' || fail "the overview has no usage line"
verbs=$(sed -n 's/^  \([a-z]*\) .*/\1/p' "$work/overview")
for verb in train join predict bench version; do
    echo "$verbs" | grep -qx "$verb" || fail "the overview does not list $verb"
done
for verb in $verbs; do
    run "$verb" --help
    [ "$code" -eq 0 ] || fail "muster $verb --help: exit code $code"
    [ ! -s "$work/err" ] || fail "muster $verb --help writes to stderr"
    head -n 1 "$work/out" | grep -q "^usage: muster $verb" || fail "muster $verb --help: no usage line"
    sed -n '/^Example:$/,/^$/p' "$work/out" | sed '1d; s/^  //' > "$work/example_$verb"
    grep -q "^muster $verb" "$work/example_$verb" || fail "muster $verb --help: no example"
    awk 'length > 80 { exit 1 }' "$work/out" || fail "muster $verb --help: wider than 80 columns"
    [ "$(tr -cd '[' < "$work/out" | wc -c)" -eq "$(tr -cd ']' < "$work/out" | wc -c)" ] ||
        fail "muster $verb --help: a default is cut off"
done
# The examples work as they stand, one after the other: predict uses what train
# wrote. join needs another machine; the programs of bench may not be built.
awk 'BEGIN { for (i = 0; i < 900; i++) printf "king %s ", i % 3 ? "queen" : "castle" }' > "$work/text.txt"
for verb in $verbs; do
    case $verb in join | bench) continue ;; esac
    (
        cd "$work" || exit 1
        muster() { timeout -k 5 60 "$MUSTER_BIN" "$@"; }
        set -e
        . "./example_$verb"
    ) > "$work/out" 2> "$work/err" < /dev/null ||
        fail "the example of muster $verb: exit code $?: $(tail -n 2 "$work/err")"
done
run train --steps nonsense -h
[ "$code" -eq 0 ] || fail "-h after a wrong option: exit code $code"

# `muster help VERB` is `muster VERB --help`.
for verb in $verbs; do
    run "$verb" --help
    cp "$work/out" "$work/flag"
    run help "$verb"
    [ "$code" -eq 0 ] && [ ! -s "$work/err" ] && cmp -s "$work/out" "$work/flag" ||
        fail "muster help $verb: not what muster $verb --help prints"
done
for words in help "help help" "help --help" "--help"; do
    # shellcheck disable=SC2086
    run $words
    [ "$code" -eq 0 ] && cmp -s "$work/out" "$work/overview" || fail "muster $words: not the overview"
done
refuses 2 "'trian' is not a verb; did you mean 'train'?" help trian
refuses 2 "'dance' is not a verb; see \`muster --help\`" help dance

# What an option means to another verb is not said.
run predict --help
grep -q '^  --out FILE              write one predicted line' "$work/out" || fail "predict --help: --out"
! grep -q 'join:\|partition:' "$work/out" || fail "predict --help speaks of other verbs"
for verb in train simulate; do
    run "$verb" --help
    ! grep -q 'partition: \|or none, where' "$work/out" || fail "$verb --help offers --target none"
    tr -s ' \n' ' ' < "$work/out" | grep -q "such as an embedding in an .npy file; $verb: needs --placement submodular " ||
        fail "$verb --help does not say what --features needs"
done
run partition --help
tr -s ' \n' ' ' < "$work/out" | grep -q 'partition: or none, where the data has no labels' ||
    fail "partition --help does not offer --target none"
! grep -q 'needs --placement' "$work/out" || fail "partition --help speaks of --placement"
run join --help
grep -q 'where this machine has the data' "$work/out" || fail "join --help does not say what --data is to it"

# The programs of bench that are built here; -mpi is a peer that star runs.
for program in "$(dirname "$MUSTER_BIN")"/muster-bench-*; do
    name=${program##*/muster-bench-}
    case $name in *-mpi | '*') continue ;; esac
    run bench "$name" --help
    [ "$code" -eq 0 ] && grep -q "^usage: muster bench $name" "$work/out" ||
        fail "muster bench $name --help: exit code $code"
    run bench "$name" --nonsense
    [ "$code" -eq 2 ] && grep -q -- '^muster: bench: .*--nonsense$' "$work/err" ||
        fail "muster bench $name --nonsense: exit code $code: $(cat "$work/err")"
done

# Without a verb the overview goes to stderr: something was forgotten.
run
[ "$code" -eq 2 ] && [ ! -s "$work/out" ] && cmp -s "$work/err" "$work/overview" ||
    fail "muster without a verb: exit code $code"

refuses 2 "'trian' is not a verb; did you mean 'train'?" trian
refuses 2 "'versoin' is not a verb; did you mean 'version'?" versoin
refuses 2 "'dance' is not a verb; see \`muster --help\`" dance
refuses 2 "'' is not a verb; see \`muster --help\`" ""

version=$(sed -n 's/^#define MUSTER_VERSION *"\(.*\)"/\1/p' "$MUSTER_SOURCE/include/muster/version.h")
gives 0 "muster $version (protocol 3)" "" version
gives 0 "muster $version (protocol 3)" "" --version
gives 0 "{\"version\": \"$version\", \"protocol\": 3}" "" version --json
refuses 2 "version: unknown argument 'x'" version x
"$MUSTER_BIN" version > /dev/full 2> "$work/err"
[ $? -eq 1 ] || fail "a full stdout is not noticed"
same err "muster: stdout: No space left on device" "muster version > /dev/full"
finish
