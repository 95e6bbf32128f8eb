package main

import (
	"net/http"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"sluice/pkg/record"
)

// A command that keeps a journal refuses to continue with another workspace's key, or against a
// service with other data: it exits with 2 and says what to do. The original key still works.
func TestACommandContinuesOnlyInItsWorkspace(t *testing.T) {
	t.Parallel()
	env := []string{"DATA_DIR=" + t.TempDir(), "AUTH_MODE=api-key"}
	fillEntities(t, strings.TrimPrefix(env[0], "DATA_DIR="), 20, 1, record.TimeOf(time.Now().Add(-time.Minute)))
	s := startIn(t, env)
	var broken atomic.Bool // whether the proxy hides the export job from the command
	proxy := startProxy(t, s.url, func(w http.ResponseWriter, r *http.Request, next http.Handler) {
		if broken.Load() && strings.HasPrefix(r.URL.Path, "/export_job/") {
			w.WriteHeader(http.StatusForbidden)
			return
		}
		next.ServeHTTP(w, r)
	})
	own, other := createKey(t, env, "--scope", "import,export,dashboard"), createKey(t, env, "--workspace", "other", "--scope", "import,export,dashboard")
	dir := t.TempDir()
	events, copied, exported := filepath.Join(dir, "events.ndjson"), filepath.Join(dir, "copy.ndjson"), filepath.Join(dir, "export.ndjson")
	overwrite(t, events, eventLines(30))
	at := func(url, key string, args ...string) *exec.Cmd {
		cmd := sluiceCommand(t, url, args...)
		cmd.Env = append(cmd.Env, "SLUICE_API_KEY="+key)
		return cmd
	}
	as := func(key string, args ...string) *exec.Cmd { return at(proxy, key, args...) }
	importing, syncing := []string{"import", "events", events}, []string{"sync", "entities", copied}
	exporting := []string{"export", "entities", "-o", exported, "--unpack"}

	wantRun(t, as(own, importing...), 0, "30 events: 30 new", "")
	wantRun(t, as(own, syncing...), 0, "20 entities", "")
	broken.Store(true)
	wantRun(t, as(own, exporting...), exitFailure, "", "continues with the export job")
	broken.Store(false)
	before := read(t, copied)
	wantRun(t, as(other, importing...), exitUsage, "", "but this is the workspace other of the service ")
	wantRun(t, as(other, syncing...), exitUsage, "", "name another file, or replace the copy with --force")
	wantRun(t, as(other, exporting...), exitUsage, "", "use the URL and API key of the former, or name another file")

	resetEnv := []string{"DATA_DIR=" + t.TempDir(), "AUTH_MODE=api-key"}
	reset := startIn(t, resetEnv)
	key := createKey(t, resetEnv, "--scope", "import,export,dashboard")
	for _, args := range [][]string{importing, syncing, exporting} {
		wantRun(t, at(reset.url, key, args...), exitUsage, "", "the workspace default of the service ")
	}
	if read(t, copied) != before {
		t.Error("the copy has changed")
	}
	wantRun(t, as(own, importing...), 0, "30 events: 30 new", "Already imported")
	wantRun(t, as(own, syncing...), 0, "20 entities", "")
	wantRun(t, as(own, exporting...), 0, "20 entities", "")
	wantRun(t, as(other, append(importing, "--journal", events+".other")...), 0, "30 events: 30 new", "")
}
