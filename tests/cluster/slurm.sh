#!/usr/bin/env bash
# Slurm with four nodes on this machine as the launcher: see launched.sh. The
# batch script of docs/cluster.md runs, and again.
# The nodes' names are known in a mount namespace of the test's own.
if [ "$(id -u)" -eq 0 ] && [ -z "${MUSTER_SLURM_INSIDE:-}" ]; then
    MUSTER_SLURM_INSIDE=1 exec unshare -m bash "$0"
fi
. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/launched.sh"
for tool in slurmctld slurmd srun munged; do
    command -v $tool > /dev/null || skip "$tool is not installed"
done
[ "$(id -u)" -eq 0 ] || skip "needs root"
export MUSTER_KEY_FILE=$work/run.key
dir=$work/slurm
host=$(hostname -s)
mkdir -p "$dir"/state "$dir"/{spool,tmp}.n{1,2,3,4} "$dir/munge"

write_config() {
    cat > "$dir/slurm.conf" << CONFIG
ClusterName=muster
SlurmctldHost=$host(127.0.0.1)
SlurmctldPort=$(port_of 1)
SlurmUser=root
SlurmdUser=root
AuthType=auth/munge
AuthInfo=socket=$dir/munge/socket
CryptoType=crypto/munge
StateSaveLocation=$dir/state
SlurmdSpoolDir=$dir/spool.%n
SlurmctldPidFile=$dir/slurmctld.pid
SlurmdPidFile=$dir/slurmd.%n.pid
SlurmctldLogFile=$dir/slurmctld.log
SlurmdLogFile=$dir/slurmd.%n.log
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SchedulerType=sched/backfill
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
ReturnToService=2
MpiDefault=none
SlurmdParameters=config_overrides
JobAcctGatherType=jobacct_gather/none
AccountingStorageType=accounting_storage/none
NodeName=n[1-4] NodeHostname=$host NodeAddr=127.0.0.1 Port=[$(port_of 2)-$(($(port_of 2) + 3))] CPUs=4 RealMemory=1000 State=UNKNOWN
PartitionName=debug Nodes=n[1-4] Default=YES MaxTime=INFINITE State=UP OverSubscribe=YES
TmpFS=$dir/tmp.%n
CONFIG
}

# Nodes are up and idle.
usable() { [ "$(sinfo -h -o %T 2> /dev/null)" = idle ]; }

no_jobs() { [ -z "$(squeue -h -o %A 2> /dev/null)" ]; }

# Jobs first: their steps would outlive the daemons.
stop_slurm() {
    local file
    squeue -h -o %A 2> /dev/null | xargs -r scancel 2> /dev/null
    wait_until 10 no_jobs
    for file in "$dir"/slurmd.n*.pid "$dir/slurmctld.pid" "$dir/munge/pid"; do
        [ -s "$file" ] && kill "$(cat "$file")" 2> /dev/null
    done
    for file in "$dir"/slurmd.n*.pid "$dir/slurmctld.pid" "$dir/munge/pid"; do
        [ ! -s "$file" ] || wait_until 10 gone "$(cat "$file")"
    done
    cleanup
}
trap stop_slurm EXIT

# A munged of our own, with a key of its own: another one may run here.
start_slurm() {
    local i
    { cat /etc/hosts; printf '127.0.0.%s n%s\n' 1 1 2 2 3 3 4 4; } > "$dir/hosts"
    mount --bind "$dir/hosts" /etc/hosts || { reason="cannot name the nodes"; return 1; }
    dd if=/dev/urandom of="$dir/munge/key" bs=128 count=1 2> /dev/null
    chmod 0711 "$work" "$dir"
    chmod 600 "$dir/munge/key"
    munged --force --socket="$dir/munge/socket" --key-file="$dir/munge/key" \
        --pid-file="$dir/munge/pid" --log-file="$dir/munge/log" \
        --seed-file="$dir/munge/seed" 2> "$dir/munge/err" ||
        { reason="munged: $(cat "$dir/munge/err")"; return 1; }
    write_config
    export SLURM_CONF=$dir/slurm.conf
    reason="its daemons"
    slurmctld -f "$SLURM_CONF" || return 1
    for i in 1 2 3 4; do
        slurmd -N n$i -f "$SLURM_CONF" || return 1
    done
    wait_until 30 usable || { reason="$(sinfo 2>&1) $(tail -n 5 "$dir"/*.log)"; return 1; }
}

rank_variable=SLURM_PROCID
launch() { timeout -k 5 "$limit" srun -K0 -N4 -n "$@"; }

# The script of docs/cluster.md, with our program and data, to so many steps.
batch() {
    sed -n '/^### Slurm/,/^### /{/^```sh/,/^```$/p}' "$(dirname "$0")/../../docs/cluster.md" |
        grep -v '^```' | sed "s|\$HOME/run.key|$work/run.key|; s|\$HOME/runs/mnist|$work/batch|
            s|\$HOME/mnist|synthetic:samples=500,features=5,classes=2|
            s|muster train|$MUSTER_BIN train|; s|--steps 2000|--steps $1|" > "$work/batch.sh"
    grep -q "steps $1 --resume-or-start" "$work/batch.sh" || fail "no script in docs/cluster.md"
    timeout "$limit" sbatch --wait -o "$work/batch.out" "$work/batch.sh" > /dev/null ||
        fail "exit code $?: $(cat "$work/batch.out")"
    has_lines "$work/batch/metrics.jsonl" "$1" || fail "not $1 steps"
}

starts_and_goes_on() {
    batch 20
    batch 40
}

start_slurm || skip "Slurm does not start here: $(tr '\n' ' ' <<< "$reason")"
under "srun -N4"
it "sbatch: the script of docs/cluster.md starts, and goes on" starts_and_goes_on
finish
