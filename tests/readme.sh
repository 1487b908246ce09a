#!/usr/bin/env bash
# readme.sh PROGRAM ENGINE - the README's example does what the README says, twice on one store.
set -euo pipefail
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
for _ in 1 2; do
    said=$("$1" "$2" "$dir/store")
    [ "$said" = "Ada, ack power" ] || { echo "said: $said" >&2; exit 1; }
done
