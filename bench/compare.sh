#!/bin/sh
# Compares another revision with this working tree. Their benchmarks run alternately:
#
#	bench/compare.sh REVISION
#
# It measures "sluice serve" of both revisions. It also runs the benchmarks of decisions in
# memory and of the handlers, if the other revision has them.
set -eu
cd "$(dirname "$0")/.."
out=$PWD/bin/compare
base=$(mktemp -d)
trap 'git worktree remove --force "$base"' EXIT
trap 'exit 1' HUP INT TERM # some shells do not run the EXIT trap on signals
git worktree add --quiet --detach "$base" "$1"
rm -rf "$out" bin/bench-data
mkdir -p "$out"
(cd "$base" && go build -o "$out/sluice" ./cmd/sluice)

# bench TREE PACKAGE BENCHMARK runs a benchmark of a tree if both trees have the benchmark.
bench() {
	if grep -qs "func Benchmark$3(" "$base/bench/$2/"*_test.go; then
		(cd "$1/bench" && go test -count=1 -bench "$3" -benchtime 0.3s "./$2")
	fi
}

for round in 1 2 3 4 5 6 7 8 9 10 11 12; do
	echo "round $round of 12" >&2
	(cd bench && BENCH_BASE=$out/sluice go test -count=1 -bench Server -benchtime 0.3s ./server) >>"$out/server.txt"
	for tree in "$base" .; do
		{
			bench "$tree" limiter Memory
			bench "$tree" handler Handler
		} >>"$out/$(test "$tree" = . && echo head || echo base).txt"
	done
done
go run "$BENCHSTAT" -table .name -col /impl "$out/server.txt"
go run "$BENCHSTAT" "base=$out/base.txt" "head=$out/head.txt"
