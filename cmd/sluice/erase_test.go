package main

import (
	"bufio"
	"bytes"
	"fmt"
	"net/http"
	"path/filepath"
	"strings"
	"testing"

	"sluice/pkg/client"
	"sluice/pkg/entity"
	"sluice/pkg/event"
)

// "sluice erase" waits until a new server with the same data has completed the erasure. The
// next sync removes the erased events from a copy.
func TestEraseSurvivesAKilledServer(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	s := start(t, dir)
	c := newClient(t, s.url)
	if _, _, err := c.CreateEntity(t.Context(), entity.Draft{ID: "ada"}); err != nil {
		t.Fatal(err)
	}
	for i := range 3 {
		var events []event.Draft
		for n := range 100 {
			events = append(events, event.Draft{ID: fmt.Sprint("e", i, "-", n), Name: "n", EntityID: "ada"})
		}
		if _, err := c.CreateEvents(t.Context(), append(events[:99:99], event.Draft{ID: fmt.Sprint("other", i), Name: "n", EntityID: "bob"})); err != nil {
			t.Fatal(err)
		}
	}
	g, events := newGate(t, s.url), filepath.Join(t.TempDir(), "events.ndjson")
	if r := killedSync(t, g, 0, "events", events); r.Records != 300 {
		t.Errorf("before the erasure: %+v", r)
	}
	cmd := sluiceCommand(t, s.url, "erase", "entity", "ada")
	var out bytes.Buffer
	cmd.Stdout = &out
	stderr, err := cmd.StderrPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { cmd.Process.Kill() }) //nolint:errcheck // the command may have ended
	if line, err := bufio.NewReader(stderr).ReadString('\n'); err != nil || !strings.Contains(line, "Waiting for the job") {
		t.Fatalf("%q, %v", line, err)
	}
	s.Kill()
	again := startIn(t, []string{"DATA_DIR=" + dir, "ADDR=" + strings.TrimPrefix(s.url, "http://")})
	err = cmd.Wait()
	erased := 0 // does not always include the last page that the killed server erased
	if _, wrong := fmt.Sscanf(out.String(), "Erased the entity ada and %d events.\n", &erased); err != nil || wrong != nil || erased > 297 || erased < 197 {
		t.Errorf("%v: %s", err, out.String())
	}
	if page, err := c.ListEvents(t.Context(), client.EventQuery{EntityID: "ada"}); err != nil || len(page.Data) != 0 {
		t.Errorf("events of ada that remain: %+v, error %v", page, err)
	}
	if page, err := c.ListEvents(t.Context(), client.EventQuery{}); err != nil || len(page.Data) != 3 {
		t.Errorf("other events that remain: %+v, error %v", page, err)
	}
	r := again.client(t).want(t, http.StatusOK, "GET", "/entity?updated_since=1970-01-01T00:00:00Z&order=desc&include_deleted=true", "")
	if !strings.Contains(r.body, `"deleted":true,"erased":true`) {
		t.Errorf("the changes are %s", r.body)
	}
	killedSync(t, g, 0, "events", events)
	wantSynced(t, again, "events", events)
}
