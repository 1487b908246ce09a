#!/usr/bin/env bash
# demo.sh - sets up, builds, and compares every engine on this machine with both corpora, within two
# minutes after the build. The tables go to stdout, the JSON to seam-bench-results/demo-PROFILE.json.
set -euo pipefail
cd "$(dirname "$0")/.."

scripts/deps.sh
echo "building the command; the log is build/release/build.log" >&2
cmake --preset release >/dev/null
cmake --build --preset release --target seam >build/release/build.log 2>&1 ||
    { tail -30 build/release/build.log >&2; exit 1; }

mkdir -p seam-bench-results
# Appends and rebuilds take messages of one size, whatever the profile: once is enough.
bench() { # profile, further arguments
    local profile=$1
    shift
    build/release/seam bench --quick --profile "$profile" --json "seam-bench-results/demo-$profile.json" "$@"
    echo
}
bench representative "$@"
bench stress --workloads load,merge,get,floor,units,limits "$@"
cat <<END
Full figures: seam-bench-results/demo-*.json   What the columns mean: docs/reading-the-numbers.md
Next: build/release/seam bench --dry-run        what a whole comparison takes
      build/release/seam bench --help           other workloads, engines and their variants
      README.md, "The library in 25 lines"      the same engines in a program of yours
END
