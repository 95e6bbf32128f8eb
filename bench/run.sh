#!/bin/sh
# Runs the benchmarks of a package and writes bench/results/PACKAGE.txt:
#
#	bench/run.sh limiter
#
# Each round measures everything once, so that what slows the machine down for a
# while slows down all that is compared.
set -eu
cd "$(dirname "$0")"
rounds=6 time=0.7s
case $1 in
limiter | handler | server) ;;
coldstart) rounds=1 time=25x ;; # takes turns by itself
money) rounds=1 time=10x ;;     # counts
*)
	echo "bench has no package $1" >&2
	exit 2
	;;
esac
mkdir -p results ../bin
part=../bin/bench-$1.txt # until it is complete
{
	echo "date: $(date -u +%Y-%m-%d)"
	echo "commit: $(git rev-parse --short HEAD)"
	echo "processors: $(getconf _NPROCESSORS_ONLN)"
	echo "go: $(go env GOVERSION)"
	go list -m -f '{{.Path}}: {{.Version}}' github.com/aws/aws-lambda-go github.com/aws/aws-sdk-go-v2/service/dynamodb \
		github.com/awslabs/aws-lambda-go-api-proxy github.com/sethvargo/go-limiter github.com/throttled/throttled/v2
	echo "rate-limiter-flexible: ${RATE_LIMITER_FLEXIBLE:-}"
	for round in $(seq "$rounds"); do
		echo "bench/$1: round $round of $rounds" >&2
		go test -count=1 -bench . -benchtime "$time" -timeout 30m "./$1"
	done
} >"$part"
mv "$part" "results/$1.txt"
if [ "$rounds" -gt 1 ]; then
	go run "$BENCHSTAT" -table .name -col /impl "results/$1.txt"
else
	grep ^Benchmark "results/$1.txt"
fi
