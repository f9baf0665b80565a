#!/usr/bin/env bash
# Memory of a large model, in copies of it: at most 4 of the coordinator's own
# with adam (the model, the next one, two of the optimiser), at most 3 of a
# worker's (its message, and the one before while the coordinator reads it).
# What a process maps of another's memory counts for the other. `large_test.sh
# HIDDEN` does it for another size: 9500,9500 has 100 million parameters.
. "$(dirname "$0")/lib.sh"

! grep -q __asan_init "$MUSTER_BIN" && ! grep -q __tsan_init "$MUSTER_BIN" ||
    skip "a sanitizer keeps memory of its own"

hidden=${1:-2000,2000}
parameters=$(awk -v h="$hidden" 'BEGIN { split(h, w, ","); print 1001 * w[1] + (w[1] + 1) * w[2] + (w[2] + 1) * 10 }')
base_kb=32768 # program, BLAS, data, and one block of rows

# own_kb PID: memory that is the process's own: not files, not mapped for reading.
own_kb() {
    awk '/^[0-9a-f]+-[0-9a-f]+ / { own = $2 == "rw-s" || ($2 ~ /^rw.p/) }
         /^Rss:/ && own { sum += $2 } END { print sum + 0 }' "/proc/$1/smaps" 2> /dev/null
}

muster_in_background train --data synthetic:samples=400,features=1000,classes=10,test=0 \
    --model "mlp:hidden=$hidden" --optimizer adam --local 2 --code frc --stragglers 1 \
    --batch 64 --steps 12 --threads 1 --quiet
coordinator_kb=0 worker_kb=0 samples=0
while ! gone "$pid"; do
    for process in $(marked); do
        kb=$(own_kb "$process")
        [ -n "$kb" ] || continue
        samples=$((samples + 1))
        if [ "$process" = "$pid" ]; then
            [ "$kb" -le "$coordinator_kb" ] || coordinator_kb=$kb
        else
            [ "$kb" -le "$worker_kb" ] || worker_kb=$kb
        fi
    done
    sleep 0.02
done
wait_for "$pid"
[ "$code" -eq 0 ] || fail "exit code $code: $(tail -n 3 "$work/err.bg")"
[ "$samples" -ge 10 ] || fail "only $samples samples: the run was over too soon"

# Buffers are rounded up to a quarter of a power of two.
model_kb=$(awk -v p="$parameters" 'BEGIN {
    kb = p * 4 / 1024; for (unit = 1; unit * 8 < kb; unit *= 2);
    print int((kb + unit - 1) / unit) * unit }')
echo "$parameters parameters, $model_kb KB a copy: coordinator $coordinator_kb KB, workers $worker_kb KB at most"
[ "$coordinator_kb" -le $((4 * model_kb + base_kb)) ] || fail "the coordinator has more than 4 copies"
[ "$worker_kb" -le $((3 * model_kb + base_kb)) ] || fail "a worker has more than 3 copies"
[ "$coordinator_kb" -ge $((3 * model_kb)) ] || fail "the coordinator's memory was not seen"
finish
