#!/usr/bin/env bash
# Open MPI as the launcher: see launched.sh.
. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/launched.sh"
command -v mpirun.openmpi > /dev/null || skip "Open MPI is not installed"
export MUSTER_KEY_FILE=$work/run.key
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
export TMPDIR=$work
rank_variable=OMPI_COMM_WORLD_RANK
launch() {
    timeout -k 5 "$limit" mpirun.openmpi --oversubscribe --enable-recovery \
        --mca btl self,tcp -x E2E_MARK -x MUSTER_KEY_FILE -n "$@"
}

under mpirun
wait_until 20 none_left || fail "left running: $(marked)"
finish
