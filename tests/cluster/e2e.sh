#!/usr/bin/env bash
# The end-to-end tests of training and of the parameter server as they are, over
# tcp:127.0.0.1 with a run key and by UCX: a program named muster, in place of
# the real one, adds the options that say so. Workers and nodes that a run
# starts itself are then reached as those on other machines are.
. "$(dirname "$0")/lib.sh"
tests=$(cd "$(dirname "$0")/../e2e" && pwd)
export MUSTER_REAL=$MUSTER_BIN MUSTER_KEY_FILE=$work/run.key
export MUSTER_E2E_ENGINE MUSTER_E2E_COUNT=$work/count
mkdir "$work/over"
cat > "$work/over/muster" << 'PROGRAM'
#!/usr/bin/env bash
more=() tcp=0 here=0 placed=0 nodes=1 before=""
for one in "$@"; do
    case $one in
    --local) here=1 ;;
    --listen | --mesh | --topology) placed=1 ;;
    tcp:* | *.*.*.*:*) tcp=1 ;;
    esac
    [ "$before" = --nodes ] && nodes=$one
    before=$one
done
if [ "$1" = train ] && [ $placed = 0 ] && [ $here = 1 ]; then
    more=(--listen 127.0.0.1:0)
elif [ "$1" = train ] && [ $placed = 0 ] && [ "$nodes" -gt 1 ] 2> /dev/null; then
    more=(--mesh "tcp:127.0.0.1:$((10000 + ($$ * 64) % 20000))")
fi
[ ${#more[@]} = 0 ] || tcp=1
[ $tcp = 0 ] || [ -z "$MUSTER_E2E_ENGINE" ] || more+=(--engine "$MUSTER_E2E_ENGINE")
[ $tcp = 0 ] || echo "$@" >> "$MUSTER_E2E_COUNT"
exec "$MUSTER_REAL" "$@" "${more[@]}"
PROGRAM
chmod +x "$work/over/muster"

# passes TEST ENGINE
passes() {
    local code
    : > "$MUSTER_E2E_COUNT"
    MUSTER_BIN=$work/over/muster MUSTER_E2E_ENGINE=$2 timeout -k 5 200 \
        bash "$tests/$1_test.sh" > "$work/one" 2>&1
    code=$?
    [ $code -eq 0 ] || fail "e2e/$1 $2: exit code $code: $(grep -h FAIL "$work/one" || tail -n 5 "$work/one")"
    runs=$(wc -l < "$MUSTER_E2E_COUNT")
    [ "$runs" -gt 0 ] || fail "e2e/$1: no run over TCP"
}
by_engine() { passes "$1" "$3"; } # by_ucx adds --engine ucx

read -ra names <<< "${E2E_NAMES:-agree stragglers shuffle edges join resume ps ps_loss graph}"
for name in "${names[@]}"; do
    it "e2e/$name over TCP with a key" passes "$name" ""
    it "e2e/$name by UCX with a key" by_ucx by_engine "$name"
done
finish
