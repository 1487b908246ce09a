#!/usr/bin/env bash
# deps.sh - installs the Debian packages that building, testing and the demo need, or names the
# command that does. Relies on dpkg and apt (Debian 12, 13). Does nothing when all are there.
set -euo pipefail

packages=(gcc g++ clang make cmake pkg-config git strace
          librocksdb-dev liblmdb-dev liblz4-dev libcmocka-dev libjansson-dev libinih-dev)

missing=()
for package in "${packages[@]}"; do
    dpkg-query -W -f='${Status}' "$package" 2>/dev/null | grep -q 'ok installed' || missing+=("$package")
done
if [ ${#missing[@]} -eq 0 ]; then
    exit 0
fi

command="apt-get install -y --no-install-recommends ${missing[*]}"
if [ "$(id -u)" -eq 0 ]; then
    sudo=()
elif command -v sudo >/dev/null && { [ -t 0 ] || sudo -n true 2>/dev/null; }; then
    sudo=(sudo)
else
    echo "deps: missing packages; as root run: apt-get update && $command" >&2
    exit 1
fi
echo "deps: installing ${missing[*]}" >&2
if ! { "${sudo[@]}" apt-get update -qq &&
       DEBIAN_FRONTEND=noninteractive "${sudo[@]}" $command -qq >&2; }; then
    echo "deps: that failed; run by hand: apt-get update && $command" >&2
    exit 1
fi
