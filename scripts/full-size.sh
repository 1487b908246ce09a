#!/usr/bin/env bash
# full-size.sh [BUILD-DIR] - what the tests show in small, at the sizes that are claimed: 2 GiB of events
# through a journal that keeps 256 MiB, under 300 MiB of memory; a projection of a million events rebuilt,
# interrupted twice and read meanwhile, on each engine and on two at once. Takes about six minutes in a
# release build. Exits 1 if anything fails.
set -uo pipefail
cd "$(dirname "$0")/.."
build=${1:-build/release}
failed=0
run() { # program, arguments...
    local program=$1
    shift
    [ -x "$build/$program" ] || {
        echo "$program: not built in $build: cmake --build $build" >&2
        failed=1
        return
    }
    echo "== $program $*"
    "$build/$program" "$@" || failed=1
}
run test_trim_memory vlog 2048 256 300
for pair in "vlog same" "lmdb same" "rocksdb same" "vlog lmdb" "vlog rocksdb"; do
    # shellcheck disable=SC2086
    run test_rebuild $pair 1000000
done
exit "$failed"
