package main

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"sluice/cmd/sluice/internal/eraser"
	"sluice/pkg/api"
	"sluice/pkg/client"
	"sluice/pkg/entity"
	"sluice/pkg/event"
	"sluice/pkg/record"
)

// "sluice erase" names the export files that may still hold what it erased, and deletes them only
// if asked to.
func TestEraseNamesTheExportFilesThatAreLeft(t *testing.T) {
	t.Parallel()
	env := []string{"DATA_DIR=" + t.TempDir(), "AUTH_MODE=api-key"}
	s := startIn(t, env)
	key := createKey(t, env, "--scope", "import,export,erase")
	c, err := client.New(s.url, client.Config{Key: key})
	if err != nil {
		t.Fatal(err)
	}
	order := func(id string, of record.Resource, entityID string) {
		t.Helper()
		_, _, err := c.CreateExportJob(t.Context(), api.ExportOrder{ID: id, Resource: of, Format: record.CSV, Filters: api.ExportFilters{EntityID: entityID}})
		if err != nil {
			t.Fatal(err)
		}
		exported(t, c, id)
	}
	create := func(id string) {
		t.Helper()
		_, _, err := c.CreateEntity(t.Context(), entity.Draft{ID: id})
		if err == nil {
			_, _, err = c.CreateEvent(t.Context(), event.Draft{Name: "n", EntityID: id})
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	// erase returns the ids of the files that the command names.
	erase := func(code int, key string, args ...string) (stdout, stderr string, named []string) {
		t.Helper()
		stdout, stderr, got := run(t, sluiceCommand(t, s.url, append([]string{"erase", "entity", "--key", key}, args...)...))
		if got != code {
			t.Errorf("%q: exit code %d: %s", args, got, stderr)
		}
		for line := range strings.Lines(stderr) {
			if strings.HasPrefix(line, "  ") && strings.Contains(line, "  expires 20") {
				named = append(named, strings.Fields(line)[0])
			}
		}
		return stdout, stderr, named
	}
	deleted := func() (ids []string) {
		t.Helper()
		for j, err := range c.ExportJobs(t.Context(), client.ExportJobQuery{}) {
			if err != nil {
				t.Fatal(err)
			}
			if j.FileDeletedAt != nil {
				ids = append(ids, j.ID)
			}
		}
		return ids
	}
	want := func(what string, got []string, want ...string) {
		t.Helper()
		if !slices.Equal(got, want) {
			t.Errorf("%s: %q, want %q", what, got, want)
		}
	}

	order("too-early", record.Entity, "")
	create("ada")
	create("bob")
	order("of-all", record.Entity, "")
	order("of-bob", record.Event, "bob")
	order("of-ada", record.Event, "ada")

	_, _, named := erase(0, key, "ada")
	want("files of ada", named, "of-ada", "of-all")
	_, _, named = erase(1, key, "ada", "--delete-files")
	want("files when there is no ada", named, "of-ada", "of-all", "too-early")
	want("deleted without being known", deleted())

	stdout, _, named := erase(0, key, "bob", "--delete-files", "--json")
	var result eraser.Result
	if err := json.Unmarshal([]byte(stdout), &result); err != nil || result.ID != "bob" || result.EventsErased != 1 || len(result.Files) != 2 || result.Files[0].FileDeletedAt == nil {
		t.Errorf("%s: %+v, error %v", stdout, result, err)
	}
	want("files of bob", named, "of-bob", "of-all")
	want("deleted", deleted(), "of-bob", "of-all")

	create("eve")
	_, stderr, named := erase(0, key, "eve", "--delete-files")
	want("files of eve", named)
	if !strings.Contains(stderr, "No export file") {
		t.Errorf("no file is left: %s", stderr)
	}
	_, stderr, _ = erase(0, createKey(t, env, "--scope", "import,erase"), "eve")
	if !strings.Contains(stderr, "lacks the scope export") {
		t.Errorf("without the scope export: %s", stderr)
	}
}

func TestFilesAreDeletedOnlyAfterAYes(t *testing.T) {
	t.Parallel()
	for answer, want := range map[string]bool{"y\n": true, " Yes \n": true, "\n": false, "": false, "n\n": false, "yo\n": false} {
		var out strings.Builder
		if got := eraser.Ask(strings.NewReader(answer), &out); got != want || !strings.Contains(out.String(), "[y/N]") {
			t.Errorf("%q: %v after %q", answer, got, out.String())
		}
	}
}
