#!/usr/bin/env bash
# accounts.sh PROGRAM JOURNAL-ENGINE TABLE-ENGINE - the example application pays, goes on where it ended,
# also where it was killed, and says what is wrong with what it is given.
set -euo pipefail
program=$1 journal=$2 table=$3
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
die() { echo "accounts: $*" >&2; exit 1; }
for n in 1 2; do
    said=$("$program" "$dir/store" "$journal" "$table")
    [ "$said" = "ada $((5 * n))"$'\n'"bob $((2 * n))" ] || die "run $n said: $said"
done
"$program" "$dir/store" nonesuch "$table" 2>"$dir/err" && die "takes an engine that there is not"
grep -q nonesuch "$dir/err" || die "does not name the engine: $(cat "$dir/err")"
"$program" "$dir/store" 2>/dev/null && die "takes two arguments"
said=$("$program" "$dir/store" "$journal" "$table")
[ "$said" = $'ada 15\nbob 6' ] || die "after a refusal it said: $said"
