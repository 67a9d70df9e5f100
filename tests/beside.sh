#!/usr/bin/env bash
# Runs a test program for cargo, which has this as its `runner`. Programs that are named in BESIDE mostly wait: they run in the background,
# one at a time, while cargo goes on with the others.
#
#   beside.sh begin      forgets what was there before
#   beside.sh PROGRAM... runs it, now or beside the others
#   beside.sh join       waits for all that run beside the others, writes what they said, and fails if one did
#   beside.sh stop       ends them
#
# BESIDE_DIR is where their outputs lie.
set -euo pipefail
dir=$BESIDE_DIR

case $1 in
begin)
    rm -rf "$dir"
    mkdir -p "$dir"
    ;;
as)
    # In the background, with its turn: where its output lies, and the program.
    log=$2 status=0
    shift 2
    "$@" > "$log.out" 2>&1 < /dev/null || status=$?
    echo "$status" > "$log.status"
    ;;
join)
    failed=0
    for pid in "$dir"/*.pid; do
        [ -e "$pid" ] || break
        log=${pid%.pid}
        while [ ! -e "$log.status" ] && kill -0 "$(cat "$pid")" 2> /dev/null; do sleep 0.2; done
        echo
        echo "     Running $(basename "$log"), beside the others"
        cat "$log.out" 2> /dev/null || true
        status=$(cat "$log.status" 2> /dev/null || echo "no status: it was ended")
        [ "$status" = 0 ] || { failed=1; echo "error: $(basename "$log") failed ($status)"; }
    done
    exit $failed
    ;;
stop)
    for pid in "$dir"/*.pid; do
        [ -e "$pid" ] && [ ! -e "${pid%.pid}.status" ] || continue
        # It is the leader of a group with all that it started.
        kill -- "-$(cat "$pid")" 2> /dev/null || true
    done
    ;;
*)
    program=$(basename "$1")
    if [[ " $BESIDE " != *" ${program%-*} "* ]] || ! command -v flock > /dev/null; then
        exec "$@"
    fi
    echo "beside the others; what it says follows at the end"
    # Without the lock's descriptor, which something that the program leaves behind would keep.
    setsid flock --close "$dir/turn" "$0" as "$dir/$program" "$@" > /dev/null 2>&1 < /dev/null &
    echo $! > "$dir/$program.pid"
    ;;
esac
