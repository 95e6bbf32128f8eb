#!/bin/sh
# Runs a group of benchmarks and writes bench/results/GROUP.txt:
#
#	bench/run.sh memory
#
# If BENCH_BASE is the path of another build of sluice, the groups server and peers measure it
# too. Each round measures every program once, so other load on the machine affects all of them.
set -eu
cd "$(dirname "$0")"
case $1 in
dynamodb) package=limiter pattern=DynamoDB rounds=6 time=0.7s ;;
memory) package=limiter pattern=Memory rounds=10 time=0.3s ;;
handler) package=handler pattern=. rounds=10 time=0.3s ;;
server) package=server pattern=Server rounds=8 time=0.3s ;;
peers) package=server pattern=Peers rounds=5 time=1x ;; # needs PostgreSQL (Debian's package postgresql)
deletions) package=server pattern=Deletions rounds=1 time=1x ;; # one round, because the servers take turns
find) package=server pattern=Find rounds=1 time=1x ;; # one round, because it stores a million entities
stores) package=store pattern=. rounds=6 time=0.5s ;;
records) package=server pattern=Records rounds=6 time=0.3s ;;
coldstart) package=coldstart pattern=. rounds=1 time=20x ;; # one round, because the processes take turns
clients) package=clients pattern=. rounds=1 time=1x ;;       # one round, because the limits set the time
money) package=money pattern=. rounds=1 time=10x ;;         # one round, because no time is measured
*)
	echo "unknown group $1" >&2
	exit 2
	;;
esac
mkdir -p results ../bin
rm -rf ../bin/bench-data # stores that the benchmarks have filled
part=../bin/bench-$1.txt # incomplete results
{
	echo "date: $(date -u +%Y-%m-%d)"
	echo "commit: $(git rev-parse --short HEAD)"
	echo "processors: $(getconf _NPROCESSORS_ONLN)"
	echo "go: $(go env GOVERSION)"
	go list -m -f '{{.Path}}: {{.Version}}' github.com/aws/aws-lambda-go github.com/aws/aws-sdk-go-v2/service/dynamodb \
		github.com/awslabs/aws-lambda-go-api-proxy github.com/sethvargo/go-limiter github.com/throttled/throttled/v2
	sed -n 's/.*"\(rate-limiter-flexible\)": "\(.*\)".*/\1: \2/p' ../tools/rate-limiter-flexible/package.json
	for round in $(seq "$rounds"); do
		echo "$1: round $round of $rounds" >&2
		go test -count=1 -bench "$pattern" -benchtime "$time" -timeout 30m "./$package"
	done
} >"$part"
mv "$part" "results/$1.txt"
rm -rf ../bin/bench-data
if [ "$rounds" -gt 1 ]; then
	go run "$BENCHSTAT" -table .name -col /impl "results/$1.txt"
else
	grep ^Benchmark "results/$1.txt"
fi
