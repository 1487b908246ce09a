#!/usr/bin/env bash
# headers.sh CC ROOT HEADER... - each header compiles alone, without a warning, as C11 and C++17.
set -euo pipefail
cc=$1 root=$2
shift 2
flags=(-Wall -Wextra -Wpedantic -Wconversion -Wshadow -Werror -fsyntax-only
       -I"$root/engine/include" -I"$root/seam/include" -I"$root/corpus/include")
for header in "$@"; do
    "$cc" -x c -std=c11 -Wstrict-prototypes "${flags[@]}" - <<<"#include <seam/$(basename "$header")>"
    if command -v g++ >/dev/null; then
        g++ -x c++ -std=c++17 "${flags[@]}" - <<<"#include <seam/$(basename "$header")>"
    fi
done
echo "$# headers compile alone"
