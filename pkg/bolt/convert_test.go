package bolt

import (
	"errors"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"sluice/pkg/access"
	"sluice/pkg/entity"
	"sluice/pkg/event"
	"sluice/pkg/index"
	"sluice/pkg/job"
	"sluice/pkg/ratelimit"
	"sluice/pkg/record"
)

// This build opens a directory of each layout since 9, and finds in it what was stored. The test
// creates the directory of a new layout, which is then committed.
func TestDirectoriesOfAllLayouts(t *testing.T) {
	t.Parallel()
	stored, err := filepath.Glob("testdata/layout-*")
	if err != nil {
		t.Fatal(err)
	}
	newest := filepath.Join("testdata", "layout-"+layout)
	if _, err := os.Stat(newest); errors.Is(err, os.ErrNotExist) {
		storeExample(t, newest)
		t.Fatalf("%s is new: commit it", newest)
	}
	for _, from := range stored {
		dir := t.TempDir()
		if err := os.CopyFS(dir, os.DirFS(from)); err != nil {
			t.Fatal(err)
		}
		s := openDir(t, dir)
		checkExample(t, s)
		if converted := from != newest; converted != (s.Before != "") {
			t.Errorf("%s: the backup is %q", from, s.Before)
		}
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
		if r, err := Check(t.Context(), dir); err != nil || len(r.Problems) > 0 {
			t.Errorf("%s: %+v, error %v", from, r, err)
		}
	}
}

var exampleAttributes = record.Attributes(`{"email":"ada@example.com"}`)

func storeExample(t *testing.T, to string) {
	t.Helper()
	dir := t.TempDir()
	s := openDir(t, dir)
	at := time.Date(2026, 3, 1, 0, 0, 0, 0, time.UTC)
	d := index.Declaration{Workspace: "default", Type: "person", Fields: index.Fields{{Name: "email", ValueType: index.Text}}, Place: 1, State: index.Ready}
	d, err := s.Indexes.Add(t.Context(), d, nil)
	s.Indexed.Store(index.NewSet([]index.Declaration{d}))
	must := func(_ any, more error) { err = errors.Join(err, more) }
	must(nil, s.Keys.Create(t.Context(), access.Key{ID: "abc", Workspace: "default", CreatedAt: at}))
	must(nil, s.Limits.Put(t.Context(), ratelimit.Row{CIDR: netip.MustParsePrefix("192.0.2.0/24"), Action: ratelimit.ActionBlock, UpdatedAt: at}))
	for _, id := range []string{"ada", "bob"} {
		_, _, more := entity.Create(t.Context(), s.Entities, "default", entity.Draft{ID: id, Type: "person", Attributes: exampleAttributes})
		must(nil, more)
	}
	_, _, more := s.Events.Create(t.Context(), "default", event.Draft{ID: "e", Name: "signed_up", EntityID: "ada"})
	must(nil, more)
	must(s.Erasures.Request(t.Context(), "default", "bob"))
	_, _, more = job.Create(t.Context(), s.ExportJobs, job.Job{Workspace: "default", ID: "j", Details: []byte(`{"resource":"entity","format":"csv"}`)}, at)
	if err := errors.Join(err, more, s.Close()); err != nil {
		t.Fatal(err)
	}
	if _, err := Compact(t.Context(), dir); err != nil {
		t.Fatal(err)
	}
	if err := os.CopyFS(to, os.DirFS(dir)); err != nil {
		t.Fatal(err)
	}
}

func checkExample(t *testing.T, s *Stores) {
	t.Helper()
	ctx := t.Context()
	if e, err := s.Entities.Get(ctx, "default", "ada"); err != nil || e.Type != "person" || string(e.Attributes) != string(exampleAttributes) {
		t.Errorf("entity %+v, error %v", e, err)
	}
	if e, err := s.Entities.Get(ctx, "default", "bob"); record.CodeOf(err) != record.NotFound {
		t.Errorf("erased entity %+v, error %v", e, err)
	}
	if e, err := s.Events.Get(ctx, "default", "e"); err != nil || e.Name != "signed_up" || e.EntityID != "ada" {
		t.Errorf("event %+v, error %v", e, err)
	}
	for kind, jobs := range map[string]*Jobs{"j": s.ExportJobs, "bob": s.ErasureJobs} {
		if j, err := jobs.Get(ctx, "default", kind); err != nil || j.Status != job.Queued {
			t.Errorf("job %+v, error %v", j, err)
		}
	}
	if k, err := s.Keys.Get(ctx, "abc"); err != nil || k.Workspace != "default" {
		t.Errorf("key %+v, error %v", k, err)
	}
	if rows, err := s.Limits.List(ctx); err != nil || len(rows) != 1 || rows[0].Name() != "192.0.2.0/24" || rows[0].Action != ratelimit.ActionBlock {
		t.Errorf("limits %+v, error %v", rows, err)
	}
	declared, err := s.Indexes.List(ctx)
	if err != nil || len(declared) != 1 {
		t.Fatalf("indexes %+v, error %v", declared, err)
	}
	s.Indexed.Store(index.NewSet(declared))
	q := index.Query{Declaration: declared[0], Limit: 10}
	if err := q.Where(index.Condition{Attribute: "email", Value: "ada@example.com"}); err != nil {
		t.Fatal(err)
	}
	if found, err := s.Entities.Find(ctx, "default", q); err != nil || len(found.Records) != 1 {
		t.Errorf("found %+v, error %v", found, err)
	}
}

func TestAConversionThatIsKilledIsContinued(t *testing.T) {
	t.Parallel()
	dir := filled(t, 10)
	killed := errors.New("killed")
	runs := []string{}
	fail := killed
	conversions := []conversion{
		{layout, "next", func(string) error { runs = append(runs, "next"); return nil }},
		{"next", "last", func(string) error { runs = append(runs, "last"); return fail }},
	}
	var before string
	run := func() error {
		return convert(dir, conversions, func(version string) (err error) { before, err = backupBefore(dir, version); return err })
	}
	if err := run(); !errors.Is(err, killed) {
		t.Fatal(err)
	}
	if _, err := Check(t.Context(), dir); err == nil || !strings.Contains(err.Error(), "layout next") {
		t.Errorf("a directory that is half converted is used: %v", err)
	}
	first := before
	fail = nil
	if err := run(); err != nil || strings.Join(runs, " ") != "next last last" {
		t.Errorf("runs %q, error %v", runs, err)
	}
	if version, err := layoutOf(dir); version != "last" || err != nil {
		t.Errorf("layout %q, error %v", version, err)
	}
	before = ""
	if err := run(); err != nil || before != "" || len(runs) != 3 {
		t.Errorf("a directory of the newest layout: runs %q, backup %q, error %v", runs, before, err)
	}
	if _, err := Restore(t.Context(), first, t.TempDir()); err != nil {
		t.Errorf("the backup: %v", err)
	}
}
