package localserver

import (
	"context"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"sluice/pkg/api"
	"sluice/pkg/bolt"
	"sluice/pkg/entity"
	"sluice/pkg/exportjob"
	"sluice/pkg/job"
	"sluice/pkg/record"
)

// The path of the data directory is longer than that of a socket may be.
func TestCommandsReachARunningServer(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), strings.Repeat("long", 30))
	path := filepath.Join(t.TempDir(), "backup.zip")
	backup := func() error {
		_, err := bolt.WriteBackup(path, func(w io.Writer) error { return Backup(t.Context(), dir, w) })
		return err
	}
	for range 2 { // the second finds the socket of a server that was killed
		s, err := bolt.Open(dir, bolt.Config{NoSync: true})
		if err != nil {
			t.Fatal(err)
		}
		stop, err := startBackups(t.Context(), Backups{}, s, slog.New(slog.DiscardHandler))
		if err != nil {
			t.Fatal(err)
		}
		if err := backup(); err != nil {
			t.Fatal(err)
		}
		if r, err := Check(t.Context(), dir); err != nil || len(r.Problems) > 0 {
			t.Errorf("%+v, error %v", r, err)
		}
		if left, _ := filepath.Glob(filepath.Join(dir, "check-*")); len(left) > 0 {
			t.Errorf("left behind: %v", left)
		}
		if err := os.Truncate(s.Path, 8192); err != nil {
			t.Fatal(err)
		}
		if err := os.Remove(path); err != nil {
			t.Fatal(err)
		}
		if err := backup(); err == nil || !strings.Contains(err.Error(), s.Path+" is damaged (it is cut off)") {
			t.Errorf("a file that is cut off: %v", err)
		}
		stop()
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
		if err := os.RemoveAll(dir); err != nil {
			t.Fatal(err)
		}
		for _, name := range []string{socketFile, checkDir + "killed/data"} {
			if err := os.MkdirAll(filepath.Join(dir, name), 0o700); err != nil {
				t.Fatal(err)
			}
		}
	}
}

func TestABackupHasTheFilesOfExportJobs(t *testing.T) {
	t.Parallel()
	dir, path := t.TempDir(), filepath.Join(t.TempDir(), "backup.zip")
	b, jobs := openJobs(t, dir)
	order := api.ExportOrder{ID: "a", Resource: record.Entity, Format: record.NDJSON}
	if _, _, err := exportjob.Create(t.Context(), b.exportJobs, "default", order, 0, time.Now()); err != nil {
		t.Fatal(err)
	}
	running, stop := context.WithCancel(t.Context())
	if err := jobs.start(running); err != nil {
		t.Fatal(err)
	}
	succeeded(t, b, order.ID)
	stop()
	jobs.wait()
	if _, err := bolt.WriteBackup(path, func(w io.Writer) error { return b.embedded.Backup(t.Context(), w, "") }); err != nil {
		t.Fatal(err)
	}
	restored := t.TempDir()
	if _, err := bolt.Restore(t.Context(), path, restored); err != nil {
		t.Fatal(err)
	}
	b, _ = openJobs(t, restored)
	get := func() api.ExportJob {
		t.Helper()
		j, err := exportjob.Get(t.Context(), b.exportJobs, b.stores.ExportLinks, "default", order.ID, "", time.Now())
		if err != nil {
			t.Fatal(err)
		}
		return j
	}
	if j := get(); j.DownloadURL == nil {
		t.Errorf("the file was not restored: %+v", j)
	}
	if err := os.RemoveAll(filepath.Join(restored, bolt.ExportsDir, "default")); err != nil {
		t.Fatal(err)
	}
	if j := get(); j.DownloadURL != nil || j.Error == nil || !strings.Contains(*j.Error, "The file is missing") {
		t.Errorf("a job without its file: %+v", j)
	}
}

// openJobs opens a data directory until the end of the test.
func openJobs(t *testing.T, dir string) (*backend, *background) {
	t.Helper()
	b, err := openEmbedded(dir, entity.Clock{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { b.close() }) //nolint:errcheck // a temporary directory
	jobs, err := openBackground(b, dir, func(string) string { return "" }, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	return b, jobs
}

// succeeded waits for an export job.
func succeeded(t *testing.T, b *backend, id string) {
	t.Helper()
	again := time.NewTicker(5 * time.Millisecond)
	defer again.Stop()
	for deadline := time.Now().Add(time.Minute); ; <-again.C {
		j, err := b.exportJobs.Get(t.Context(), "default", id)
		switch {
		case err != nil || j.Status.Final() && j.Status != job.Succeeded || time.Now().After(deadline):
			t.Fatalf("%+v, error %v", j, err)
		case j.Status == job.Succeeded:
			return
		}
	}
}

func TestAServerRemovesOnlyItsOwnOldestBackups(t *testing.T) {
	t.Parallel()
	s, err := bolt.Open(t.TempDir(), bolt.Config{NoSync: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() }) //nolint:errcheck // a temporary directory
	b := &regular{Backups{Dir: t.TempDir(), Every: time.Hour, Keep: 2}, s, slog.New(slog.DiscardHandler)}
	first := time.Date(2026, 3, 1, 0, 0, 0, 0, time.UTC)
	others := []string{filepath.Base(b.path(first)), filepath.Base(b.path(first.Add(time.Minute))), "notes.txt"}
	if _, err := bolt.WriteBackup(b.path(first), func(w io.Writer) error { return s.Backup(t.Context(), w, "") }); err != nil {
		t.Fatal(err)
	}
	for _, name := range others[1:] {
		if err := os.WriteFile(filepath.Join(b.Dir, name), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for n := range 4 {
		if err := b.make(t.Context(), first.Add(time.Duration(n+1)*time.Hour)); err != nil {
			t.Fatal(err)
		}
	}
	var got []string
	files, err := os.ReadDir(b.Dir)
	for _, f := range files {
		got = append(got, f.Name())
	}
	want := append(slices.Clone(others), filepath.Base(b.path(first.Add(3*time.Hour))), filepath.Base(b.path(first.Add(4*time.Hour))))
	slices.Sort(want)
	slices.Sort(got)
	if err != nil || !slices.Equal(got, want) {
		t.Errorf("%v, want %v, error %v", got, want, err)
	}
}
