package server

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

// BenchmarkDoor measures how long one client waits while something expensive goes on: another client
// that sends requests at its limits, at most 200 a second and over 8 connections, or the build of
// four indexes of 1,000 large entities. p50-us and p99-us are percentiles of the latency of GET
// /health, or of POST /create_event during the builds; alone is the median divided by the median
// without the attack, from the same run.
//
// If the environment variable BENCH_BASE is the path of another build of sluice, that build is
// also measured, as impl=base.
func BenchmarkDoor(b *testing.B) {
	b.Chdir("../..")
	programs := map[string]string{"sluice": build(b, ".", "./cmd/sluice")}
	if base := os.Getenv("BENCH_BASE"); base != "" {
		programs["base"] = base
	}
	servers, dirs := make(map[string]*process), make(map[string]string)
	for impl, program := range programs {
		dirs[impl] = b.TempDir()
		servers[impl] = start(b, program, "serve", "--addr", "127.0.0.1:0", "--data-dir", dirs[impl])
		seedLarge(b, servers[impl].address)
	}
	for _, a := range attacks() {
		for impl, s := range servers {
			b.Run("attack="+a.name+"/impl="+impl, func(b *testing.B) {
				measureBeside(b, s, get("/health"), func(ctx context.Context) {
					var attackers sync.WaitGroup
					for range 8 {
						attackers.Go(func() { a.repeat(ctx, s.address) })
					}
					attackers.Wait()
				})
			})
		}
	}
	for impl, s := range servers {
		b.Run("attack=index-build/impl="+impl, func(b *testing.B) {
			measureBeside(b, s, post("/create_event", `{"name":"n"}`), func(ctx context.Context) {
				for _, command := range []string{"add", "remove"} {
					for i := range 4 {
						out, err := exec.CommandContext(b.Context(), programs[impl], "indexes", command, "t", fmt.Sprint("a", i), "--data-dir", dirs[impl]).CombinedOutput()
						if err != nil {
							b.Errorf("%s: %v\n%s", command, err, out)
						}
					}
					<-ctx.Done()
				}
			})
		})
	}
}

// measureBeside reports how long a client waits for its requests while attack runs, which ends soon
// after its context is done.
func measureBeside(b *testing.B, s *process, request []byte, attack func(ctx context.Context)) {
	for b.Loop() {
	}
	b.ReportMetric(0, "ns/op")
	alone := waits(b, s, request)
	ctx, stop := context.WithCancel(b.Context())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		attack(ctx)
	}()
	beside := waits(b, s, request)
	stop()
	<-ended
	b.ReportMetric(float64(beside[len(beside)/2].Microseconds()), "p50-us")
	b.ReportMetric(float64(beside[len(beside)*99/100].Microseconds()), "p99-us")
	b.ReportMetric(float64(beside[len(beside)/2])/float64(alone[len(alone)/2]), "alone")
}

// seedLarge creates entities of 250 KB.
func seedLarge(b *testing.B, server string) {
	var group sync.WaitGroup
	for n := range 8 {
		c := dial(b, server, n)
		group.Go(func() {
			defer c.Close() //nolint:errcheck // all responses have been read
			text := strings.Repeat("x", 250_000)
			for i := range 125 {
				send(b, c, post("/create_entity", fmt.Sprintf(`{"id":"%d-%d","type":"t","attributes":{"a0":%[2]d,"a1":%[2]d,"a2":%[2]d,"a3":%[2]d,"text":%[3]q}}`, n, i, text)))
			}
		})
	}
	group.Wait()
}

// attack is a request that is meant to be expensive.
type attack struct{ name, target, token, body string }

func attacks() []attack {
	query := func(format string, n int) string {
		var text strings.Builder
		for i := 0; text.Len() < n; i++ {
			fmt.Fprintf(&text, format, i)
		}
		return "/entity?type=t&" + text.String()
	}
	batch := func(element string) string { return `{"entities":[` + strings.Repeat(element+",", 99) + element + `]}` }
	return []attack{
		{name: "token-1mb", target: "/health", token: strings.Repeat("_", 1<<20-5000)},
		{name: "token-8kb", target: "/health", token: strings.Repeat("_", 8<<10)},
		{name: "query-8kb", target: query("a%d=&attributes.%[1]d=&", 8<<10)},
		{name: "query-132kb", target: query("attributes.%d=&", 132<<10)},
		{name: "members", target: "/create_entity", body: "{" + members(250<<10) + "}"},
		{name: "elements", target: "/upsert_entities", body: batch(`{"a":0,"b":0,"c":0,"d":0,"e":0,"f":0,"g":0,"h":0,"i":0,"j":0}`)},
	}
}

func members(n int) string {
	var text strings.Builder
	for i := 0; text.Len() < n; i++ {
		fmt.Fprintf(&text, `"m%d":0,`, i)
	}
	return strings.TrimSuffix(text.String(), ",")
}

// waits returns the sorted latencies of 200 requests, which take at least four seconds.
func waits(b *testing.B, s *process, request []byte) (all []time.Duration) {
	b.Helper()
	c := dial(b, s.address, 0)
	defer c.Close() //nolint:errcheck // all responses have been read
	pace := time.NewTicker(20 * time.Millisecond)
	defer pace.Stop()
	for range 200 {
		<-pace.C
		all = append(all, latency(b, c, request))
	}
	slices.Sort(all)
	return all
}

// repeat sends the request from one address until ctx is done, at most 25 times a second.
func (a attack) repeat(ctx context.Context, address string) {
	dialer := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.IPv4(127, 0, 0, 200)}}
	client := http.Client{Transport: &http.Transport{DialContext: dialer.DialContext}}
	pace := time.NewTicker(40 * time.Millisecond)
	defer pace.Stop()
	for {
		method := http.MethodGet
		if a.body != "" {
			method = http.MethodPost
		}
		r, err := http.NewRequestWithContext(ctx, method, "http://"+address+a.target, strings.NewReader(a.body))
		if err != nil {
			panic(err)
		}
		r.Header.Set("Content-Type", "application/json")
		if a.token != "" {
			r.Header.Set("Authorization", "Bearer "+a.token)
		}
		if resp, err := client.Do(r); err == nil {
			io.Copy(io.Discard, resp.Body) //nolint:errcheck // the next request shows whether the server still responds
			resp.Body.Close()              //nolint:errcheck // read above
		}
		select {
		case <-ctx.Done():
			return
		case <-pace.C:
		}
	}
}
