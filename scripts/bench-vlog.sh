#!/usr/bin/env bash
# bench-vlog.sh [SEAM] [ROUNDS] - the append part of the native engine's targets: runs exactly those rows
# and prints figure, target, and met, missed or undecided.
#
# A figure is the median of the ratios, paired round by round, of vlog to each rival in one interleaved
# run; met: the whole range is at or above the target; missed: the whole range is below; else undecided.
# Both sides are warmed up and in the steady state: STEADY bytes (default 400M: RocksDB's log has rolled
# and is recycled by then) are written before each turn; the "fresh" rows go without. Needs jq; takes
# about an hour with 10 rounds. TIME is one turn's measured time (1), DIR where the data goes.
set -euo pipefail
here=$(cd "$(dirname "$0")/.." && pwd)
seam=${1:-$here/build/release/seam} rounds=${2:-10}
steady=${STEADY:-400M} time=${TIME:-1} dir=${DIR:-seam-bench-vlog}
command -v jq >/dev/null || { echo "bench-vlog: needs jq" >&2; exit 2; }
[ -x "$seam" ] || { echo "bench-vlog: no $seam: build it, or name another" >&2; exit 2; }
[ "$rounds" -ge 10 ] || echo "CAREFUL  $rounds rounds: at least 10 make a verdict"
out=$(mktemp -d)
trap 'rm -rf "$out"' EXIT

run() { # file, then arguments
    local file=$1
    shift
    "$seam" bench --runs "$rounds" --time "$time" --dir "$dir" --json "$out/$file" "$@" >"$out/text" ||
        { echo "CAREFUL  seam bench $*: failed"; grep -E 'failed|CAREFUL' "$out/text" || true; }
    grep -hE 'CAREFUL.*(moved|not a durability|wrong|cannot carry)' "$out/text" | sort -u || true
}

row() { # label, file, workload, threads, batch, rival, target
    [ -s "$out/$2" ] || return 0
    jq -r --arg name "$1" --arg w "$3" --argjson t "$4" --argjson b "$5" --arg rival "$6" --argjson target "$7" '
        def series($e): [.results[] | select(.workload == $w and .engine == $e and .threads == $t and
            .batch == $b)][0].rate.series // [];
        def two: . * 100 | round / 100;
        series("vlog") as $a | series($rival) as $c |
        [range([$a, $c | length] | min) | select($a[.] != null and ($c[.] // 0) > 0) |
            $a[.] / $c[.]] | sort |
        if length == 0 then [$name, $rival, "-", "-", "\($target)x", "no figures"] else
            (if length % 2 == 1 then .[(length - 1) / 2]
             else (.[length / 2 - 1] + .[length / 2]) / 2 end) as $m |
            [$name, $rival, "\($m | two)x", "[\(.[0] | two)..\(.[-1] | two)]", "\($target)x",
             (if .[0] >= $target then "met" elif .[-1] < $target then "missed" else "undecided" end)]
        end | @tsv' "$out/$2"
}

device() { # label, file, target: device bytes per user byte of vlog's units
    [ -s "$out/$2" ] || return 0
    jq -r --arg name "$1" --argjson target "$3" '
        ([.results[] | select(.workload == "units" and .engine == "vlog")][0].device_bytes_per_user_byte) as $d |
        [$name, "device bytes", (if $d then "\($d * 100 | round / 100)" else "-" end), "all rounds",
         "at most \($target)", (if $d == null then "no figures" elif $d <= $target then "met" else "missed" end)]
        | @tsv' "$out/$2"
}

messages=(--workloads append --engines vlog,rocksdb,rocksdb:recycle,lmdb --steady "$steady")
run threads "${messages[@]}" --threads 1,8,32 --batch 1
run batches "${messages[@]}" --threads 1 --batch 50,1000
stress=(--workloads units --profile stress --engines vlog,rocksdb:blob,lmdb --threads 1)
run fresh "${stress[@]}"
run recycled "${stress[@]}" --steady "$steady"
{
    printf 'row\trival\tvlog is\trange\ttarget\tverdict\n'
    while read -r threads rocksdb recycle lmdb rawlog; do
        row "append 256 B, $threads thr" threads append "$threads" 1 rocksdb "$rocksdb"
        row "append 256 B, $threads thr" threads append "$threads" 1 rocksdb:recycle "$recycle"
        row "append 256 B, $threads thr" threads append "$threads" 1 lmdb "$lmdb"
        row "append 256 B, $threads thr" threads append "$threads" 1 rawlog "$rawlog"
    done <<<$'1 1.4 0.95 2.0 0.90\n8 2.0 1.6 2.5 0.85\n32 3.4 2.7 2.6 0.80'
    row "batches of 50" batches append 1 50 rocksdb 1.6
    row "batches of 50" batches append 1 50 rocksdb:recycle 1.25
    row "batches of 50" batches append 1 50 lmdb 2.2
    row "batches of 50" batches append 1 50 rawlog 0.82
    row "batches of 1000" batches append 1 1000 rocksdb:recycle 1.9
    row "batches of 1000" batches append 1 1000 lmdb 1.5
    row "batches of 1000" batches append 1 1000 rawlog 0.70
    row "stress units, fresh" fresh units 1 1 rocksdb:blob 1.9
    row "stress units, fresh" fresh units 1 1 lmdb 1.4
    row "stress units, fresh" fresh units 1 1 rawlog 0.88
    row "stress units, recycled" recycled units 1 1 rocksdb:blob 3.0
    row "stress units, recycled" recycled units 1 1 lmdb 2.4
    row "stress units, recycled" recycled units 1 1 rawlog 0.85
    device "stress units, fresh" fresh 2.05
    device "stress units, recycled" recycled 1.05
} | column -t -s $'\t'
