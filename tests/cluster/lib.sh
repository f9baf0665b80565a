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
local_theta() {
    # shellcheck disable=SC2086
    expect 0 $job --local "$1" && theta=$(value theta_norm < "$work/out")
}
same_theta() { close "$(value theta_norm < "$1")" "$theta" 1e-5; }

"$MUSTER_BIN" key > "$work/run.key"
has_ucx() { [ -e "$(dirname "$MUSTER_BIN")/muster-ucx.so" ]; }

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
