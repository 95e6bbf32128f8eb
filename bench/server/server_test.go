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

// BenchmarkServer measures requests to four routes. of-bare is the throughput of Sluice
// divided by that of the minimal server. Sluice syncs a new record to disk before it responds,
// and concurrent creates share a sync.
//
// If the environment variable BENCH_BASE is the path of another build of sluice, that build is
// also measured, as impl=base.
func BenchmarkServer(b *testing.B) {
	b.Chdir("../..")
	type server struct {
		impl string
		*process
	}
	sluice := startSluice(b, build(b, ".", "./cmd/sluice"))
	servers := []server{{"sluice", sluice}}
	if base := os.Getenv("BENCH_BASE"); base != "" {
		servers = append(servers, server{"base", startSluice(b, base)})
	}
	for _, s := range servers {
		c := dial(b, s.address, 0)
		send(b, c, post("/create_entity", `{"id":"ada","type":"person","attributes":`+attributes+`}`))
		for range 60 { // more than a list returns
			send(b, c, post("/create_entity", `{"type":"person","attributes":`+attributes+`}`))
			send(b, c, createEvent)
		}
	}
	bare := build(b, "bench", "./server/bare")
	for _, r := range []struct {
		route   string
		request []byte
	}{
		{"get-entity", get("/entity/ada")},
		{"list-entity", get("/entity?limit=50")},
		{"list-event", get("/event?limit=50")},
		{"create-event", createEvent},
	} {
		size := send(b, dial(b, sluice.address, 0), r.request)
		var bareRate float64
		for _, s := range append([]server{{"bare", start(b, bare, strconv.Itoa(size))}}, servers...) {
			b.Run("route="+r.route+"/impl="+s.impl, func(b *testing.B) {
				rate := load(b, s.process, func() []byte { return r.request })
				if s.impl == "bare" {
					bareRate = rate
				} else if bareRate > 0 {
					b.ReportMetric(rate/bareRate, "of-bare")
				}
			})
		}
	}
}

// BenchmarkWrites measures creates over 1, 16 and 64 connections. Over one connection, it also
// measures batches of 100 records, and lists. There are no rate limits. The benchmark compares
// Sluice with PocketBase and, if BENCH_BASE is set, with the build at that path.
func BenchmarkWrites(b *testing.B) {
	b.Chdir("../..")
	peer := build(b, "bench/pocketbase", "sluice/bench/pocketbase")
	servers := map[string]*process{
		"sluice":     startUnlimited(b, build(b, ".", "./cmd/sluice")),
		"pocketbase": start(b, peer, b.TempDir()),
	}
	impls := []string{"sluice", "pocketbase"}
	if base := os.Getenv("BENCH_BASE"); base != "" {
		servers["base"], impls = startUnlimited(b, base), append(impls, "base")
	}
	entity := `{"type":"person","attributes":` + attributes + `}`
	create := post("/create_entity", entity)
	batch := post("/upsert_entities", `{"entities":[`+strings.Repeat(entity+",", 99)+entity+`]}`)
	for _, r := range []struct {
		name        string
		connections int
		request     []byte // to Sluice
		peer        []byte // to PocketBase; nil if PocketBase has no such request
	}{
		{"create", 1, create, post("/api/collections/entity/records", entity)},
		{"create", 16, create, post("/api/collections/entity/records", entity)},
		{"create", 64, create, post("/api/collections/entity/records", entity)},
		{"upsert-100", 1, batch, nil},
		{"list-50", 1, get("/entity?limit=50"), nil},
		{"list-200", 1, get("/entity?limit=200"), nil},
	} {
		for _, impl := range impls {
			request := r.request
			if impl == "pocketbase" {
				request = r.peer
			}
			if request == nil {
				continue
			}
			b.Run(fmt.Sprintf("route=%s/connections=%d/impl=%s", r.name, r.connections, impl), func(b *testing.B) {
				loadOver(b, r.connections, servers[impl], func() []byte { return request })
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
					all[i] = fmt.Sprintf(`{"id":%q,"name":"order_signed","attributes":%s}`, id(first+i), attributes)
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
