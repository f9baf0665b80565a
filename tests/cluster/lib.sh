# Helpers of the cluster tests (tools/test-cluster); sourced. They use the
# helpers of the end-to-end tests, and add what needs root: network namespaces,
# daemons. Whatever a test starts, it ends.
unset MUSTER_RANK MUSTER_SIZE MUSTER_MASTER MUSTER_KEY_FILE
. "$(dirname "${BASH_SOURCE[0]}")/../e2e/lib.sh"
export E2E_MARK=$mark

# The job that all of them run, and the model it ends at. One of two workers
# with the same parts may be missing.
job="train --data synthetic:samples=2000,features=20,classes=3 --steps 60
    --batch 100 --code frc --stragglers 1 --json"
local_theta() { # local_theta WORKERS OPTIONS..
    # shellcheck disable=SC2086
    expect 0 $job --local "$@" && theta=$(value theta_norm < "$work/out")
}
same_theta() {
    close "$(value theta_norm < "$1")" "$theta" 1e-5 ||
        fail "theta $(value theta_norm < "$1"), not $theta"
}

# A parameter server's job whose result does not depend on the order of updates,
# since no two cells share a row or a column. Every row crosses the network:
# nothing moves, nothing is copied.
awk 'BEGIN { for (i = 0; i < 600; i++) print i, i * 197 % 600, 1 + i * 7 % 5 }' > "$work/cells"
ps_job="train --model mf:rank=4 --epochs 10 --data $work/cells --manage classic --json"
local_loss() {
    # shellcheck disable=SC2086
    expect 0 $ps_job && loss=$(value loss < "$work/out")
}
same_loss() {
    close "$(value loss < "$1")" "$loss" 1e-6 ||
        fail "loss $(value loss < "$1"), not $loss"
}

"$MUSTER_BIN" key > "$work/run.key"
by_ucx() { # by_ucx TEST OPTIONS..
    [ -e "$(dirname "$MUSTER_BIN")/muster-ucx.so" ] ||
        { reason="built without libucx-dev"; return 77; }
    "$@" --engine ucx
}

# it SENTENCE COMMAND..: one result line. Exit code 77 of the command: skipped,
# for the reason in $reason.
it() {
    local sentence=$1 before=$failures
    shift
    reason=""
    "$@"
    case $? in
    77) echo "skipped: $sentence: $reason" ;;
    *) [ "$failures" -eq "$before" ] && echo "ok: $sentence" || echo "FAILED: $sentence" ;;
    esac
}

# A port that is likely free.
port_of() { echo $((20000 + ($$ * 7 + $1 * 131) % 9000)); }
