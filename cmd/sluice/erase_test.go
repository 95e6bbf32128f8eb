package main

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"sluice/internal/test/syncwait"
	api "sluice/pkg/client"
	"sluice/pkg/erasurejob"
	"sluice/pkg/record"
)

// A server is killed during an erasure. The command waits until a new server with the same
// data has completed the erasure. The next sync removes the erased events from a copy.
func TestEraseSurvivesAKilledServer(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	s := start(t, dir)
	c, err := api.New(s.url, api.Config{})
	if err != nil {
		t.Fatal(err)
	}
	if _, _, err := c.CreateEntity(t.Context(), api.NewEntity{ID: "ada"}); err != nil {
		t.Fatal(err)
	}
	for i := range 3 {
		var events []api.NewEvent
		for n := range 100 {
			events = append(events, api.NewEvent{ID: fmt.Sprint("e", i, "-", n), Name: "n", EntityID: "ada"})
		}
		if _, err := c.CreateEvents(t.Context(), append(events[:99:99], api.NewEvent{ID: fmt.Sprint("other", i), Name: "n", EntityID: "bob"})); err != nil {
			t.Fatal(err)
		}
	}
	g, events := newGate(t, s.url), filepath.Join(t.TempDir(), "events.ndjson")
	syncwait.Await(t, c, time.Now())
	if r := killedSync(t, g, 0, "events", events); r.Records != 300 {
		t.Errorf("before the erasure: %+v", r)
	}
	cmd := sluiceCommand(t, s.url, "erase", "entity", "ada")
	var out, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &stderr
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { cmd.Process.Kill() }) //nolint:errcheck // the command may have ended
	look := time.NewTicker(20 * time.Millisecond)
	defer look.Stop()
	for running := false; !running; <-look.C {
		j, err := c.GetErasureJob(t.Context(), "ada")
		running = err == nil && j.Status == erasurejob.Running
	}
	s.Kill()
	again := startIn(t, []string{"DATA_DIR=" + dir, "ADDR=" + strings.TrimPrefix(s.url, "http://")})
	if err := cmd.Wait(); err != nil || out.String() != "Erased the entity ada and 297 events.\n" {
		t.Errorf("%v: %s%s", err, out.String(), stderr.String())
	}
	if page, err := c.ListEvents(t.Context(), api.EventQuery{EntityID: "ada"}); err != nil || len(page.Data) != 0 {
		t.Errorf("events of ada that remain: %+v, error %v", page, err)
	}
	if page, err := c.ListEvents(t.Context(), api.EventQuery{}); err != nil || len(page.Data) != 3 {
		t.Errorf("other events that remain: %+v, error %v", page, err)
	}
	resp, err := http.Get(again.url + "/entity?updated_since=" + record.TimeOf(time.Unix(0, 0)).String() + "&order=desc&include_deleted=true")
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close() //nolint:errcheck // the body is only read
	if body, err := io.ReadAll(resp.Body); err != nil || !strings.Contains(string(body), `"deleted":true,"erased":true`) {
		t.Errorf("the changes are %s, error %v", body, err)
	}
	syncwait.Await(t, c, time.Now())
	killedSync(t, g, 0, "events", events)
	wantSynced(t, again, "events", events)
}

func TestEraseSaysWhatIsWrong(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		args []string
		want string
		code int
	}{
		{[]string{"erase", "event", "e"}, "erase takes entity and an id", exitUsage},
		{[]string{"erase", "entity", "a b"}, "the id", exitUsage},
		{[]string{"erase", "entity"}, "accepts 2 arg(s)", exitUsage},
		{[]string{"erase", "entity", "a", "--url", "ftp://host"}, "needs http://", exitUsage},
	} {
		_, stderr, code := run(t, sluiceCommand(t, "http://127.0.0.1:1", tt.args...))
		if code != tt.code || !strings.Contains(stderr, tt.want) {
			t.Errorf("%q: exit code %d, %s", tt.args, code, stderr)
		}
	}
}
