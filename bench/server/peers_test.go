package server

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

const (
	peerEntities = 500_000
	peerImport   = 20_000
	batchSize    = 100
)

// Environment variables make a short run, to see whether everything works.
var (
	stored  = size("PEERS_ENTITIES", peerEntities)
	rowTime = time.Duration(size("PEERS_MS", 3000)) * time.Millisecond
)

func size(variable string, otherwise int) int {
	n := otherwise
	if text := os.Getenv(variable); text != "" {
		fmt.Sscan(text, &n) //nolint:errcheck // otherwise is right for a bad number
	}
	return n
}

// peer is a server with its own copy of the entities. Half of them have the type person and an
// indexed attribute, the others one of 1,000 types.
type peer struct {
	name string
	dialect
	*process
	dir   string
	since time.Time // before the first change
	added atomic.Int64
}

// BenchmarkPeers compares Sluice with PostgreSQL behind a thin API and with PocketBase, with 500,000
// entities and the same durability. The servers take turns, row by row. req/s counts requests, or
// walks of 1,000 changes; p50-us and p99-us are percentiles of their duration; cpu-us/op is the
// server's processor time, and KB/op is what the disk has written, with the writes of other
// programs. PostgreSQL writes its tables later, at a checkpoint. If the environment variable
// BENCH_BASE is the path of another build of sluice, that build is also measured, as impl=base.
func BenchmarkPeers(b *testing.B) {
	b.Chdir("../..")
	program := build(b, ".", "./cmd/sluice")
	peers := []*peer{
		startPeer(b, "sluice", sluice{program}, func(dir string) *process { return startUnlimited(b, program, dir) }),
		startPeer(b, "postgres", postgres{}, starter(b, build(b, "bench/postgres", "sluice/bench/postgres"))),
		startPeer(b, "pocketbase", pocketbase{}, starter(b, build(b, "bench/pocketbase", "sluice/bench/pocketbase"))),
	}
	if base := os.Getenv("BENCH_BASE"); base != "" {
		peers = append(peers, startPeer(b, "base", sluice{base}, func(dir string) *process { return startUnlimited(b, base, dir) }))
	}
	all := rows()
	for _, p := range peers { // so that no row waits for what happens once after the start
		for _, r := range all[:3] {
			repeated(b, p.process, p.dir, r.connections, rowTime/4, func(c *connection) error { return r.op(p, c) })
		}
	}
	for _, r := range all {
		rand.Shuffle(len(peers), func(i, j int) { peers[i], peers[j] = peers[j], peers[i] })
		for _, p := range peers {
			b.Run(fmt.Sprintf("row=%s/connections=%d/impl=%s", r.name, r.connections, p.name), func(b *testing.B) {
				for b.Loop() {
				}
				b.ReportMetric(0, "ns/op")
				r.measure(b, p)
			})
		}
	}
}

func starter(b *testing.B, program string) func(dir string) *process {
	return func(dir string) *process { return start(b, program, dir) }
}

func startPeer(b *testing.B, name string, d dialect, start func(dir string) *process) *peer {
	b.Helper()
	dir := filled(b, fmt.Sprint("peers-", name, "-", stored), func(dir string) {
		if s, ok := d.(sluice); ok {
			command(b, s.program, "indexes", "add", "person", "email", "--data-dir", dir)
		}
		s := start(dir)
		var batches [][]byte
		for first := 0; first < stored; first += batchSize {
			var all []string
			for n := first; n < first+batchSize; n++ {
				all = append(all, entityOf(n, 1))
			}
			batches = append(batches, d.upsert(all))
		}
		sendAll(b, s, batches)
		s.stop()
	})
	p := &peer{name: name, dialect: d, process: start(dir), dir: dir, since: time.Now().Truncate(time.Millisecond)}
	p.added.Store(int64(stored))
	return p
}

// sendAll sends requests over four connections.
func sendAll(b *testing.B, s *process, requests [][]byte) {
	b.Helper()
	var next atomic.Int64
	var group sync.WaitGroup
	for n := range 4 {
		c := dial(b, s.address, n)
		group.Go(func() {
			defer c.Close() //nolint:errcheck // all responses have been read
			for i := next.Add(1) - 1; int(i) < len(requests) && !b.Failed(); i = next.Add(1) - 1 {
				if _, err := c.exchange(requests[i]); err != nil {
					b.Error(err)
				}
			}
		})
	}
	if group.Wait(); b.Failed() {
		b.FailNow()
	}
}

// entityID returns ids in no order of n. PocketBase takes 15 characters.
func entityID(n int) string { return fmt.Sprintf("%015x", uint64(n+1)*0x9e3779b97f4a7c15>>4) }

func typeOf(n int) string {
	if n%2 == 0 {
		return "person"
	}
	return fmt.Sprint("type", n/2%1000)
}

func attributesOf(n, seats int) string {
	return strings.TrimSuffix(strings.Replace(attributes, `"seats":12`, fmt.Sprint(`"seats":`, seats), 1), "}") + fmt.Sprintf(`,"email":%q}`, email(n))
}

func entityOf(n, seats int) string {
	return fmt.Sprintf(`{"id":%q,"type":%q,"attributes":%s}`, entityID(n), typeOf(n), attributesOf(n, seats))
}

type row struct {
	name        string
	connections int
	op          func(p *peer, c *connection) error
	once        func(b *testing.B, p *peer) func() // prepares what takes seconds, instead of op
}

func rows() []row {
	one := func(request func(p *peer) []byte) func(p *peer, c *connection) error {
		return func(p *peer, c *connection) error {
			_, err := c.exchange(request(p))
			return err
		}
	}
	create := one(func(p *peer) []byte {
		n := int(p.added.Add(2))
		return p.create(fmt.Sprintf(`{"type":"person","attributes":%s}`, attributesOf(n, 1)))
	})
	batch := func(id func(p *peer) int) func(p *peer, c *connection) error {
		return one(func(p *peer) []byte {
			all := make(map[string]string) // PostgreSQL does not change an entity twice with one statement
			for len(all) < batchSize {
				n := id(p)
				all[entityID(n)] = entityOf(n, rand.IntN(1_000_000))
			}
			return p.upsert(slices.Collect(maps.Values(all)))
		})
	}
	anyone := func(*peer) int { return rand.IntN(stored) }
	added := batch(func(p *peer) int { return int(p.added.Add(1)) })
	changed := batch(anyone)
	change := one(func(p *peer) []byte {
		n := anyone(p)
		return p.change(entityID(n), attributesOf(n, rand.IntN(1_000_000)))
	})
	return []row{
		{name: "get", connections: 8, op: one(func(p *peer) []byte { return p.get(entityID(anyone(p))) })},
		{name: "list-50", connections: 8, op: one(func(p *peer) []byte { return p.list(typeOf(anyone(p) | 1)) })},
		{name: "find", connections: 8, op: one(func(p *peer) []byte { return p.find(email(anyone(p) &^ 1)) })},
		{name: "create", connections: 1, op: create},
		{name: "create", connections: 16, op: create},
		{name: "create", connections: 64, op: create},
		{name: "new-100", connections: 1, op: added},
		{name: "new-100", connections: 4, op: added},
		{name: "changed-100", connections: 1, op: changed},
		{name: "changed-100", connections: 4, op: changed},
		{name: "change", connections: 1, op: change},
		{name: "change", connections: 64, op: change},
		{name: "walk-1000", connections: 1, op: walk},
		{name: "hot-entity", connections: 16, op: one(func(p *peer) []byte { return p.change(entityID(0), attributesOf(0, rand.IntN(1_000_000))) })},
		{name: "import", connections: 1, once: func(b *testing.B, p *peer) func() {
			file := importFile(b, p)
			return func() { p.load(b, p.process, file) }
		}},
		{name: "export", connections: 1, once: func(b *testing.B, p *peer) func() { return func() { p.export(b, p.process) } }},
	}
}

// walk reads 1,000 of the changes since the filling.
func walk(p *peer, c *connection) error {
	for page := range 5 {
		if _, err := c.exchange(p.changes(p.since, page, c.body.Bytes())); err != nil {
			return err
		}
	}
	return nil
}

func importFile(b *testing.B, p *peer) string {
	b.Helper()
	var text strings.Builder
	first := int(p.added.Add(peerImport)) - peerImport
	for n := first + 1; n <= first+min(peerImport, stored); n++ {
		text.WriteString(entityOf(n, 1) + "\n")
	}
	path := filepath.Join(b.TempDir(), "import.ndjson")
	if err := os.WriteFile(path, []byte(text.String()), 0o600); err != nil {
		b.Fatal(err)
	}
	return path
}

// measure repeats the row's operation for rowTime over each connection.
func (r row) measure(b *testing.B, p *peer) {
	op, most := r.op, rowTime
	if r.once != nil {
		once := r.once(b, p)
		op, most = func(*peer, *connection) error { once(); return nil }, 0
	}
	repeated(b, p.process, p.dir, r.connections, most, func(c *connection) error { return op(p, c) }).report(b)
}

// work is what some operations took.
type work struct {
	took    []time.Duration // sorted
	elapsed time.Duration
	cpu     time.Duration
	written int // bytes
}

func (w work) rate() float64 { return float64(len(w.took)) / w.elapsed.Seconds() }

func (w work) report(b *testing.B) {
	ops := float64(len(w.took))
	b.ReportMetric(w.rate(), "req/s")
	b.ReportMetric(float64(w.took[len(w.took)/2].Nanoseconds())/1e3, "p50-us")
	b.ReportMetric(float64(w.took[len(w.took)*99/100].Nanoseconds())/1e3, "p99-us")
	b.ReportMetric(float64(w.cpu.Nanoseconds())/1e3/ops, "cpu-us/op")
	b.ReportMetric(float64(w.written)/1e3/ops, "KB/op")
}

// repeated calls op over each connection, again and again for the time least, but at least once.
func repeated(b *testing.B, s *process, dir string, connections int, least time.Duration, op func(c *connection) error) (w work) {
	b.Helper()
	before, used := written(b, dir), s.cpu(b)
	begun := time.Now()
	took := make([][]time.Duration, connections)
	var group sync.WaitGroup
	for n := range connections {
		c := dial(b, s.address, n)
		group.Go(func() {
			defer c.Close() //nolint:errcheck // all responses have been read
			for first := true; first || time.Since(begun) < least; first = false {
				start := time.Now()
				if err := op(c); err != nil {
					b.Error(err)
					return
				}
				took[n] = append(took[n], time.Since(start))
			}
		})
	}
	group.Wait()
	w.elapsed = time.Since(begun)
	w.cpu = s.cpu(b) - used
	w.written = written(b, dir) - before
	w.took = slices.Sorted(slices.Values(slices.Concat(took...)))
	if len(w.took) == 0 {
		b.Fatal("no request succeeded")
	}
	return w
}
