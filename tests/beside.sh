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

# of_session SESSION: its processes that have not ended, and who is about to begin it. A container's first process may leave those that have
# ended where they are.
of_session() {
    local pid rest state session
    for pid in /proc/[0-9]*; do
        { rest=$(< "$pid/stat"); } 2> /dev/null || continue
        pid=${pid#/proc/}
        read -r state _ _ session _ <<< "${rest##*) }"
        if [ "$state" != Z ] && { [ "$session" = "$1" ] || [ "$pid" = "$1" ]; }; then echo "$pid"; fi
    done
}

case $1 in
begin)
    rm -rf "$dir"
    mkdir -p "$dir"
    ;;
as)
    # In the background, with its turn: where its output lies, and the program.
    log=$2 status=0
    shift 2
    "$@" >> "$log.out" 2>&1 < /dev/null || status=$?
    echo "$status" > "$log.ended"
    mv "$log.ended" "$log.status"
    ;;
join)
    failed=0
    for pid in "$dir"/*.pid; do
        [ -e "$pid" ] || break
        log=${pid%.pid}
        while [ ! -e "$log.status" ] && [ -n "$(of_session "$(cat "$pid")")" ]; do sleep 0.5; done
        echo
        echo "     Running $(basename "$log"), beside the others"
        cat "$log.out" 2> /dev/null || true
        status=$(cat "$log.status" 2> /dev/null || echo "no status: it was ended")
        # What follows begins a line, whatever it said last.
        [ -z "$(tail -c 1 "$log.out" 2> /dev/null)" ] || echo
        [ "$status" = 0 ] || { failed=1; echo "error: $(basename "$log") failed ($status)"; }
    done
    exit $failed
    ;;
stop)
    for pid in "$dir"/*.pid; do
        [ -e "$pid" ] && [ ! -e "${pid%.pid}.status" ] || continue
        # Again for what was being started meanwhile, and what takes its time.
        for _ in {1..50}; do
            left=$(of_session "$(cat "$pid")")
            [ -n "$left" ] || break
            # Tests stop what they started, too: it would not hear. What has ended since is no failure.
            kill $left 2> /dev/null || true
            kill -CONT $left 2> /dev/null || true
            sleep 0.1
        done
    done
    ;;
*)
    program=$(basename "$1")
    # A shell has its background ignore interrupts, and what that starts would, too. Without the lock's descriptor, which something that
    # the program leaves behind would keep.
    beside=(env --default-signal=INT,QUIT setsid flock --close)
    if [[ " $BESIDE " != *" ${program%-*} "* ]] || ! "${beside[@]}" "$dir/probe" true 2> /dev/null; then
        exec "$@"
    fi
    echo "beside the others; what it says follows at the end"
    "${beside[@]}" "$dir/turn" "$0" as "$dir/$program" "$@" > "$dir/$program.out" 2>&1 < /dev/null &
    echo $! > "$dir/$program.pid"
    ;;
esac
