//go:build unix

package bolt_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"

	"sluice/pkg/bolt"
	"sluice/pkg/entity"
	"sluice/pkg/event"
	"sluice/pkg/index"
	"sluice/pkg/record"
)

const (
	benchEntities = 100_000
	benchEvents   = 300_000
)

func openBench(b *testing.B) *bolt.Stores {
	b.Helper()
	s, err := bolt.Open(b.TempDir(), bolt.Config{NoSync: true})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { s.Close() }) //nolint:errcheck // a benchmark
	return s
}

func benchID(n int) string { return fmt.Sprintf("018f-%010d", n) }

func benchDraft(n int) entity.Draft {
	return entity.Draft{ID: benchID(n), Type: []string{"person", "company"}[n/100%2], Attributes: record.Attributes(fmt.Sprintf(
		`{"name":"Ada Lovelace %d","email":"ada%d@example.com","plan":"team","seats":12,"amount":149.90,"currency":"EUR","source":{"campaign":"spring","medium":"email"},"tags":["renewal","annual"]}`, n, n))}
}

// together calls do for each of n numbers, as a batch of n records does.
func together(b *testing.B, n int, do func(ctx context.Context, n int) error) {
	var calls errgroup.Group
	for i := range n {
		calls.Go(func() error { return do(b.Context(), i) })
	}
	if err := calls.Wait(); err != nil {
		b.Fatal(err)
	}
}

func upsert(ctx context.Context, s *bolt.Stores, d entity.Draft) error {
	return entity.Upsert(ctx, s.Entities, "default", d.ID, []entity.Draft{d}, nil).Errs[0]
}

// seedEntities stores entities, of which one attribute is indexed.
func seedEntities(b *testing.B) *bolt.Stores {
	b.Helper()
	s := openBench(b)
	s.Indexed.Store(index.NewSet([]index.Declaration{{Workspace: "default", Type: "person", Fields: index.Fields{{Name: "email", ValueType: index.Text}}, Place: 1, State: index.Ready}}))
	for first := 0; first < benchEntities; first += 1000 {
		together(b, 1000, func(ctx context.Context, n int) error { return upsert(ctx, s, benchDraft(first+n)) })
	}
	return s
}

// measure calls do until b ends, and reports what each of its n records costs. The processor time
// depends less on what else is running on the machine than the time.
func measure(b *testing.B, s *bolt.Stores, n int, do func()) {
	written, used := s.WrittenBytes(), processorTime(b)
	for b.Loop() {
		do()
	}
	per := float64(b.N * n)
	b.ReportMetric(float64((processorTime(b)-used).Nanoseconds())/per, "cpu-ns/record")
	b.ReportMetric(float64(s.WrittenBytes()-written)/per, "written-B/record")
}

func processorTime(b *testing.B) time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// BenchmarkEntities does not sync, so that it measures the program and not the disk.
func BenchmarkEntities(b *testing.B) {
	s := seedEntities(b)
	next := benchEntities
	for _, group := range []int{1, 16, 100} {
		b.Run(fmt.Sprintf("op=change/group=%d", group), func(b *testing.B) {
			measure(b, s, group, func() {
				together(b, group, func(ctx context.Context, _ int) error {
					patch := record.Attributes(fmt.Sprintf(`{"seats":%d}`, rand.IntN(1_000_000)))
					return upsert(ctx, s, entity.Draft{ID: benchID(rand.IntN(benchEntities)), Attributes: patch})
				})
			})
		})
	}
	for _, group := range []int{1, 100} {
		b.Run(fmt.Sprintf("op=new/group=%d", group), func(b *testing.B) {
			measure(b, s, group, func() {
				together(b, group, func(ctx context.Context, n int) error { return upsert(ctx, s, benchDraft(next+n)) })
				next += group
			})
		})
	}
	for _, typ := range []string{"", "person"} {
		b.Run("op=list/type="+typ, func(b *testing.B) {
			measure(b, s, 50, func() {
				after := record.Cursor(benchID(rand.IntN(benchEntities - 500)))
				if page, err := s.Entities.List(b.Context(), "default", entity.Query{Type: typ, Cursor: after, Limit: 50}); err != nil || len(page.Records) != 50 {
					b.Fatal(len(page.Records), err)
				}
			})
		})
	}
}

// BenchmarkOpen opens a file that was closed, and one of a process that was killed.
func BenchmarkOpen(b *testing.B) {
	s := seedEntities(b)
	dir, killed := filepath.Dir(s.Path), b.TempDir()
	if err := os.CopyFS(killed, os.DirFS(dir)); err != nil {
		b.Fatal(err)
	}
	if err := s.Close(); err != nil {
		b.Fatal(err)
	}
	for name, dir := range map[string]string{"closed": dir, "killed": killed} {
		b.Run("after="+name, func(b *testing.B) {
			for b.Loop() {
				b.StopTimer()
				copied := filepath.Join(b.TempDir(), "data") // because Close writes to it
				if err := os.CopyFS(copied, os.DirFS(dir)); err != nil {
					b.Fatal(err)
				}
				b.StartTimer()
				s, err := bolt.Open(copied, bolt.Config{})
				b.StopTimer()
				if err != nil {
					b.Fatal(err)
				}
				s.Close() //nolint:errcheck // a benchmark
				b.StartTimer()
			}
		})
	}
}

// BenchmarkDeletions creates events before and after most events were erased.
func BenchmarkDeletions(b *testing.B) {
	s := openBench(b)
	at := time.Date(2026, 1, 2, 12, 0, 0, 0, time.UTC)
	next := 0
	create := func(n int, entityID string) {
		together(b, n, func(ctx context.Context, i int) error {
			occurred := record.TimeOf(at.Add(time.Duration(next+i) * time.Second))
			_, _, err := event.Create(ctx, s.Events, "default", event.Draft{ID: benchID(next + i), Name: "order_signed", EntityID: entityID, OccurredAt: &occurred, Attributes: record.Attributes(`{"plan":"team","seats":12}`)})
			return err
		})
		next += n
	}
	creates := func(name string) {
		b.Run("events="+name, func(b *testing.B) { measure(b, s, 1, func() { create(1, "someone") }) })
	}
	for next < benchEvents {
		create(1000, "ada")
	}
	creates("stored")
	for q := (event.Erasure{EntityID: "ada", Until: record.TimeOf(time.Now().Add(time.Hour)), Limit: 1000}); ; {
		erased, err := s.Events.Erase(b.Context(), "default", q)
		if err != nil {
			b.Fatal(err)
		}
		if q.Cursor = erased.Next; q.Cursor == "" {
			break
		}
	}
	creates("erased")
}
