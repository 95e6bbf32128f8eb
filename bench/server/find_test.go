package server

import (
	"fmt"
	"math/rand/v2"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

const findEntities = 1_000_000

// BenchmarkFind measures lookups by an indexed attribute, by two and by id, and how much building the
// indexes slows other requests down. p50-us and p99-us are percentiles of the latency of requests
// sent one after another, s is how long both builds take, and slowdown is the median latency
// during the build divided by the median before it.
func BenchmarkFind(b *testing.B) {
	b.Chdir("../..")
	program := build(b, ".", "./cmd/sluice")
	dir := b.TempDir()
	s := startUnlimited(b, program, dir)
	seedEntities(b, s.address, findEntities)
	c := dial(b, s.address, 0)
	requests := map[string]func() []byte{
		"get-entity":    func() []byte { return get("/entity/" + id(rand.IntN(findEntities))) },
		"list-entity":   func() []byte { return get("/entity?limit=50") },
		"create-entity": func() []byte { return post("/create_entity", `{"type":"person","attributes":{}}`) },
	}
	before := make(map[string]time.Duration)
	for name, request := range requests {
		before[name], _ = latencies(b, c, 1000, request)
	}
	for _, attributes := range [][]string{{"email"}, {"group", "n:number"}} {
		args := slices.Concat([]string{"indexes", "add", "person"}, attributes, []string{"--data-dir", dir})
		if out, err := exec.Command(program, args...).CombinedOutput(); err != nil {
			b.Fatalf("add index: %v\n%s", err, out)
		}
	}
	begun := time.Now()
	during := make(map[string][]time.Duration)
	for ready := false; !ready; {
		for name, request := range requests {
			for range 20 {
				during[name] = append(during[name], latency(b, c, request()))
			}
		}
		out, err := exec.Command(program, "indexes", "list", "--data-dir", dir).Output()
		if err != nil {
			b.Fatal(err)
		}
		ready = strings.Count(string(out), " ready ") == 2
	}
	took := time.Since(begun)
	for name := range requests {
		b.Run("build/route="+name, func(b *testing.B) {
			for b.Loop() {
			}
			b.ReportMetric(0, "ns/op")
			b.ReportMetric(took.Seconds(), "s")
			b.ReportMetric(float64(median(during[name]))/float64(before[name]), "slowdown")
		})
	}
	for name, request := range map[string]func() []byte{
		"id":    requests["get-entity"],
		"email": func() []byte { return get("/entity?type=person&attributes.email=" + email(rand.IntN(findEntities))) },
		"two": func() []byte {
			n := rand.IntN(findEntities)
			return get(fmt.Sprintf("/entity?type=person&attributes.group=%s&attributes.n[gte]=%d&limit=1", groupOf(n), n))
		},
	} {
		b.Run("lookup/by="+name, func(b *testing.B) {
			for b.Loop() {
			}
			p50, p99 := latencies(b, c, 5000, request)
			b.ReportMetric(0, "ns/op")
			b.ReportMetric(float64(p50.Nanoseconds())/1000, "p50-us")
			b.ReportMetric(float64(p99.Nanoseconds())/1000, "p99-us")
		})
	}
}

// groupOf returns the name of one of 10 groups.
func groupOf(n int) string { return fmt.Sprintf("group-%d", n%10) }

func email(n int) string { return fmt.Sprintf("person-%d@example.com", n) }

func seedEntities(b *testing.B, server string, count int) {
	const batch, writers = 100, 8
	batches := make(chan int)
	var group sync.WaitGroup
	for n := range writers {
		c := dial(b, server, n)
		group.Go(func() {
			for first := range batches {
				var entities []string
				for n := first; n < first+batch; n++ {
					entities = append(entities, fmt.Sprintf(`{"id":%q,"type":"person","attributes":{"email":%q,"group":%q,"n":%d}}`, id(n), email(n), groupOf(n), n))
				}
				send(b, c, post("/upsert_entities", `{"entities":[`+strings.Join(entities, ",")+`]}`))
			}
		})
	}
	for _, first := range rand.Perm(count / batch) {
		batches <- first * batch
	}
	close(batches)
	group.Wait()
}

func latency(b *testing.B, c *connection, request []byte) time.Duration {
	b.Helper()
	begun := time.Now()
	send(b, c, request)
	return time.Since(begun)
}

// latencies sends n requests, one after another, and returns percentiles of their latency.
func latencies(b *testing.B, c *connection, n int, request func() []byte) (p50, p99 time.Duration) {
	b.Helper()
	var all []time.Duration
	for range n {
		all = append(all, latency(b, c, request()))
	}
	slices.Sort(all)
	return all[n/2], all[n*99/100]
}

func median(all []time.Duration) time.Duration {
	slices.Sort(all)
	return all[len(all)/2]
}
