package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"sluice/cmd/sluice/internal/syncer"
	"sluice/pkg/client"
	"sluice/pkg/entity"
	"sluice/pkg/event"
	"sluice/pkg/record"
)

// TestSyncAndExportSince kills runs of "sync", changes records between the runs, and
// interrupts "export --since".
func TestSyncAndExportSince(t *testing.T) {
	t.Parallel()
	const total = 3000
	data, dir := t.TempDir(), t.TempDir()
	fillEntities(t, data, total, 1, record.TimeOf(time.Now().Add(-time.Minute)))
	s := startIn(t, append([]string{"DATA_DIR=" + data}, unlimited...))
	g := newGate(t, s.url)
	entities, events := filepath.Join(dir, "entities.ndjson"), filepath.Join(dir, "events.ndjson")

	first := killedSync(t, g, 4, "entities", entities)
	if first.Records != total {
		t.Errorf("the new copy: %+v", first)
	}
	wantSynced(t, s, "entities", entities)
	killedSync(t, g, 0, "events", events)

	changeRecords(t, s)
	if r := killedSync(t, g, 2, "entities", entities); r.Records != total {
		t.Errorf("after changes: %+v", r)
	}
	wantSynced(t, s, "entities", entities)
	if r := killedSync(t, g, 2, "events", events); r.Records != 1000 {
		t.Errorf("after changes: %+v", r)
	}
	wantSynced(t, s, "events", events)
	if r := killedSync(t, g, 0, "entities", entities); r.Changes >= 900 || r.SyncedUntil.Compare(first.SyncedUntil) <= 0 {
		t.Errorf("without changes: %+v", r)
	}
	wantFiles(t, dir, "entities.ndjson", "entities.ndjson.sluice-sync", "events.ndjson", "events.ndjson.sluice-sync")
	exportChanges(t, g, first.SyncedUntil)
}

// changeRecords changes 700 entities, deletes 101, recreates one of the deleted entities, and
// creates 100 more. It also creates 1,000 events, most of them dated in the past.
func changeRecords(t *testing.T, s *server) {
	t.Helper()
	c, err := client.New(s.url, client.Config{})
	if err != nil {
		t.Fatal(err)
	}
	var changed []entity.Draft
	for i := range 800 {
		e := entity.Draft{ID: fmt.Sprintf("%07d", 2*i), Attributes: record.Attributes(`{"changed":1}`)}
		if i >= 700 {
			e.ID = fmt.Sprint("new-", i)
		}
		changed = append(changed, e)
	}
	for ; len(changed) > 0; changed = changed[client.MaxBatch:] {
		if _, err := c.UpsertEntities(t.Context(), changed[:client.MaxBatch]); err != nil {
			t.Fatal(err)
		}
	}
	for i := range 101 {
		if err := c.DeleteEntity(t.Context(), fmt.Sprintf("%07d", 1500+i)); err != nil {
			t.Fatal(err)
		}
	}
	if _, _, err := c.CreateEntity(t.Context(), entity.Draft{ID: "0001500"}); err != nil {
		t.Fatal(err)
	}
	for i := range 10 {
		var late []event.Draft
		for j := range client.MaxBatch {
			at := record.TimeOf(time.Now().Add(-time.Duration(i*j) * time.Hour))
			late = append(late, event.Draft{Name: "late", EntityID: "0000001", OccurredAt: &at})
		}
		if _, err := c.CreateEvents(t.Context(), late); err != nil {
			t.Fatal(err)
		}
	}
}

// killedSync kills n runs of "sync", lets one more run complete, and returns the result of that
// run. A killed run gets only one or two pages, so it must have at least three to read.
func killedSync(t *testing.T, g *gate, n int, resource, file string) (r syncer.Result) {
	t.Helper()
	for killed := 0; ; killed++ {
		cmd := sluiceCommand(t, g.url, "sync", resource, file, "--json")
		var out, stderr bytes.Buffer
		cmd.Stdout, cmd.Stderr = &out, &stderr
		started, ended := make(chan struct{}), make(chan struct{})
		if killed < n {
			pages := 1 + rand.IntN(2)
			g.runAfter(pages, func() {
				<-started
				time.AfterFunc(rand.N(10*time.Millisecond), func() { cmd.Process.Kill() }) //nolint:errcheck // the exit code is checked
			})
			g.runAfter(pages+1, func() { <-ended })
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		close(started)
		err := cmd.Wait()
		close(ended)
		if killed < n {
			if cmd.ProcessState.ExitCode() != -1 { // the exit code is -1 after a signal
				t.Fatalf("the run ended before it was killed: %v, %s%s", err, out.String(), stderr.String())
			}
			continue
		}
		if err == nil {
			err = json.Unmarshal(out.Bytes(), &r)
		}
		if err != nil {
			t.Fatalf("%v: %s", err, stderr.String())
		}
		return r
	}
}

// wantSynced compares the copy in file with an export of the service's records.
func wantSynced(t *testing.T, s *server, resource, file string) {
	t.Helper()
	want := filepath.Join(t.TempDir(), "export.ndjson")
	wantRun(t, sluiceCommand(t, s.url, "export", resource, "-o", want), 0, "", "")
	lines := strings.SplitAfter(read(t, want), "\n")
	slices.Sort(lines) // by id, because each line begins with the id
	if got := read(t, file); got != strings.Join(lines, "") {
		t.Errorf("the copy of %s has %d bytes, which differ from the %d of the service", resource, len(got), len(read(t, want)))
	}
}

// exportChanges checks an export of the changes that changeRecords made.
func exportChanges(t *testing.T, g *gate, since record.Time) {
	t.Helper()
	dir := t.TempDir()
	file := filepath.Join(dir, "changes.ndjson")
	args := []string{"export", "entities", "--since", since.String(), "--include-deleted", "-o", file}
	// If interrupted, the export exits with 130, and the next run continues it.
	cmd := sluiceCommand(t, g.url, args...)
	var interrupted bytes.Buffer
	cmd.Stderr = &interrupted
	started, ended := make(chan struct{}), make(chan struct{})
	g.runAfter(3, func() {
		<-started
		cmd.Process.Signal(os.Interrupt) //nolint:errcheck // the exit code is checked
		<-ended                          // the command ends before it receives the third page
	})
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	close(started)
	err := cmd.Wait()
	close(ended)
	if cmd.ProcessState.ExitCode() != exitInterrupted || !strings.HasSuffix(interrupted.String(), "sluice: interrupted\nThe same command continues after 250 changes\n") {
		t.Errorf("%v, %s", err, interrupted.String())
	}
	wantFiles(t, dir, "changes.ndjson.sluice-export", "changes.ndjson.sluice-export.part")
	out, stderr, code := run(t, sluiceCommand(t, g.url, args...))
	printed := regexp.MustCompile(`^901 changes in .*changes.ndjson.\nsynced_until (\S+)\n$`).FindStringSubmatch(out)
	if code != 0 || printed == nil || stderr != "Continuing after 250 changes.\n" {
		t.Fatalf("exit code %d, %s%s", code, out, stderr)
	}
	text := read(t, file)
	if changes, deleted := strings.Count(text, "\n"), strings.Count(text, `,"deleted":true}`); changes != 901 || deleted != 100 {
		t.Errorf("%d changes, of these %d tombstones", changes, deleted)
	}
	wantFiles(t, dir, "changes.ndjson")

	// The next export uses the printed time as its --since.
	out, stderr, code = run(t, sluiceCommand(t, g.url, "export", "entities", "--since", printed[1], "-o", "-"))
	if code != 0 || out != "" || !strings.HasPrefix(stderr, "0 changes in standard output.\nsynced_until 2") {
		t.Errorf("exit code %d, %s%s", code, out, stderr)
	}
	packed := filepath.Join(dir, "events.ndjson.gz")
	out, stderr, code = run(t, sluiceCommand(t, g.url, "export", "events", "--since", since.String(), "--entity-id", "0000001", "-o", packed, "--json"))
	var r changesResult
	if err := json.Unmarshal([]byte(out), &r); err != nil || code != 0 || r.Records != 1000 || r.SyncedUntil.Compare(since) <= 0 {
		t.Errorf("exit code %d, %s%s, %v", code, out, stderr, err)
	}
	if n := strings.Count(gunzip(t, read(t, packed)), `"name":"late"`); n != 1000 {
		t.Errorf("%d events", n)
	}
}

// Without --force, sync neither changes the file nor creates another file.
func TestSyncRefusesAFileOfAnotherProgram(t *testing.T) {
	t.Parallel()
	file := write(t, "mine.ndjson", `{"id":"mine"}`)
	out, stderr, code := run(t, sluiceCommand(t, sourceOnly(t), "sync", "entities", file))
	if want := "sluice: " + file + " exists, and no sync has written it; name another file, or replace it with --force\n"; code != exitUsage || out != "" || stderr != want {
		t.Errorf("exit code %d, %s%s; want %s", code, out, stderr, want)
	}
	if text := read(t, file); text != `{"id":"mine"}` {
		t.Errorf("the file is now %s", text)
	}
	wantFiles(t, filepath.Dir(file), "mine.ndjson")

	s := start(t, t.TempDir())
	wantRun(t, sluiceCommand(t, s.url, "sync", "entities", file, "--force", "--rate", "500"), 0, "0 entities in "+file+", complete up to 1970-01-01T00:00:00.000Z", "")
	if text := read(t, file); text != "" {
		t.Errorf("the copy is %s", text)
	}
}

func TestPagesForARate(t *testing.T) {
	t.Parallel()
	for rate, want := range map[int][2]int{
		0: {0, 0}, 1: {1, 1}, 50: {1, 50}, 51: {2, 25}, 99: {2, 49}, 100: {2, 50}, 101: {3, 33}, 1000: {20, 50},
	} {
		if pages, size := pagesFor(rate); pages != want[0] || size != want[1] {
			t.Errorf("%d records: %d pages of %d, want %v", rate, pages, size, want)
		}
	}
	if pages, size := pagesFor(math.MaxInt); pages < 1 || size < 1 || size > 50 {
		t.Errorf("%d pages of %d", pages, size)
	}
}
