// Package server measures "sluice serve" under load and compares it with a minimal HTTP server
// whose responses have the same size. Each server runs in its own process.
package server

import (
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"strings"
	"sync"
	"testing"
)

const attributes = `{"plan":"team","seats":12,"amount":149.90,"currency":"EUR","source":{"campaign":"spring","medium":"email"},"tags":["renewal","annual"]}`

func get(target string) []byte {
	return fmt.Appendf(nil, "GET %s HTTP/1.1\r\nHost: 127.0.0.1\r\nAccept: application/json\r\n\r\n", target)
}

func post(target, body string) []byte {
	return fmt.Appendf(nil, "POST %s HTTP/1.1\r\nHost: 127.0.0.1\r\nAccept: application/json\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s", target, len(body), body)
}

var createEvent = post("/create_event", `{"name":"order_signed","entity_id":"ada","attributes":`+attributes+`}`)

// BenchmarkServer measures requests to four routes of a server with 500,000 entities. of-bare is the
// throughput of Sluice divided by that of the minimal server. Sluice syncs a new record to disk
// before it responds, and concurrent creates share a sync.
//
// If the environment variable BENCH_BASE is the path of another build of sluice, that build is
// also measured, as impl=base.
func BenchmarkServer(b *testing.B) {
	b.Chdir("../..")
	programs := map[string]string{"sluice": build(b, ".", "./cmd/sluice")}
	impls := []string{"bare", "sluice"}
	if base := os.Getenv("BENCH_BASE"); base != "" {
		programs["base"], impls = base, append(impls, "base")
	}
	servers := make(map[string]*process)
	for impl, program := range programs {
		servers[impl] = startPeer(b, impl, sluice{program}, func(dir string) *process { return startUnlimited(b, program, dir) }).process
		c := dial(b, servers[impl].address, 0)
		for range 60 { // more than a list returns
			send(b, c, createEvent)
		}
	}
	bare := build(b, "bench", "./server/bare")
	for _, r := range []struct {
		route   string
		request func() []byte
	}{
		{"get-entity", func() []byte { return get("/entity/" + entityID(rand.IntN(stored))) }},
		{"list-entity", func() []byte { return get("/entity?limit=50&type=" + typeOf(rand.IntN(stored)|1)) }},
		{"list-event", func() []byte { return get("/event?limit=50") }},
		{"create-event", func() []byte { return createEvent }},
	} {
		servers["bare"] = start(b, bare, strconv.Itoa(send(b, dial(b, servers["sluice"].address, 0), r.request())))
		var bareRate float64
		for _, impl := range impls {
			b.Run("route="+r.route+"/impl="+impl, func(b *testing.B) {
				rate := load(b, servers[impl], r.request)
				if impl == "bare" {
					bareRate = rate
				} else if bareRate > 0 {
					b.ReportMetric(rate/bareRate, "of-bare")
				}
			})
		}
	}
}

// BenchmarkRecords measures requests to servers with different numbers of stored events, and the
// servers' memory: RSS-MB includes the mapped pages of the data file, and anon-MB does not.
func BenchmarkRecords(b *testing.B) {
	b.Chdir("../..")
	sluice := build(b, ".", "./cmd/sluice")
	for _, records := range []int{1000, 10_000, 100_000} {
		s := startSluice(b, sluice)
		seed(b, s.address, records)
		rss, anon := s.memory(b, "VmRSS"), s.memory(b, "RssAnon")
		for _, r := range []struct {
			route   string
			request func() []byte
		}{
			{"get-event", func() []byte { return get("/event/" + id(rand.IntN(records))) }},
			{"list-event", func() []byte { return get("/event?limit=50") }},
			{"create-event", func() []byte { return createEvent }},
		} {
			b.Run(fmt.Sprintf("route=%s/records=%d", r.route, records), func(b *testing.B) {
				load(b, s, r.request)
				if r.route == "get-event" {
					b.ReportMetric(rss, "RSS-MB")
					b.ReportMetric(anon, "anon-MB")
				}
			})
		}
		s.Kill()
	}
}

func id(n int) string { return fmt.Sprintf("018f-%010d", n) }

// seed creates events in concurrent batches.
func seed(b *testing.B, server string, records int) {
	const batch, writers = 100, 16
	batches := make(chan int)
	var group sync.WaitGroup
	for n := range writers {
		c := dial(b, server, n)
		group.Go(func() {
			defer c.Close() //nolint:errcheck // all responses have been read
			for first := range batches {
				all := make([]string, batch)
				for i := range all {
					all[i] = fmt.Sprintf(`{"id":%q,"name":"order_signed","entity_id":"ada","attributes":%s}`, id(first+i), attributes)
				}
				if _, err := c.exchange(post("/create_events", `{"events":[`+strings.Join(all, ",")+`]}`)); err != nil {
					b.Error(err)
				}
			}
		})
	}
	for first := 0; first < records; first += batch {
		batches <- first
	}
	close(batches)
	group.Wait()
	if b.Failed() {
		b.FailNow()
	}
}

// send returns the length of the response's body. A failed request ends the benchmark.
func send(b *testing.B, c *connection, request []byte) int {
	b.Helper()
	length, err := c.exchange(request)
	if err != nil {
		b.Fatal(err)
	}
	return length
}
