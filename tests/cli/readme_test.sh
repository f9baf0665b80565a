#!/usr/bin/env bash
# What the README's commands write in a clone is no change of the clone.
: "${MUSTER_SOURCE:?set MUSTER_SOURCE to the sources}"
. "$(dirname "$0")/lib.sh"
cd "$MUSTER_SOURCE" || exit 1
git rev-parse --git-dir > /dev/null 2>&1 || { echo "skipped: not a clone"; exit 77; }

folders=$(grep -o -e '--run [^ ]*' README.md | sed 's/--run //' | sort -u)
[ -n "$folders" ] || fail "the README writes no run folder"
for folder in $folders; do
    git check-ignore -q "$folder/summary.json" || fail "README: git does not ignore --run $folder"
done
# A run key must never be committed by accident.
files=$(grep -o -e ' > [^ ]*' -e '--out [^ ]*' README.md | sed 's/^ > //; s/--out //' | sort -u)
case $files in *run.key*) ;; *) fail "the README makes no key: $files" ;; esac
for file in $files; do
    git check-ignore -q "$file" || fail "README: git does not ignore $file"
done
finish
