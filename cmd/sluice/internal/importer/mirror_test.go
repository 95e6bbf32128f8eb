package importer

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"sluice/cmd/sluice/internal/journal"
	"sluice/pkg/entity"
	"sluice/pkg/importfile"
	"sluice/pkg/record"
	"sluice/pkg/recordfile"
)

// mirror imports a file as "sluice import --mirror" does.
func (s *service) mirror(t *testing.T, path, typ string, whole bool, confirm func(map[string]int) error) (Result, string, error) {
	t.Helper()
	return s.importAs(t.Context(), Options{
		Path: path, Whole: whole, Confirm: confirm,
		Description: importfile.Description{Resource: record.Entity, Format: recordfile.FormatOf(strings.TrimSuffix(path, ".gz")), Type: typ, Mirror: true},
	})
}

func yes(map[string]int) error { return nil }

// fill creates entities that are older than any import.
func (s *service) fill(t *testing.T, drafts ...entity.Draft) {
	t.Helper()
	s.behind = time.Minute
	defer func() { s.behind = 0 }()
	for _, d := range drafts {
		if _, _, err := entity.Create(t.Context(), s.entities, "default", d); err != nil {
			t.Fatal(err)
		}
	}
}

func (s *service) wantEntities(t *testing.T, name string, want map[string]string) {
	t.Helper()
	page, err := s.entities.List(t.Context(), "default", entity.Query{Limit: 10_000})
	got := make(map[string]string)
	for _, e := range page.Records {
		got[e.ID] = e.Type + " " + string(e.Attributes)
	}
	if err != nil || !maps.Equal(got, want) {
		t.Errorf("%s: %v, error %v; want %v", name, got, err, want)
	}
}

func fileOf(t *testing.T, name, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestAMirrorMakesEntitiesEqual(t *testing.T) {
	t.Parallel()
	s := newService(t)
	s.fill(t, entity.Draft{ID: "ada", Type: "person", Attributes: []byte(`{"a":1}`)}, entity.Draft{ID: "gone"}, entity.Draft{ID: "left", Type: "robot"}, entity.Draft{ID: "kept"})
	walk := `{"id":"ada","type":"person","attributes":{"b":null},"revision":2}` + "\n" + `{"id":"gone","type":"person","deleted":true,"deleted_at":"2026-01-02T15:04:05.678Z"}` + "\n" +
		`{"id":"new","type":"person","attributes":{"n":1}}` + "\n" + `{"id":"new","type":"person","attributes":{"n":2}}` + "\n"
	path := fileOf(t, "walk.ndjson", walk)
	r, _, err := s.mirror(t, path, "", false, nil)
	if want := (Counts{Created: 1, Updated: 2, Deleted: 1}); err != nil || r.Counts != want {
		t.Errorf("%+v, error %v; want %+v", r.Counts, err, want)
	}
	want := map[string]string{"ada": `person {"b":null}`, "new": `person {"n":2}`, "left": "robot {}", "kept": "entity {}"}
	s.wantEntities(t, "mirrored", want)

	filtered := fileOf(t, "filtered.ndjson", walk+`{"id":"left","type":"robot","revision":2,"updated_at":"2026-01-02T15:04:05.678Z","deleted":true,"reason":"filter"}`+"\n")
	if _, _, err := s.mirror(t, filtered, "", false, nil); !errors.As(err, new(*journal.RefusedError)) || !strings.Contains(err.Error(), "line 5 of "+filtered) {
		t.Errorf("a walk with a filter: %v", err)
	}
	s.wantEntities(t, "refused", want)
	if r, _, err := s.mirror(t, filtered, "person", false, nil); err != nil || r.Deleted != 2 {
		t.Errorf("a walk with a filter that is named: %+v, error %v", r, err)
	}
	delete(want, "left")
	s.wantEntities(t, "filtered", want)
}

// The calls of a round are concurrent, so the last of several rows with an id counts only if a round
// has the id once.
func TestARoundOfAMirrorHasAnIDOnce(t *testing.T) {
	t.Parallel()
	for _, mirror := range []bool{true, false} {
		im := &importer{Options: Options{Workers: 4, Description: importfile.Description{Resource: record.Entity, Format: record.NDJSON, Mirror: mirror}}}
		var b strings.Builder
		for i := range 100 {
			fmt.Fprintf(&b, `{"id":"e%d"}`+"\n", i%7*i%31)
		}
		records, err := importfile.Open(strings.NewReader(b.String()), im.Description, importfile.Options{})
		if err != nil {
			t.Fatal(err)
		}
		rounds, twice, lines := 0, 0, int64(0)
		for err == nil {
			var list []row
			list, err = im.read(records)
			ids := make(map[string]bool)
			for _, r := range list {
				if lines++; r.Line != lines {
					t.Errorf("line %d after %d", r.Line, lines-1)
				}
				if ids[r.ID] {
					twice++
				}
				ids[r.ID] = true
			}
			rounds++
		}
		if err != io.EOF || lines != 100 || mirror != (twice == 0) || mirror != (rounds > 1) {
			t.Errorf("mirror %v: %d lines in %d rounds, %d ids twice in a round, error %v", mirror, lines, rounds, twice, err)
		}
	}
}

func TestWholeDeletesOnlyWhatItMay(t *testing.T) {
	t.Parallel()
	const ada, bob = `{"id":"ada","type":"person","attributes":{}}` + "\n", `{"id":"bob","type":"robot","attributes":{}}` + "\n"
	declined := errors.New("declined")
	all := []string{"ada", "bob", "old", "other"}
	for _, tt := range []struct {
		name, file, typ, text string
		confirm               error
		refused               bool     // whether nothing is changed at all
		want                  []string // what is left
		message               string
	}{
		{"a complete file", "a.ndjson", "", ada + bob, nil, false, []string{"ada", "bob"}, ""},
		{"a type", "a.ndjson", "person", ada, nil, false, []string{"ada", "bob", "other"}, ""},
		{"declined", "a.ndjson", "", ada + bob, declined, false, all, "declined"},
		{"a file that is cut in a line", "a.ndjson", "", ada + bob[:20], nil, true, all, "may have been cut"},
		{"a table that is cut in a cell", "a.csv", "", "id,type\nada,person\nbob,rob", nil, true, all, "may have been cut"},
		{"an array that is cut", "a.json", "", "[" + ada + "," + bob, nil, true, all, "EOF"},
		{"a compressed file that is cut", "a.ndjson.gz", "", packed(ada + bob)[:30], nil, true, all, "EOF"},
		{"a file of another type", "a.ndjson", "person", bob, nil, true, all, "has the type robot"},
		{"a file of events", "a.ndjson", "", `{"id":"v","name":"n"}` + "\n", nil, true, all, "has no entities"},
		{"an empty file", "a.ndjson", "", "", nil, true, all, "has no entities"},
		{"a table without rows", "a.csv", "", "id,type\n", nil, true, all, "has no entities"},
		{"only tombstones", "a.ndjson", "", `{"id":"ada","deleted":true}` + "\n", nil, true, all, "has no entities"},
		{"a rejected row", "a.ndjson", "", ada + `{"id":"a b"}` + "\n", nil, false, all, "because rows were rejected"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			s := newService(t)
			s.fill(t, entity.Draft{ID: "ada", Type: "person"}, entity.Draft{ID: "bob", Type: "robot"}, entity.Draft{ID: "old", Type: "person"}, entity.Draft{ID: "other", Type: "robot"})
			asked := map[string]int(nil)
			path := fileOf(t, tt.file, tt.text)
			r, stderr, err := s.mirror(t, path, tt.typ, true, func(others map[string]int) error {
				asked = others
				return tt.confirm
			})
			var left []string
			page, listErr := s.entities.List(t.Context(), "default", entity.Query{Limit: 100})
			for _, e := range page.Records {
				left = append(left, e.ID)
			}
			if listErr != nil || !slices.Equal(left, tt.want) || tt.refused != (s.calls == 0) {
				t.Errorf("%v are left after %d calls, want %v", left, s.calls, tt.want)
			}
			if said := fmt.Sprint(err, stderr); tt.message == "" && err != nil || !strings.Contains(said, tt.message) {
				t.Errorf("%s; want %s", said, tt.message)
			}
			if n := int64(len(all) - len(left)); r.Removed != n || n > 0 && asked["person"]+asked["robot"] != int(n) {
				t.Errorf("removed %d, asked about %v; want %d", r.Removed, asked, n)
			}
		})
	}
}

// An import that is interrupted, or whose deletions were declined, continues. What is created or
// changed meanwhile stays.
func TestAnInterruptedWholeMirrorDeletesOnlyAtItsEnd(t *testing.T) {
	t.Parallel()
	s := newService(t)
	var text strings.Builder
	var drafts []entity.Draft
	for i := range 250 {
		fmt.Fprintf(&text, `{"id":"e%03d"}`+"\n", 2*i)
		drafts = append(drafts, entity.Draft{ID: fmt.Sprintf("e%03d", 2*i+1)})
	}
	s.fill(t, drafts...)
	path := fileOf(t, "many.ndjson", text.String())
	ctx, stop := context.WithCancel(t.Context())
	s.answer = func(call int) int {
		if call == 2 {
			stop()
		}
		return 0
	}
	o := Options{Path: path, Whole: true, Confirm: yes, Description: importfile.Description{Resource: record.Entity, Format: record.NDJSON, Mirror: true}}
	if r, _, err := s.importAs(ctx, o); err == nil || r.Removed != 0 {
		t.Errorf("interrupted: %+v, error %v", r, err)
	}
	s.answer = func(int) int { return 0 }
	if r, _, err := s.mirror(t, path, "", true, func(others map[string]int) error {
		if others["entity"] != 250 {
			t.Errorf("asked about %v", others)
		}
		return errors.New("declined")
	}); err == nil || r.Removed != 0 || !strings.Contains(err.Error(), "same command continues") {
		t.Errorf("declined: %+v, error %v", r, err)
	}
	if s.waits != 1 {
		t.Errorf("runs have waited %d times for a late request, want once, after the interruption", s.waits)
	}
	if _, _, err := entity.Create(t.Context(), s.entities, "default", entity.Draft{ID: "meanwhile"}); err != nil {
		t.Fatal(err)
	}
	r, stderr, err := s.mirror(t, path, "", true, func(map[string]int) error {
		_, err := entity.Update(t.Context(), s.entities, "default", "e001", []byte(`{"changed":true}`), nil)
		return err
	})
	if err != nil || r.Removed != 249 || !strings.Contains(stderr, "1 entity of these had changed") {
		t.Errorf("%+v, %s, error %v", r, stderr, err)
	}
	page, err := s.entities.List(t.Context(), "default", entity.Query{Limit: 1000})
	if err != nil || len(page.Records) != 252 {
		t.Errorf("%d entities, error %v; want those of the file, the changed one and the new one", len(page.Records), err)
	}
	if _, stderr, err := s.mirror(t, path, "", true, nil); err != nil || !strings.Contains(stderr, "Already imported") {
		t.Errorf("again: %s, error %v", stderr, err)
	}
}

// A request gets no response, and the import is interrupted while it waits for that request. The next
// import waits too.
func TestAMirrorWaitsForLateRequests(t *testing.T) {
	t.Parallel()
	s := newService(t)
	path := fileOf(t, "one.ndjson", `{"id":"a"}`+"\n")
	s.answer = func(call int) int {
		if call == 1 {
			return http.StatusInternalServerError
		}
		return 0
	}
	ctx, stop := context.WithCancel(t.Context())
	o := Options{Path: path, Sleep: func(context.Context, time.Duration) { stop() }, Description: importfile.Description{Resource: record.Entity, Format: record.NDJSON, Mirror: true}}
	if _, _, err := s.importAs(ctx, o); !errors.Is(err, context.Canceled) || s.waits != 1 {
		t.Fatalf("error %v, imports have waited %d times", err, s.waits)
	}
	if _, _, err := s.mirror(t, path, "", false, nil); err != nil || s.waits != 2 {
		t.Errorf("error %v, imports have waited %d times", err, s.waits)
	}
}

// A row without an id gets the same id whenever the file is imported, so the file has that entity.
func TestWholeKeepsEntitiesOfRowsWithoutAnID(t *testing.T) {
	t.Parallel()
	s := newService(t)
	path := fileOf(t, "people.ndjson", `{"type":"person"}`+"\n"+`{"type":"robot"}`+"\n")
	s.fill(t, entity.Draft{ID: "other"})
	s.behind = time.Minute // so that the second import finds them older than itself
	o := Options{Path: path, Whole: true, Confirm: yes, Again: true, Description: importfile.Description{Resource: record.Entity, Format: record.NDJSON, Mirror: true}}
	for run, removed := range []int64{1, 0} {
		if r, _, err := s.importAs(t.Context(), o); err != nil || r.Removed != removed {
			t.Errorf("run %d: %+v, error %v; want %d removed", run, r, err, removed)
		}
		s.behind = 0
	}
	page, err := s.entities.List(t.Context(), "default", entity.Query{Limit: 10})
	if err != nil || len(page.Records) != 2 {
		t.Errorf("%d entities are left, error %v; want those of the file", len(page.Records), err)
	}
}
