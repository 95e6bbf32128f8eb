#!/bin/sh
# Measures another revision beside this working tree, in alternating rounds:
# "sluice serve" of both under load, and what both can measure of the limiter in
# memory and of the handlers.
#
#	bench/compare.sh REVISION
set -eu
cd "$(dirname "$0")/.."
out=$PWD/bin/compare
base=$(mktemp -d)
trap 'git worktree remove --force "$base"' EXIT
git worktree add --quiet --detach "$base" "$1"
rm -rf "$out"
mkdir -p "$out"
(cd "$base" && go build -o "$out/sluice" ./cmd/sluice)
for round in 1 2 3 4 5 6; do
	echo "round $round of 6" >&2
	(cd bench && BENCH_BASE=$out/sluice go test -count=1 -bench Server -benchtime 0.7s ./server) >>"$out/server.txt"
	for package in limiter handler; do
		[ -e "$base/bench/$package/${package}_test.go" ] || [ -e "$base/bench/$package/memory_test.go" ] || continue
		(cd "$base/bench" && go test -count=1 -bench 'Memory|Handler' -benchtime 0.7s "./$package") >>"$out/base.txt"
		(cd bench && go test -count=1 -bench 'Memory|Handler' -benchtime 0.7s "./$package") >>"$out/head.txt"
	done
done
go run "$BENCHSTAT" -table .name -col /impl "$out/server.txt"
[ ! -e "$out/base.txt" ] || go run "$BENCHSTAT" "$out/base.txt" "$out/head.txt"
