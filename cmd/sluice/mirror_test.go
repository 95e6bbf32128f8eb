package main

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"sluice/pkg/record"
)

// The test follows "Mirror a file" in docs/cli.md.
func TestImportMirror(t *testing.T) {
	t.Parallel()
	data := t.TempDir()
	fillEntities(t, data, 250, 1, record.TimeOf(time.Now().Add(-time.Minute)))
	s := startIn(t, append([]string{"DATA_DIR=" + data}, unlimited...))
	var tombstones strings.Builder
	for i := range 200 {
		fmt.Fprintf(&tombstones, `{"id":"%07d","deleted":true}`+"\n", i)
	}
	file := write(t, "tombstones.ndjson", tombstones.String())
	wantRun(t, sluiceCommand(t, s.url, "import", "entities", file, "--mirror", "--dry-run"), 0, "200 entities: 200 would be sent, 0 would be rejected.", "")
	wantRun(t, sluiceCommand(t, s.url, "import", "entities", file, "--mirror"), 0, "200 entities: 0 new, 0 there already, 0 updated, 200 deleted, 0 rejected. 2 calls in ", "")

	file = write(t, "whole.ndjson", `{"id":"0000200","attributes":{"n":null}}`+"\n"+`{"id":"new"}`+"\n")
	args := []string{"import", "entities", file, "--mirror", "--whole"}
	_, stderr := wantRun(t, sluiceCommand(t, s.url, args...), exitFailure, "", "none of them is deleted without --yes")
	if !strings.Contains(stderr, "49 entities that "+file+" lacks: 49 of the type ") || !strings.Contains(stderr, "The same command continues after line 2") {
		t.Errorf("it says %s", stderr)
	}
	out, _ := wantRun(t, sluiceCommand(t, s.url, append(args, "--yes")...), 0, "2 entities: ", "Continuing after line 2.")
	if !strings.Contains(out, "\n49 entities that the file lacks deleted.\n") {
		t.Errorf("it prints %s", out)
	}
	if r := s.client(t).want(t, http.StatusOK, "GET", "/entity", ""); strings.Count(r.body, `"revision"`) != 2 || !strings.Contains(r.body, `"attributes":{"n":null}`) {
		t.Errorf("left: %s", r.body)
	}
	wantRun(t, sluiceCommand(t, s.url, "import", "entities", "-", "--mirror", "--whole"), exitUsage, "", "--whole needs a file")
}
