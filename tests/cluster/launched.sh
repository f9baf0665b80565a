# What holds under every launcher; sourced by the test of each after lib.sh. A
# test defines
#   launch N COMMAND..   start it N times, and end when all have
#   rank_variable        the variable that numbers a process
# `N processes of muster train` end at the model of `--local N-1`, by both
# engines; a killed process does not end the run; a parameter server likewise.

trains() {
    # shellcheck disable=SC2086
    launch 9 "$MUSTER_BIN" $job "$@" > "$work/out" 2> "$work/err.launch" ||
        fail "exit code $?: $(tail -n 5 "$work/err.launch")"
    same_theta "$work/out"
}

# A muster process of ours with this rank.
pid_of_rank() {
    local one
    for one in $(marked); do
        grep -qsz "^$rank_variable=$1\$" "/proc/$one/environ" && echo "$one"
    done
}

# kill_one RANK OPTIONS..: worker RANK - 1 dies in the middle of a run.
kill_one() {
    local rank=$1 launcher job="$job --steps 4000"
    shift
    local_theta 8
    rm -rf "$work/run"
    # shellcheck disable=SC2086
    launch 9 "$MUSTER_BIN" $job --run "$work/run" "$@" > "$work/out" 2> "$work/err.launch" &
    launcher=$!
    wait_until 30 has_lines "$work/run/metrics.jsonl" 20 ||
        fail "no step: $(cat "$work/err.launch")"
    kill -KILL "$(pid_of_rank "$rank")"
    wait "$launcher"
    says "$work/err.launch" "worker $((rank - 1)) is lost" ||
        fail "nobody was lost: $(cat "$work/err.launch")"
    same_theta "$work/out"
}

serves() {
    # shellcheck disable=SC2086
    launch 4 "$MUSTER_BIN" $ps_job "$@" > "$work/out" 2> "$work/err.launch" ||
        fail "exit code $?: $(tail -n 5 "$work/err.launch")"
    same_loss "$work/out"
}

# under LAUNCHER: all of them.
under() {
    local_theta 8
    it "$1 -n 9 ends at the model of --local 8" trains
    it "$1 -n 9 by UCX" by_ucx trains
    it "$1: a killed process" kill_one 5
    it "$1: a killed process, by UCX" by_ucx kill_one 3
    local_loss
    it "$1: a parameter server" serves
    it "$1: a parameter server by UCX" by_ucx serves
}
