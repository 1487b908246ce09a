#!/usr/bin/env bash
# crash-search.sh [BUILD-DIR] - the searches on the simulated disk, whole: a crash, an error, no memory
# at every call, where the tests take a sample. Takes many minutes. SEAM_SEED chooses what is left to
# chance; each program prints it. Exits 1 if anything was found.
set -uo pipefail
cd "$(dirname "$0")/.."
build=${1:-build/dev}
export SEAM_EVERY=1
failed=0
for program in sim_storedir sim_liar sim_vlog sim_even sim_seam sim_witness sim_rebuild sim_store; do
    [ -x "$build/test_$program" ] || {
        echo "$program: not built"
        continue
    }
    echo "== $program"
    arguments=()
    [ "$program" = sim_storedir ] || arguments=(vlog)
    "$build/test_$program" "${arguments[@]}" || failed=1
done
exit "$failed"
