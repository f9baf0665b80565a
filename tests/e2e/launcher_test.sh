#!/usr/bin/env bash
# One command line for every process: `muster launch`, and the variables that
# srun, mpirun, mpiexec, torchrun and an indexed job set, by hand. Training ends
# at the model of a local run; a process that is not required may die; a job
# that is queued again goes on.
. "$(dirname "$0")/lib.sh"
unset MUSTER_RANK MUSTER_SIZE MUSTER_MASTER MUSTER_KEY_FILE
export E2E_MARK=$mark
job="train --data synthetic:samples=2000,features=20,classes=3 --steps 60 --batch 100
    --code frc --stragglers 1 --json"
# shellcheck disable=SC2086
expect 0 $job --local 4 && theta=$(value theta_norm < "$work/out")
same_theta() { close "$(value theta_norm < "$1")" "$theta" 1e-5; }

# muster launch -------------------------------------------------------------

# shellcheck disable=SC2086
expect 0 launch --local 5 -- "$MUSTER_BIN" $job
same_theta "$work/out" || fail "launch: another model: $(head -c 300 "$work/out")"
says "$work/err" '^\[3\] joined 127.0.0.1:[0-9]* as worker 2 of 4' ||
    fail "launch: output is not labelled: $(cat "$work/err")"
expect 0 launch --local 2 -- "$MUSTER_BIN" train --model mf:rank=2 --epochs 2 \
    --data zipf:rows=40,cols=20,cells=300 --mesh "$(mktemp -d "$work/mesh-XXXX")"
# shellcheck disable=SC2016
expect 0 launch --local 3 -- sh -c \
    'echo "$MUSTER_RANK of $MUSTER_SIZE at $MUSTER_MASTER"; test -r "$MUSTER_KEY_FILE"'
[ "$(grep -c '^\[[0-2]\] [0-2] of 3 at 127.0.0.1:[0-9]*$' "$work/out")" -eq 3 ] ||
    fail "launch: the variables: $(cat "$work/out")"
# shellcheck disable=SC2016
expect 7 launch --local 3 -- sh -c '[ $MUSTER_RANK -ne 1 ] || exit 7; exec sleep 600'
# shellcheck disable=SC2016
expect 0 launch --local 3 --required 1 -- sh -c '[ $MUSTER_RANK -ne 1 ] || exit 7'
says "$work/err" 'process 1 ended with exit code 7' || fail "launch: $(cat "$work/err")"
expect 127 launch --local 2 -- no-such-program-here
expect 2 launch --local 0 -- true
expect 2 launch --local 3
"$MUSTER_BIN" launch --local 2 -- sh -c 'trap "echo told; exit 0" TERM; echo ready
    while :; do sleep 0.05; done' > "$work/out.sig" 2> "$work/err.sig" &
pid=$!
wait_until 20 has_lines "$work/out.sig" 2 || fail "launch: nothing started"
kill -TERM "$pid"
wait_for "$pid"
[ "$(grep -c told "$work/out.sig")" -eq 2 ] || fail "a signal was not passed on"
[ -z "$(ls -A "$XDG_RUNTIME_DIR")" ] || fail "left: $(ls "$XDG_RUNTIME_DIR")"

# The variables of launchers ------------------------------------------------

"$MUSTER_BIN" key > "$work/run.key"
export MUSTER_KEY_FILE=$work/run.key

# together VARIABLES..: five processes; %r in a value is the number.
together() {
    local rank pids=() one
    for rank in 0 1 2 3 4; do
        # shellcheck disable=SC2086
        env "${@//%r/$rank}" timeout "$limit" "$MUSTER_BIN" $job \
            > "$work/out.$rank" 2> "$work/err.r$rank" &
        pids+=($!)
    done
    for one in "${pids[@]}"; do
        wait "$one" || fail "$1: exit code $?: $(cat "$work"/err.r*)"
    done
    same_theta "$work/out.0" || fail "$1: another model"
}
number=$((10000 + $$ % 10000))
together SLURM_STEP_ID=0 SLURM_PROCID=%r SLURM_STEP_NUM_TASKS=5 SLURM_JOB_ID=$number \
    SLURM_STEP_NODELIST=127.0.0.1 SLURM_STEP_TASKS_PER_NODE=5
together OMPI_COMM_WORLD_RANK=%r OMPI_COMM_WORLD_SIZE=5 OMPI_COMM_WORLD_LOCAL_SIZE=5 \
    PMIX_NAMESPACE=$number
together RANK=%r WORLD_SIZE=5 MASTER_ADDR=127.0.0.1 MASTER_PORT=$number
together JOB_COMPLETION_INDEX=%r MUSTER_SIZE=5 MUSTER_MASTER=127.0.0.1:$((number + 9))

# With edges: the coordinator, two edges, four workers.
job="$job --topology 2x2 --code hier:se=0,sw=1 --stragglers 0"
# shellcheck disable=SC2086
expect 0 launch --local 7 -- "$MUSTER_BIN" $job
same_theta "$work/out" || fail "edges: another model: $(head -c 300 "$work/out")"
says "$work/err" '^\[2\] joined 127.0.0.1:[0-9]* as edge 1 of 2' ||
    fail "edges: process 2 is no edge: $(cat "$work/err")"
# shellcheck disable=SC2086
MUSTER_RANK=3 MUSTER_SIZE=6 MUSTER_MASTER=127.0.0.1:7700 expect 2 $job
says "$work/err" "start 7 processes, not 6" || fail "edges: $(cat "$work/err")"
# shellcheck disable=SC2086
MUSTER_RANK=3 MUSTER_SIZE=7 MUSTER_MASTER=10.0.0.1:7700 expect 2 $job
says "$work/err" "on which hosts the edges are" || fail "edges: $(cat "$work/err")"
job=${job% --topology*}

# What is missing is named.
PMI_RANK=0 PMI_SIZE=5 expect 2 $job
says "$work/err" "MUSTER_MASTER=HOST:PORT" || fail "no host: $(cat "$work/err")"
JOB_COMPLETION_INDEX=1 expect 2 $job
says "$work/err" "MUSTER_SIZE" || fail "no size: $(cat "$work/err")"
MUSTER_RANK=x MUSTER_SIZE=4 expect 2 $job
says "$work/err" "MUSTER_RANK=x" || fail "a bad rank: $(cat "$work/err")"
# Options that say where the workers are win; a batch script is no step.
# shellcheck disable=SC2086
MUSTER_RANK=3 MUSTER_SIZE=9 expect 0 $job --local 4
SLURM_PROCID=0 SLURM_NTASKS=9 SLURM_JOB_ID=1 expect 0 $job
# The nodes of a sparse task.
for rank in 0 1; do
    env SLURM_STEP_ID=1 SLURM_PROCID=$rank SLURM_STEP_NUM_TASKS=2 SLURM_JOB_ID=$number \
        SLURM_STEP_NODELIST='127.0.0.[1-2]' SLURM_STEP_TASKS_PER_NODE='1(x2)' \
        timeout "$limit" "$MUSTER_BIN" train --model mf:rank=2 --epochs 2 \
        --data zipf:rows=40,cols=20,cells=300 2> "$work/err.n$rank" > "$work/out.n$rank" &
    nodes[rank]=$!
done
for rank in 0 1; do
    wait "${nodes[$rank]}" || fail "node $rank: exit code $?: $(cat "$work/err.n$rank")"
done

# A job that is queued again ------------------------------------------------

run="train --data synthetic:samples=500,features=5,classes=2 --local 2 --steps 20
    --resume-or-start $work/again"
# shellcheck disable=SC2086
expect 0 $run --steps 10 --checkpoint-every 5
# shellcheck disable=SC2086
expect 0 $run --steps 20
has_lines "$work/again/metrics.jsonl" 20 || fail "--resume-or-start did not go on"
# shellcheck disable=SC2086
expect 2 $run --run "$work/elsewhere"
wait_until 10 none_left || fail "left running: $(marked)"
finish
