#!/usr/bin/env bash
# install.sh CMAKE BUILD CC EXAMPLE.c [ENGINE] - installs BUILD into a prefix that is removed again,
# and uses what lies there as somebody would who has nothing else: the command, the README's example
# against either library, a plug-in by its own Makefile under the conformance program.
set -euo pipefail
cmake=$1 build=$2 cc=$3 example=$4 engine=${5:-}
top=$(mktemp -d)
trap 'rm -rf "$top"' EXIT
die() { echo "install: $*" >&2; exit 1; }

"$cmake" --install "$build" --prefix "$top/first" >"$top/log" 2>&1 || die "$(tail -5 "$top/log")"
mv "$top/first" "$top/prefix" # an installed tree may be moved
prefix=$top/prefix
pc=$(find "$prefix" -name seam.pc)
[ -n "$pc" ] || die "there is no seam.pc"
export PKG_CONFIG_PATH=${pc%/*}
libdir=$(pkg-config --variable=libdir seam)

for file in bin/seam lib/seam/libseam_flushcount.so lib/seam/conformance share/man/man1/seam.1 \
            include/seam/{seam,backend,platform,journal,projection,store,corpus}.h; do
    [ -s "$prefix/$file" ] || die "$file is missing"
done
readelf -d "$libdir/libseam.so" | grep -q 'SONAME.*\[libseam\.so\.[0-9]*\]' || die "no soname"
strings=$(cat "$pc" && readelf -d "$libdir/libseam.so" "$prefix/bin/seam")
grep -qF -e "$build" -e "$top/first" <<<"$strings" && die "something remembers where it was built"
"$prefix/bin/seam" engines >"$top/engines" || die "seam engines fails"
grep -q mem "$top/engines" || die "seam engines does not tell mem"

run() { # program: what it says is what the README says
    [ -n "$engine" ] || { { "$@" nonesuch 2>&1 || true; } | grep -q nonesuch || die "$1 does not run"; return 0; }
    local said
    said=$("$@" "$engine" "$top/store") || die "$1 fails"
    [ "$said" = "Ada, ack power" ] || die "$1 said: $said"
}
cd "$top"
$cc -std=c11 -o shared "$example" $(pkg-config --cflags --libs seam)
readelf -d shared | grep -q 'NEEDED.*libseam\.so\.' || die "the shared library is not used"
LD_LIBRARY_PATH=$libdir run ./shared
$cc -std=c11 -o static "$example" $(pkg-config --cflags seam) \
    $(pkg-config --static --libs seam | sed 's/-lseam/-l:libseam.a/')
readelf -d static | grep -q 'NEEDED.*libseam\.so\.' && die "the static program needs libseam.so"
run ./static

cp -r "$(find "$prefix" -path '*/examples/plugin')" plugin
make -s -C plugin CC="$cc" libseam_example.so || die "the plug-in's Makefile fails"
make -s -C plugin CC="$cc" check >"$top/log" 2>&1 || die "$(grep -E 'ERROR|FAILED' "$top/log" | head -5)"
echo "installed, built against and run"
