#!/usr/bin/env bash
# `mpirun -n 9 muster train` ends at the model of `--local 8`, by both engines;
# a killed process does not end the run; a parameter server likewise.
. "$(dirname "$0")/lib.sh"
command -v mpirun.openmpi > /dev/null || skip "Open MPI is not installed"
local_theta 8
export MUSTER_KEY_FILE=$work/run.key
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
export TMPDIR=$work
mpi() {
    timeout -k 5 "$limit" mpirun.openmpi --oversubscribe --enable-recovery \
        --mca btl self,tcp -x E2E_MARK -x MUSTER_KEY_FILE "$@"
}

trains() {
    # shellcheck disable=SC2086
    mpi -n 9 "$MUSTER_BIN" $job "$@" > "$work/out" 2> "$work/err.mpi" ||
        fail "exit code $?: $(tail -n 5 "$work/err.mpi")"
    same_theta "$work/out" || fail "theta $(value theta_norm < "$work/out"), not $theta"
}

by_ucx() {
    has_ucx || { reason="built without libucx-dev"; return 77; }
    "$@" --engine ucx
}

# A muster process of ours with this rank.
pid_of_rank() {
    local one
    for one in $(marked); do
        grep -qsz "^OMPI_COMM_WORLD_RANK=$1\$" "/proc/$one/environ" && echo "$one"
    done
}

survives_a_kill() {
    # shellcheck disable=SC2086
    expect 0 $job --steps 4000 --local 8 && theta=$(value theta_norm < "$work/out")
    # shellcheck disable=SC2086
    mpi -n 9 "$MUSTER_BIN" $job --steps 4000 --run "$work/run" > "$work/out" 2> "$work/err.mpi" &
    local launcher=$!
    wait_until 30 has_lines "$work/run/metrics.jsonl" 20 || fail "no step: $(cat "$work/err.mpi")"
    kill -KILL $(pid_of_rank 3)
    wait "$launcher"
    says "$work/err.mpi" "worker 2 is lost" || fail "nobody was lost: $(cat "$work/err.mpi")"
    same_theta "$work/out" || fail "theta $(value theta_norm < "$work/out"), not $theta"
}

serves() {
    mpi -n 3 "$MUSTER_BIN" train --model mf:rank=4 --epochs 3 --json \
        --data zipf:rows=300,cols=60,cells=3000 > "$work/out" 2> "$work/err.mpi" ||
        fail "exit code $?: $(tail -n 5 "$work/err.mpi")"
    says "$work/out" '"loss"' || fail "no result"
}

it "mpirun -n 9 ends at the model of --local 8" trains
it "mpirun -n 9 by UCX" by_ucx trains
it "mpirun: a killed process" survives_a_kill
it "mpirun: a parameter server" serves
wait_until 20 none_left || fail "left running: $(marked)"
finish
