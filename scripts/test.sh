#!/usr/bin/env bash
# test.sh - sets up and runs every test: gcc plain, ASan+UBSan, TSan, then a clang build that must
# not warn and the short tests under it. Takes under 20 minutes on two cores.
#   scripts/test.sh [dev|asan|tsan|clang|release]...   only these
# SEAM_ALL_TESTS=ON: also what tests/left_out.cmake leaves out under a sanitizer; takes half as long again.
set -euo pipefail
cd "$(dirname "$0")/.."

scripts/deps.sh
steps=("$@")
[ ${#steps[@]} -gt 0 ] || steps=(dev asan tsan clang)

build() { # preset, build directory, extra configure arguments
    local preset=$1 dir=$2
    shift 2
    cmake --preset "$preset" -B "$dir" -DSEAM_ALL_TESTS="${SEAM_ALL_TESTS:-OFF}" "$@" >/dev/null
    if ! cmake --build "$dir" -j "$(nproc)" >"$dir/build.log" 2>&1; then
        grep -E -A5 'error|warning|\*\*\*' "$dir/build.log" | head -60
        echo "test.sh: the build failed; all of it is in $dir/build.log" >&2
        exit 1
    fi
    if grep -q 'warning:' "$dir/build.log"; then
        grep -A3 'warning:' "$dir/build.log" | head -40
        echo "test.sh: the build warns" >&2
        exit 1
    fi
}

# Twice as many tests as cores at a time: half of them wait for the disk or for a measurement's time.
run() { # build directory, extra ctest arguments
    local dir=$1
    shift
    ctest --test-dir "$dir" --output-on-failure --no-tests=error -j "$((2 * $(nproc)))" "$@"
}

for step in "${steps[@]}"; do
    echo "== $step"
    case $step in
    dev | release | asan | tsan)
        build "$step" "build/$step"
        run "build/$step"
        ;;
    clang)
        build dev build/clang -DCMAKE_C_COMPILER=clang
        run build/clang -L short
        ;;
    *)
        echo "test.sh: unknown step '$step': dev, asan, tsan, clang, release" >&2
        exit 2
        ;;
    esac
done
