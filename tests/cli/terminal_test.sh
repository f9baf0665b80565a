#!/usr/bin/env bash
# On a terminal progress is one line that is rewritten and warnings are
# coloured, unless NO_COLOR is set; hostile text does not reach the terminal.
. "$(dirname "$0")/lib.sh"
command -v script > /dev/null || { echo "skipped: no script(1)"; exit 77; }

job="train --data synthetic:samples=2000,features=20,classes=3 --local 4 --code frc --stragglers 1
 --steps 40 --slow 0:20ms --slow 1:20ms --slow 2:20ms --slow 3:20ms --kill 3@5"
on_terminal() {
    timeout -k 5 60 script -qec "$MUSTER_BIN $(echo $job)" /dev/null > "$work/out" < /dev/null
}

unset NO_COLOR
on_terminal || fail "on a terminal: exit code $?"
grep -q $'\r\033\[Kstep ' "$work/out" || fail "no progress line is rewritten: $(cat -v "$work/out")"
grep -q $'\033\[33mwarning: \033\[0m' "$work/out" || fail "warnings are not coloured: $(cat -v "$work/out")"
NO_COLOR=1 on_terminal || fail "with NO_COLOR: exit code $?"
grep -q $'\033\[3' "$work/out" && fail "colour in spite of NO_COLOR"

# A progress line ends before the terminal does: one that wraps stays behind.
timeout -k 5 60 script -qec "stty cols 30; $MUSTER_BIN $(echo $job)" /dev/null > "$work/out" < /dev/null
longest=$(tr '\r' '\n' < "$work/out" | grep $'^\033\[Kstep ' | sed $'s/^\033\\[K//' |
    awk 'length > n { n = length } END { print n + 0 }')
[ "$longest" -gt 0 ] && [ "$longest" -le 29 ] ||
    fail "a progress line has $longest characters in 30 columns: $(cat -v "$work/out")"

export NO_COLOR=1
refuses 2 "'?[31mred?line' is not a verb; see \`muster --help\`" $'\033[31mred\nline'
refuses 2 "--a?b: unknown option of train; see \`muster train --help\`" train $'--a\033b'
refuses 2 "--data: not UTF-8, or with control characters" train --data $'a\033b'
finish
