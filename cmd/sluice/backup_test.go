package main

import (
	"net/http"
	"os"
	"path/filepath"
	"syscall"
	"testing"
)

// The test follows docs/server.md, from a backup of a running server to another one with the restored
// records.
func TestARunningServerIsBackedUpAndRestored(t *testing.T) {
	t.Parallel()
	dir, file := t.TempDir(), filepath.Join(t.TempDir(), "monday.zip")
	in := []string{"DATA_DIR=" + dir}
	s := start(t, dir)
	source := s.client(t).want(t, http.StatusCreated, "POST", "/create_entity", `{"id":"ada"}`).header.Get("Sluice-Source")
	wantRun(t, inEnv(t, in, "backup", file), 0, file+" is complete and verified", "")
	wantRun(t, inEnv(t, in, "backup", file), exitFailure, "", "exists already")
	wantRun(t, inEnv(t, in, "check"), 0, dir+" is in order: 1 entities, 0 events", "")
	wantRun(t, inEnv(t, in, "compact"), exitFailure, "", "in use by another process")
	s.client(t).want(t, http.StatusOK, "POST", "/delete_entity", `{"id":"ada"}`)
	s.stop(t)
	wantRun(t, inEnv(t, in, "compact"), 0, "The file with the records had", "")

	restored := filepath.Join(t.TempDir(), "restored")
	wantRun(t, inEnv(t, nil, "restore", file, "--data-dir", restored), 0, restored+" has 1 entities", "")
	again := start(t, restored, "--backup-dir", t.TempDir())
	if r := again.client(t).want(t, http.StatusOK, "GET", "/entity/ada", ""); r.header.Get("Sluice-Source") == source {
		t.Errorf("Sluice-Source is %s as before", source)
	}

	if err := again.Signal(syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	again.Wait() //nolint:errcheck // it was killed
	records := filepath.Join(restored, "sluice.db")
	if err := os.Truncate(records, 20_000); err != nil {
		t.Fatal(err)
	}
	damaged := records + " is damaged (it has 20000 bytes instead of"
	in = []string{"DATA_DIR=" + restored}
	wantRun(t, inEnv(t, in, "serve", "--addr", "127.0.0.1:0"), exitFailure, "", damaged)
	wantRun(t, inEnv(t, in, "backup", file+"2"), exitFailure, "", records+" is damaged (it is cut off)")
	wantRun(t, inEnv(t, in, "check"), exitFailure, "", "sluice.db: it has 20000 bytes instead of")
}
