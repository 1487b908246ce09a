#!/usr/bin/env bash
# tidy.sh [LIBRARY] - the rules of the house that a program can check: which room includes what,
# exported symbols of LIBRARY (libseam.so), banned calls, sizes, opening comments, leftovers.
# Prints each breach as file:line: what; exits 1 if there is one.
set -uo pipefail
cd "$(dirname "$0")/.."

found=$(mktemp)
trap 'rm -f "$found"' EXIT
breaches=0
breach() {
    echo "$1"
    breaches=$((breaches + 1))
}

sources() { # rooms... : tracked and new C sources in them
    git ls-files -co --exclude-standard -- "$@" 2>/dev/null | grep -E '\.[ch]$' | while read -r f; do
        [ -f "$f" ] && echo "$f"
    done
}

# Arrows: what each room may include besides the system's headers and its own files.
contract='seam/(seam|backend|platform)\.h'
check_includes() { # rooms-path, allowed pattern for <seam/...> and foreign library headers
    local room=$1 allowed=$2 file line name
    while IFS=: read -r file line name; do
        case $name in
        \"*)
            local own=${name//\"/}
            # The flush counter's page is what verify/ shares with bench/.
            [ "$room/$own" = bench/flushcount.h ] || [ -f "$(dirname "$file")/$own" ] || [ -n "$(find "$room" -path "*/$own" -print -quit)" ] ||
                breach "$file:$line: includes $name, which is not of its room"
            ;;
        *) [[ ${name//[<>]/} =~ ^($allowed)$ ]] || breach "$file:$line: $room may not include $name" ;;
        esac
    done < <(sources "$room" | xargs -r grep -HnoE '^ *# *include +(<(seam/|lmdb|rocksdb|jansson|ini|lz4|cmocka)[^>]*>|"[^"]+")' |
        sed -E 's/# *include +//; s/: +/:/')
}
check_includes engine "$contract"
check_includes backends/mem "$contract"
check_includes backends/vlog "$contract"
check_includes backends/lmdb "$contract|lmdb\.h"
check_includes backends/rocksdb "$contract|rocksdb/c\.h"
check_includes registry "$contract"
check_includes seam "$contract|seam/(journal|projection|store)\.h"
check_includes corpus "$contract|seam/(journal|projection|store|corpus)\.h|ini\.h"
check_includes bench "$contract|seam/(journal|projection|store|corpus)\.h|jansson\.h"

# Calls that library code does not make, and calls that nobody makes.
banned_everywhere='strcpy|strcat|sprintf|vsprintf|gets|strtok|alloca|system|rand|srand|random|atoi|atol|tmpnam|mktemp'
banned_library='printf|fprintf|puts|perror|exit|_exit|abort|signal|sigaction|setenv|strerror|localtime|gmtime'
check_calls() { # pattern, rooms...
    local pattern=$1 hit
    shift
    while read -r hit; do
        breach "$hit: a banned call"
    done < <(sources "$@" | xargs -r grep -nE "(^|[^A-Za-z0-9_>.\"])($pattern) *\(" |
        grep -vE '^[^:]+:[0-9]+: *(/?\*|//)' | cut -c1-120)
}
check_calls "$banned_everywhere" engine backends registry seam corpus verify bench tests examples
check_calls "$banned_library" engine backends registry seam corpus

# Time, memory, files and chance come from struct seam_platform, so that a test may fail or replay them. The
# exceptions: the table of the system's own calls; deadlines of condition variables, whose clock is the
# system's; the corpus, which is pure and keeps nothing. LMDB and RocksDB do their own I/O.
platform='malloc|calloc|realloc|free|clock_gettime|gettimeofday|time|usleep|nanosleep|open|openat|read|write|pread|pwrite|fsync|fdatasync|rename|unlink|mkdir|getrandom'
check_platform() { # rooms...
    local hit
    while read -r hit; do
        breach "$hit: past struct seam_platform"
    done < <(sources "$@" | grep -vE '^engine/posix\.c$' |
        xargs -r grep -nE "(^|[^A-Za-z0-9_>.\"])($platform) *\(" |
        grep -vE '^[^:]+:[0-9]+: *(/?\*|//)' | grep -vE '^(seam/(journal|witness)\.c|engine/park\.h):[0-9]+:.*clock_gettime' |
        grep -vE '^[^:]+:[0-9]+:.*\(\*(open|free|read|write|rename|unlink|mkdir)\)' | cut -c1-120)
}
check_platform engine backends/vlog backends/mem seam

# Sizes: files, functions (Linux brace style: body from "{" to "}" in the first column), lines.
while read -r file; do
    awk -v file="$file" '
        FNR == 1 && !/^\/\*/ { print file ":1: does not open with a comment that says what it is" }
        length($0) > 110 { print file ":" FNR ": over 110 columns" }
        /^\{/ { start = FNR }
        /^\}/ && start { if (FNR - start > 62) print file ":" start ": function of " FNR - start - 1 " lines, at most 60"; start = 0 }
        END { if (FNR > 650) print file ": " FNR " lines, at most 650" }' "$file"
done < <(sources engine backends registry seam corpus verify bench tests examples) |
    sort >"$found"
while read -r line; do breach "$line"; done <"$found"

# Leftovers.
while read -r hit; do
    breach "$hit: left open"
done < <(git ls-files -co --exclude-standard -- '*.c' '*.h' '*.cmake' '*.sh' '*.md' '*.txt' |
    grep -v '^scripts/tidy.sh$' | xargs -r grep -nE '\b(TODO|FIXME|XXX|HACK)\b' | cut -c1-120)

# State at file scope that is not const.
while read -r hit; do
    breach "$hit: mutable state at file scope"
done < <(sources engine backends registry seam corpus |
    xargs -r grep -nE '^static +[a-z_0-9 ]+[ *][a-z_0-9]+(\[[^]]*\])*( *=.*)?;' |
    grep -vE 'const|\(' | cut -c1-120)

# Exported names.
if [ $# -gt 0 ]; then
    while read -r symbol; do
        breach "$1: exports $symbol, which does not start with seam_"
    done < <(nm -D --defined-only "$1" | awk '{print $3}' | grep -vE '^(seam_|_init$|_fini$|__asan|__ubsan|__tsan|__odr)')
fi

[ "$breaches" -eq 0 ] && echo "tidy: no breach"
[ "$breaches" -eq 0 ]
