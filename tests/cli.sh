#!/usr/bin/env bash
# cli.sh PART SEAM JSON_CHECK - the command line: bad input gets its exit code and one line and
# changes nothing on disk; a tiny run gives a valid document; Ctrl-C ends cleanly.
set -uo pipefail
part=$1 seam=$2 json_check=$3
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work" || exit 1
failed=0

complain() {
    echo "FAILED: $*" >&2
    failed=1
}

refuses() { # exit code, word that the message must hold, arguments...
    local want=$1 word=$2 code
    shift 2
    "$seam" "$@" >out 2>err
    code=$?
    [ "$code" -eq "$want" ] || complain "seam $*: exit $code, not $want"
    [ "$(wc -l <err)" -eq 1 ] || complain "seam $*: $(wc -l <err) lines on stderr: $(cat err)"
    grep -qF -- "$word" err || complain "seam $*: does not name '$word': $(cat err)"
    [ ! -s out ] || complain "seam $*: prints on stdout"
    rm -f out err
    [ -z "$(ls -A)" ] || complain "seam $*: leaves $(ls -A)"
}

usage() {
    refuses 2 nosuch nosuch
    refuses 2 nosuch bench --engines nosuch
    refuses 2 "wrapper" bench --engines strict
    refuses 2 nosuch bench --engines limit:nosuch=1+mem
    refuses 2 5Q bench --engines limit:bytes=5Q+mem
    refuses 2 "empty part" bench --engines mem,,mem
    refuses 2 nosuch bench --profile nosuch
    refuses 2 missing.ini bench --profile ./missing.ini
    refuses 2 nosuch bench --profile representative:nosuch=1
    refuses 2 nosuch bench --workloads append,nosuch
    refuses 2 --nosuch bench --nosuch
    refuses 2 5x bench --time 5x
    refuses 2 --runs bench --runs 0
    refuses 2 --runs bench --runs 1,2
    refuses 2 --threads bench --threads 1,x
    refuses 2 --batch bench --batch 0
    refuses 2 sure bench --ack sure
    refuses 2 --keys bench --keys 1
    refuses 2 "100 to 1000000000" bench --keys 1000000001 --dry-run
    refuses 2 "--batch 1000 of --value 2097152" bench --batch 1,1000 --value 2M
    refuses 2 "one is missing" bench --engines strict+
    refuses 2 "is it --quick" bench --quik
    refuses 2 "seam bench --help" bench --bogus
    refuses 2 "--value: 9 is out of range" bench --value 9 --dry-run
    refuses 2 "needs --profile" corpus --units 3
    refuses 2 "needs --profile" corpus --seed 3
    refuses 2 nosuch help nosuch
    refuses 2 nosuch corpus --profile ./nosuch.ini
    refuses 2 --value bench --value 1
    refuses 2 5Q bench --steady 5Q
    refuses 2 "mem is named twice" bench --engines mem,mem
    refuses 2 "8 is given twice" bench --threads 1,8,8
    refuses 2 "power is given twice" bench --ack power,none,power
    refuses 2 5Q bench --ingest 5Q
    refuses 2 5Q bench --unflushed 5Q
    refuses 2 --unflushed bench --unflushed 0
    refuses 2 --json bench --json
    refuses 2 "--dir needs a value" bench --dir --dry-run
    refuses 2 "--json needs a value" bench --json --quick
    refuses 2 --quick bench --quick=1
    refuses 1 missing/x bench --json missing/x
    refuses 2 "--dir is not UTF-8" bench --dir $'u\377'
    refuses 2 pink bench --color pink
    refuses 2 --seed bench --seed -1
    refuses 2 stray bench stray
    refuses 2 --nosuch engines --nosuch
    refuses 2 --nosuch probe --nosuch
    refuses 2 0s probe --time 0s
    refuses 2 nosuch corpus --profile nosuch
    refuses 2 --units corpus --units 0
    for command in "" bench engines probe corpus; do
        "$seam" $command --help >out 2>err || complain "seam $command --help: exit $?"
        grep -q Examples out || complain "seam $command --help shows no examples"
        [ ! -s err ] || complain "seam $command --help: prints on stderr"
        rm -f out err
    done
    for command in bench engines probe corpus; do
        "$seam" help $command >out && "$seam" $command --help | cmp -s - out || complain "seam help $command is not its --help"
    done
    "$seam" >out 2>err
    [ $? -eq 2 ] && [ ! -s out ] && grep -q Examples err || complain "without a command there is no help on stderr, or no exit 2"
    rm -f out err
    "$seam" bench --dry-run --dir $'a\e\nb' >out && grep -q 'data: a??b' out || complain "a plan prints a directory's control characters"
    rm -f out
    "$seam" bench --dry-run >out || complain "a dry run fails"
    grep -q turns out || complain "a dry run prints no plan"
    rm -f out
    [ -z "$(ls -A)" ] || complain "a dry run leaves $(ls -A)"
}

files() {
    mkdir foreign && echo mine >foreign/precious
    for command in bench probe; do
        "$seam" $command --dir foreign --time 0.02 >out 2>err
        [ $? -eq 2 ] || complain "$command takes a foreign directory"
        grep -q foreign err || complain "$command does not name the foreign directory"
        [ "$(ls -A foreign)" = precious ] || complain "$command changes a foreign directory"
    done
    touch plain && ln -s nowhere dangling && mkdir marked && echo no >marked/.seam-bench && mkdir marked/store-turn-0
    for how in "bench --dry-run" bench probe; do # a dry run refuses what the run would
        for row in "plain;2;is a file" "dangling;2;a link to" "marked;2;not a directory of this" "missing/deep;1;in 'missing'"; do
            IFS=';' read -r dir want word <<<"$row"
            "$seam" $how --dir $dir >out 2>err
            [ $? -eq $want ] || complain "$how --dir $dir: not exit $want"
            { grep -qF "$word" err && grep -qF -- "--dir" err; } || complain "$how --dir $dir: does not say '$word': $(cat err)"
        done
    done
    "$seam" bench --dry-run --journal-dir plain >out 2>err
    grep -q "with --journal-dir" err || complain "does not name --journal-dir: $(cat err)"
    { [ ! -e missing ] && [ -d marked/store-turn-0 ]; } || complain "makes a parent, or removes what a foreign directory holds"
    for command in "bench --help" "bench --dry-run" "bench --workloads limits --json -" --help help "help corpus" --version engines "engines --json" corpus \
                   "corpus --profile broker --units 1" "corpus --json" "probe --time 0.02" "probe --time 0.02 --json"; do
        "$seam" $command >/dev/full 2>err
        [ $? -eq 1 ] || complain "seam $command: a full stdout is not an error"
        [ "$(grep -c "standard output" err)" = 1 ] || complain "seam $command: does not name a full standard output: $(cat err)"
    done
    TMPDIR=$work/missing "$seam" engines >out 2>err
    [ $? -eq 1 ] && grep -q "limits unknown" out && grep -q "mem: limits unknown.*missing" err || complain "limits that are not known are not told: $(cat err)"
    tiny=(bench --engines mem --workloads get --time 0.02 --runs 1 --keys 500 --dir data)
    "$seam" "${tiny[@]}" >/dev/full 2>err && complain "a full stdout is not an error"
    "$seam" "${tiny[@]}" >&- 2>err
    [ $? -eq 1 ] || complain "a closed stdout is not an error"
    "$seam" "${tiny[@]}" >out <&- 2>&- || complain "closed stdin and stderr are an error"
    (ulimit -f 64; "$seam" bench --workloads append --time 0.02 --runs 1 --dir data >out 2>err)
    [ $? -eq 1 ] || complain "a file size limit is not an error: $(cat err)"
    "$seam" "${tiny[@]}" --json /dev/full >out 2>err && complain "a full --json is not an error"
    "$seam" "${tiny[@]}" --json missing/x >out 2>err && complain "--json into a missing directory is not an error"
    [ ! -e data ] || complain "leaves its data directory"
    mkdir empty && "$seam" "${tiny[@]}" --dir empty >out 2>err || complain "does not take an empty directory: $(cat err)"
    [ -d empty ] || complain "removes a directory that was there"
    [ -z "$(ls -A empty)" ] || complain "leaves $(ls -A empty)"
    touch empty/.seam-bench empty/store-turn empty/store-turn-1x empty/seam-probe-mine # a killed run's, and others'
    mkdir empty/store-mine && touch empty/store-mine/precious empty/store-limits2
    mkdir empty/store-turn-7 && touch empty/store-turn-7/x empty/seam-probe-AbCdEf
    "$seam" "${tiny[@]}" --dir empty >out 2>err || complain "does not take its own directory"
    [ "$(ls -A empty | tr '\n' ' ')" = ".seam-bench seam-probe-mine store-limits2 store-mine store-turn store-turn-1x " ] ||
        complain "removes what it did not make, or leaves what a killed run made: $(ls -A empty)"
    [ -e empty/store-mine/precious ] || complain "removes what it did not make"
}

run() {
    "$seam" bench --time 0.03 --runs 2 --keys 500 --threads 1,4 --batch 1,20 --dir data --json out.json >out 2>err \
        --workloads append,journal,load,merge,get,get-miss,floor,scan,scan-reverse,limits ||
        complain "a run fails: $(cat err; grep CAREFUL out)"
    "$json_check" out.json || complain "the JSON is not what docs/bench-json.md says"
    for word in APPEND PROJECTION LIMITS rawlog CAREFUL; do
        grep -q "$word" out || complain "the report has no $word"
    done
    [ ! -e data ] || complain "leaves its data directory"
    "$seam" bench --engines mem,limit:ops=104K+mem --workloads get,limits --time 0.02 --runs 1 --keys 500 --json - >out.json 2>err ||
        complain "a run with --json - fails: $(cat err)"
    "$json_check" out.json || complain "--json - is not one valid document"
    plugin=$(dirname "$seam")/libseam_example.so
    if [ -e "$plugin" ]; then # it keeps nothing, as mem: each turn fills it anew
        "$seam" bench --engines "$plugin,mem" --workloads get,scan --time 0.02 --runs 1 --keys 500 --dir data >out 2>err ||
            complain "a run with a plug-in fails: $(cat err; grep CAREFUL out)"
    fi
    if "$seam" engines | grep -q "^rocksdb "; then
        "$seam" bench --engines rocksdb,rocksdb:recycle --workloads append,limits --threads 1 --batch 1 --time 0.02 \
            --runs 1 --dir data --json out.json >out 2>err || complain "a run with recycle fails: $(cat err)"
        "$json_check" out.json || complain "the JSON of a run with recycle is not what docs/bench-json.md says"
        [ "$(grep -c "^ *rocksdb:recycle.*power, may skip damaged records" out)" = 2 ] ||
            complain "an ack of rocksdb:recycle is told without what it leaves out: $(cat out)"
    fi
    printf '[corpus]\nscale = 500\n[keys]\nkeys = 1M\n' >scaled.ini
    for profile in representative:keys=400 representative:scale=1K ./scaled.ini; do # the size told is the size used
        "$seam" bench --profile $profile --engines mem --workloads load,get --time 0.02 --runs 1 --dir data --json out.json \
            >out 2>err || complain "--profile $profile fails: $(cat err; grep CAREFUL out)"
    done
    rm scaled.ini
    "$seam" engines --json | "$json_check" --any - || complain "engines --json is not valid"
    "$seam" corpus --profile broker --units 2 --json | "$json_check" --any - || complain "corpus --json is not valid"
    "$seam" probe --time 0.1 --json | "$json_check" --any - || complain "probe --json is not valid"
    [ -z "$(ls -A | grep -vE '^(out|err|out.json)$')" ] || complain "leaves $(ls -A)"
}

more() { # workloads that take longer
    "$seam" bench --workloads reopen,reopen-after-kill --time 0.05 --runs 2 --keys 500 --unflushed 300K \
        --dir data --json out.json >out 2>err || complain "a run fails: $(cat err; grep CAREFUL out)"
    "$json_check" out.json || complain "the JSON is not what docs/bench-json.md says"
    for word in REOPEN "closed, ms" "killed, ms" "300K acked" "left out"; do
        grep -q "$word" out || complain "the report has no $word: $(cat out)"
    done
    grep -q failed out && complain "something failed: $(cat out)"
    "$seam" bench --workloads journal --threads 1 --batch 1 --time 0.05 --runs 1 --dir data --journal-dir apart \
        --engines lmdb >out 2>err || complain "a run with --journal-dir fails: $(cat err; grep CAREFUL out)"
    { [ ! -e apart ] && [ ! -e data ]; } || complain "leaves a data directory"
    mkdir foreign && touch foreign/mine
    "$seam" bench --workloads journal --dir data --journal-dir foreign >out 2>err
    [ $? -eq 2 ] || complain "takes a foreign directory for the journal"
    [ "$(ls -A foreign)" = mine ] && [ ! -e data ] || complain "changes a foreign directory, or leaves its own"
    "$seam" bench --workloads journal --dir data --journal-dir data >out 2>err
    [ $? -eq 1 ] || complain "takes one directory twice"
    "$seam" bench --workloads floor-deleted,scan-reverse-deleted --time 0.05 --runs 2 --keys 2000 --dir data --json out.json \
        >out 2>err || complain "a run fails: $(cat err; grep CAREFUL out)"
    "$json_check" out.json || complain "the JSON is not what docs/bench-json.md says"
    grep -q "2 s for each engine to settle" out || complain "does not tell of settling: $(cat out)"
    "$seam" bench --quick --workloads append-under-ingest --time 0.3 --runs 2 --keys 2000 --ingest 4M --steady 1M --engines lmdb,lmdb:fill_wait=50 \
        --dir data --json out.json >out 2>err || complain "a run fails: $(cat err; grep CAREFUL out)"
    "$json_check" out.json || complain "the JSON is not what docs/bench-json.md says"
    grep -q "acks beside .*B/s; memtable flushes not told" out || complain "does not tell of the ingest: $(cat out)"
    "$seam" bench --workloads rebuild,rebuild-under-reads --runs 1 --keys 500 --engines mem,limit:ops=100+mem,limit:ops=3+mem \
        --dir data --json out.json >out 2>err && complain "a rebuild on an engine of 3 ops a commit does not fail"
    "$json_check" out.json || complain "the JSON is not what docs/bench-json.md says"
    [ "$(grep -cE '^(limit:ops=100\+)?mem .* none, declared$' out)" = 2 ] || complain "two rebuilds have no row: $(cat out)"
    grep -q "^limit:ops=3+mem .*failed" out || complain "does not tell which rebuild failed: $(cat out)"
    "$seam" bench --workloads merge,units --threads 1 --ack none --runs 1 --keys 500 --time 0.02 \
        --engines limit:ops=6+mem,mem --dir data >out 2>err || complain "a run beyond an engine's ceiling fails: $(cat err)"
    grep -q "takes at most 5 ops a commit" out || complain "does not tell what the ceiling is: $(cat out)"
    "$seam" bench --workloads append --threads 1 --batch 1000 --value 8K --time 0.001 --runs 1 --engines lmdb --dir data >out 2>err ||
        complain "a run of commits that are longer than --time fails: $(cat err)"
    grep -qE "^lmdb +0 " out && complain "a commit that takes longer than --time has a rate of 0: $(cat out)"
    echo old >out.json
    (ulimit -f 1; "$seam" bench --workloads get --runs 1 --keys 500 --time 0.02 --engines mem --json out.json >out 2>err)
    [ "$(cat out.json)" = old ] && [ ! -e out.json.new ] ||
        complain "a result that cannot be written takes the old one away: $(head -c 100 out.json)"
    [ ! -e data ] || complain "leaves its data directory"
}

interrupt() {
    "$seam" bench --workloads append --threads 1 --batch 1 --time 0.05 --runs 200 --dir data --json out.json >out 2>err &
    local pid=$!
    for _ in $(seq 200); do # until it is at work
        [ -d data ] && ls data | grep -q store- && break
        sleep 0.05
    done
    sleep 1
    kill -INT $pid
    wait $pid
    [ $? -eq 130 ] || complain "an interrupted run does not exit with 130"
    grep -q interrupted out || complain "does not say that it was interrupted"
    "$json_check" out.json || complain "an interrupted run's JSON is not valid"
    [ ! -e data ] || complain "an interrupted run leaves its data"
    # A run that is killed leaves no turn behind, and the next one tidies up after it.
    "$seam" bench --workloads append --threads 1 --batch 1 --time 5 --runs 9 --dir data >out 2>err &
    pid=$!
    for _ in $(seq 200); do
        [ -d data ] && ls data | grep -q store-turn && break
        sleep 0.05
    done
    "$seam" bench --workloads limits --dir data >out2 2>err2
    [ $? -eq 1 ] || complain "two runs share a directory"
    grep -q "in use" err2 || complain "does not say that the directory is in use: $(cat err2)"
    kill -KILL $pid
    wait $pid 2>/dev/null
    for _ in $(seq 200); do
        pgrep -f "^seam turn" -P 1 >/dev/null || break
        sleep 0.05
    done
    "$seam" bench --workloads limits --dir data >out 2>err || complain "does not go on after a kill: $(cat err)"
    [ -z "$(ls data)" ] || complain "does not tidy up after a killed run"
}

$part
exit $failed
