package server

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"
)

// BenchmarkDeletions compares the creates of two servers, in turn: one has 1,000,000 entities, and the
// other has also had an index of them that was removed, and then 600,000 events that were erased. of-before
// is the median rate of creates after that, divided by the median of the server that had neither.
func BenchmarkDeletions(b *testing.B) {
	b.Chdir("../..")
	program := build(b, ".", "./cmd/sluice")
	entities, events := size("DELETIONS_ENTITIES", findEntities), size("DELETIONS_EVENTS", 600_000)
	open := func() (*process, string) {
		dir := filled(b, fmt.Sprint("deletions-", entities), func(dir string) {
			s := startUnlimited(b, program, dir)
			seedEntities(b, s.address, entities)
			s.stop()
		})
		return startUnlimited(b, program, dir), dir
	}
	before, beforeDir := open()
	after, afterDir := open()
	compare := func(name string) {
		for _, connections := range []int{1, 16} {
			b.Run(fmt.Sprintf("after=%s/connections=%d", name, connections), func(b *testing.B) {
				for b.Loop() {
				}
				create := func(c *connection) error {
					_, err := c.exchange(post("/create_entity", `{"type":"person","attributes":`+attributes+`}`))
					return err
				}
				var rates [2][]float64
				var bytes, creates [2]int
				for range 5 {
					for i, w := range []work{
						repeated(b, before, beforeDir, connections, rowTime/2, create),
						repeated(b, after, afterDir, connections, rowTime/2, create),
					} {
						rates[i] = append(rates[i], w.rate())
						bytes[i] += w.written
						creates[i] += len(w.took)
					}
				}
				slices.Sort(rates[0])
				slices.Sort(rates[1])
				b.ReportMetric(0, "ns/op")
				b.ReportMetric(rates[0][2], "before-req/s")
				b.ReportMetric(rates[1][2], "after-req/s")
				b.ReportMetric(rates[1][2]/rates[0][2], "of-before")
				b.ReportMetric(float64(bytes[0])/float64(creates[0])/1e3, "before-KB/op")
				b.ReportMetric(float64(bytes[1])/float64(creates[1])/1e3, "after-KB/op")
			})
		}
	}
	indexes := func(args ...string) string {
		return command(b, program, append(append([]string{"indexes"}, args...), "--data-dir", afterDir)...)
	}
	indexes("add", "person", "email")
	for !strings.Contains(indexes("list"), " ready ") {
		time.Sleep(time.Second)
	}
	indexes("remove", "person", "email")
	for strings.Contains(indexes("list"), "email") {
		time.Sleep(time.Second)
	}
	compare("index-removed")
	seed(b, after.address, events)
	c := dial(b, after.address, 0)
	defer c.Close() //nolint:errcheck // all responses have been read
	send(b, c, post("/create_entity", `{"id":"ada"}`))
	send(b, c, post("/delete_entity", `{"id":"ada","events":true}`))
	for !bytes.Contains(c.body.Bytes(), []byte(`"status":"succeeded"`)) {
		time.Sleep(time.Second)
		send(b, c, get("/erasure_job/ada"))
	}
	compare("events-erased")
}
