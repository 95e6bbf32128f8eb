// Package clients compares the Go client, the Python clients, the TypeScript client on Node.js, the
// Python package "requests", and fetch with the package "p-retry". Each calls a server that "sluice
// serve" runs with default limits and API keys. "make python-client requests npm-package p-retry"
// fetches or builds the packages.
package clients

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"sluice/internal/test/child"
	"sluice/pkg/api"
	"sluice/pkg/client"
	"sluice/pkg/entity"
	"sluice/pkg/event"
	"sluice/pkg/record"
)

const (
	workers        = 4
	reads, batches = 2000, 500
	small, large   = 10, 100 // records in a batch
	events         = 100_000
	limit          = 200 // requests and records per second
)

type result struct {
	Tries  []try   `json:"tries"`
	Import float64 `json:"import"` // records per second
	Export float64 `json:"export"` // records per second
	CPU    float64 `json:"cpu"`    // processor time of the client, in seconds
}

type try struct {
	Route  string  `json:"route"`
	Status int     `json:"status"`
	At     float64 `json:"at"` // Unix time, in seconds
}

var root = filepath.Join("..", "..")

// service starts a server with its own data directory and an API key.
func service(b *testing.B, program string) (url, key string) {
	b.Helper()
	env := append(os.Environ(), "DATA_DIR="+b.TempDir(), "AUTH_MODE=api-key", "ADDR=127.0.0.1:0")
	create := exec.Command(program, "keys", "create", "--scope", "import", "--scope", "export")
	create.Env = env
	out, err := create.Output()
	if err != nil {
		b.Fatal(err)
	}
	serve := exec.Command(program, "serve")
	serve.Env = env
	p, err := child.Start(serve)
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(p.Kill)
	if url, err = p.ReadyText(b.Context(), `Sluice listens on (\S+)\n`); err != nil {
		b.Fatal(err)
	}
	return url, strings.TrimSpace(string(out))
}

func build(b *testing.B) string {
	b.Helper()
	path := filepath.Join(b.TempDir(), "sluice")
	cmd := exec.Command("go", "build", "-o", path, "./cmd/sluice")
	cmd.Dir = root
	if out, err := cmd.CombinedOutput(); err != nil {
		b.Fatalf("%v\n%s", err, out)
	}
	return path
}

// run starts a new server and has a client perform a task against it.
func run(b *testing.B, program, name, task string, share float64) result {
	b.Helper()
	url, key := service(b, program)
	if name == "go" {
		r, err := runGo(b.Context(), task, url, key, share)
		if err != nil {
			b.Fatal(err)
		}
		return r
	}
	cmd := command(b.Context(), name, task, url, fmt.Sprint(share))
	cmd.Stdin = strings.NewReader(key)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		b.Fatalf("%v\n%s", err, stderr.Bytes())
	}
	var r result
	if err := json.Unmarshal(out, &r); err != nil {
		b.Fatal(err)
	}
	return r
}

// command returns the command that runs a client in another language than Go.
func command(ctx context.Context, name, task, url, share string) *exec.Cmd {
	cached := func(path string) string { return filepath.Join(root, ".cache", path) }
	switch name {
	case "typescript":
		return exec.CommandContext(ctx, "node", "workers.mjs", name, task, url, share, filepath.Join(root, "clients/typescript/dist/index.js"))
	case "p-retry":
		return exec.CommandContext(ctx, "node", "workers.mjs", name, task, url, share, cached("p-retry/node_modules/p-retry/index.js"))
	}
	python := cached("python-client/bin/python")
	if name == "requests" {
		python = cached("requests/bin/python")
	}
	cmd := exec.CommandContext(ctx, python, "workers.py", name, task, url, share)
	cmd.Env = append(os.Environ(), "PYTHONPATH="+filepath.Join(root, "clients/python/src"), "PYTHONDONTWRITEBYTECODE=1")
	return cmd
}

// BenchmarkClientsPace reports how much of its share of the limits a client uses during 2,000
// reads and during 500 batches, ignoring the first and last second of each. It also reports how
// many 429s the client gets, in total and after its first second.
func BenchmarkClientsPace(b *testing.B) {
	program := build(b)
	for _, share := range []float64{1, client.DefaultShare} {
		for _, name := range []string{"go", "sync", "async", "typescript"} {
			b.Run(fmt.Sprintf("share=%v/impl=%s", share, name), func(b *testing.B) {
				for b.Loop() {
					r := run(b, program, name, "pace", share)
					for route, unit := range map[string]string{"get-entity": "reads-used", "create-events": "batches-used"} {
						b.ReportMetric(used(r.Tries, route)/share, unit)
					}
					b.ReportMetric(float64(refused(r.Tries, r.Tries[0].At+1)), "429s-later")
					b.ReportMetric(float64(refused(r.Tries, 0)), "429s")
				}
				b.ReportMetric(0, "ns/op") // hides ns/op, which has no meaning here
			})
		}
	}
}

// used returns the share of the limit that a route used, ignoring the first and last second.
func used(tries []try, route string) float64 {
	perSecond := make(map[int64]int)
	first, last := int64(1<<62), int64(0)
	for _, t := range tries {
		if t.Route == route && t.Status < 300 {
			second := int64(t.At)
			perSecond[second]++
			first, last = min(first, second), max(last, second)
		}
	}
	sum := 0
	for second := first + 1; second < last; second++ {
		sum += perSecond[second]
	}
	return float64(sum) / float64(last-first-1) / limit
}

// refused counts the 429s after a Unix time.
func refused(tries []try, after float64) (n int) {
	for _, t := range tries {
		if t.Status == 429 && t.At > after {
			n++
		}
	}
	return n
}

// BenchmarkClientsMove reports how many records per second a client imports in batches, and how
// many it exports with an export job.
func BenchmarkClientsMove(b *testing.B) {
	program := build(b)
	for _, name := range []string{"go", "sync", "async", "requests", "typescript", "p-retry"} {
		b.Run("impl="+name, func(b *testing.B) {
			for b.Loop() {
				r := run(b, program, name, "move", 1)
				b.ReportMetric(r.Import, "imported/s")
				b.ReportMetric(r.Export, "exported/s")
				b.ReportMetric(float64(refused(r.Tries, 0)), "429s")
			}
			b.ReportMetric(0, "ns/op") // hides ns/op, which has no meaning here
		})
	}
}

func runGo(ctx context.Context, task, url, key string, share float64) (r result, err error) {
	var mu sync.Mutex
	c, err := client.New(url, client.Config{Key: key, Share: share, OnTry: func(t client.Try) {
		mu.Lock()
		defer mu.Unlock()
		r.Tries = append(r.Tries, try{t.Route, t.Status, float64(time.Now().UnixMicro()) / 1e6})
	}})
	if err != nil {
		return r, err
	}
	if task == "pace" {
		if _, _, err := c.CreateEntity(ctx, entity.Draft{ID: "one"}); err != nil {
			return r, err
		}
		err = each(reads, func(int) error {
			_, err := c.GetEntity(ctx, "one")
			return err
		})
		if err == nil {
			err = each(batches, func(i int) error { return createEvents(ctx, c, small, i) })
		}
		return r, err
	}
	began := time.Now()
	if err := each(events/large, func(i int) error { return createEvents(ctx, c, large, i) }); err != nil {
		return r, err
	}
	r.Import = events / time.Since(began).Seconds()
	began = time.Now()
	err = export(ctx, c)
	r.Export = events / time.Since(began).Seconds()
	return r, err
}

func each(calls int, one func(i int) error) (err error) {
	next := make(chan int)
	errs := make(chan error, workers)
	for range workers {
		go func() {
			var failed error
			for i := range next {
				if failed == nil {
					failed = one(i)
				}
			}
			errs <- failed
		}()
	}
	for i := range calls {
		next <- i
	}
	close(next)
	for range workers {
		if failed := <-errs; failed != nil {
			err = failed
		}
	}
	return err
}

func createEvents(ctx context.Context, c *client.Client, size, number int) error {
	var drafts []event.Draft
	for i := range size {
		drafts = append(drafts, event.Draft{
			ID: fmt.Sprintf("e-%d-%d", number, i), Name: "n", EntityID: fmt.Sprintf("c-%d", i%10),
			Attributes: fmt.Appendf(nil, `{"n":%d,"total":%d.5}`, i, i),
		})
	}
	results, err := c.CreateEvents(ctx, drafts)
	for _, r := range results {
		if err == nil {
			err = r.Err
		}
	}
	return err
}

func export(ctx context.Context, c *client.Client) error {
	j, _, err := c.CreateExportJob(ctx, api.ExportOrder{Resource: record.Event, Format: record.NDJSON})
	if err != nil {
		return err
	}
	if _, err := c.AwaitExportJob(ctx, j.ID, nil); err != nil {
		return err
	}
	var file bytes.Buffer
	if _, err := c.DownloadExport(ctx, j.ID, 0, &file); err != nil {
		return err
	}
	lines, err := gzip.NewReader(&file)
	if err != nil {
		return err
	}
	found := 0
	for d := json.NewDecoder(lines); d.More(); found++ {
		var e event.Event
		if err := d.Decode(&e); err != nil {
			return err
		}
	}
	if found != events {
		return fmt.Errorf("the file has %d events", found)
	}
	return nil
}
