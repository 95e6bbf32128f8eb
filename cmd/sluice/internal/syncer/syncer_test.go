package syncer

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"sluice/cmd/sluice/internal/journal"
	"sluice/pkg/entity"
	"sluice/pkg/event"
	"sluice/pkg/record"
)

var resources = []record.Resource{record.Entity, record.Event}

func newCopy(t *testing.T) string { return filepath.Join(t.TempDir(), "copy.ndjson") }

func read(t *testing.T, path string) string {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func write(t *testing.T, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

// clone copies the directory that the file is in, as a process killed now would leave it, and
// returns the path of the file in the new directory.
func clone(t *testing.T, path string) string {
	t.Helper()
	dir := t.TempDir()
	if err := os.CopyFS(dir, os.DirFS(filepath.Dir(path))); err != nil {
		t.Fatal(err)
	}
	return filepath.Join(dir, filepath.Base(path))
}

func wantFiles(t *testing.T, path string, names ...string) {
	t.Helper()
	entries, err := os.ReadDir(filepath.Dir(path))
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, e := range entries {
		got = append(got, e.Name())
	}
	if fmt.Sprint(got) != fmt.Sprint(names) {
		t.Errorf("the files are %v, want %v", got, names)
	}
}

// wantCopy updates the copy at path and checks that it has exactly the service's records.
func (s *service) wantCopy(t *testing.T, resource record.Resource, path string, change ...func(*Options)) (r Result, stderr string) {
	t.Helper()
	r, stderr, err := s.sync(t, resource, path, change...)
	if err != nil {
		t.Fatal(err)
	}
	want := s.copyOf(t, resource, nil)
	if got := read(t, path); got != want || r.Records != int64(strings.Count(want, "\n")) {
		t.Fatalf("%ss: %d records, the copy is\n%s\nwant\n%s", resource, r.Records, got, want)
	}
	wantFiles(t, path, "copy.ndjson", "copy.ndjson.sluice-sync")
	return r, stderr
}

func TestTheCopyFollowsTheService(t *testing.T) {
	t.Parallel()
	for _, resource := range resources {
		s, path := newService(t), newCopy(t)
		s.wantCopy(t, resource, path)
		for range 6 {
			s.change(t, s.rng.IntN(100))
			s.wantCopy(t, resource, path)
		}
		s.wantCopy(t, resource, path)
		copied, err := fileAt(path)
		if err != nil {
			t.Fatal(err)
		}
		before := s.requests.Load()
		if r, _ := s.wantCopy(t, resource, path); r.Changes > 1 { // that of the newest stamp comes again
			t.Errorf("without changes: %+v", r)
		}
		if again, err := fileAt(path); err != nil || !sameFile(copied, again) {
			t.Errorf("without changes, the file was replaced, %v", err)
		}
		if n := s.requests.Load() - before; n > 2 {
			t.Errorf("%d requests without changes", n)
		}
	}
}

// Wherever a run is killed or fails, the file is the complete old copy or the complete new
// one. After the next run, it is always the new copy.
func TestARunContinuesWhereverTheLastOneEnded(t *testing.T) {
	t.Parallel()
	for _, resource := range resources {
		s, path := newService(t), newCopy(t)
		for _, round := range []string{"new copy", "changes"} {
			s.change(t, 70)
			before, _ := os.ReadFile(path)
			after := s.copyOf(t, resource, nil)
			killed := map[string]string{"at once": clone(t, path)}
			s.onGet = func(n int64) bool {
				killed[fmt.Sprintf("before request %d", n)] = clone(t, path)
				return true
			}
			run, _ := s.open(t, resource, path)
			step := func(name string, f func() error) {
				t.Helper()
				if err := f(); err != nil {
					t.Fatalf("%s: %v", name, err)
				}
				killed["after "+name] = clone(t, path)
			}
			var merged copyFile
			step("prepare", func() error { _, err := run.prepare(); return err })
			step("read", func() error { return run.walk.Read(t.Context(), run.lists(), run.Waiting, run.stderr) })
			step("merge", func() (err error) { merged, err = run.mergeChanges(t.Context()); return err })
			step("replace", func() error { return run.replaceCopy(merged) })
			step("finish", func() error { return run.finish(merged) })
			step("removal of the changes", func() error { return os.Remove(run.walk.Path()) })
			if err := errors.Join(run.walk.Remove(), run.walk.Close()); err != nil {
				t.Fatal(err)
			}
			s.onGet = func(int64) bool { return true }
			if len(killed) < 10 {
				t.Errorf("killed only at %d points", len(killed))
			}
			for when, path := range killed {
				if text, _ := os.ReadFile(path); string(text) != string(before) && string(text) != after {
					t.Errorf("%s of %ss, killed %s: the copy is\n%s", round, resource, when, text)
				}
				s.wantCopy(t, resource, path)
			}
		}
	}
}

// The next run continues after the changes that the failed run read. A failed run that has
// read nothing leaves no files behind.
func TestAFailedRunContinues(t *testing.T) {
	t.Parallel()
	s, path := newService(t), newCopy(t)
	s.change(t, 100)
	s.onGet = func(int64) bool { return false }
	if _, _, err := s.sync(t, record.Entity, path); err == nil || strings.Contains(err.Error(), "continues") {
		t.Errorf("at the first request: %v", err)
	}
	wantFiles(t, path)
	first := s.requests.Load()
	s.onGet = func(n int64) bool { return n != first+3 }
	_, _, err := s.sync(t, record.Entity, path)
	if err == nil || !strings.Contains(err.Error(), "The same command continues after 14 changes") {
		t.Errorf("at the third request: %v", err)
	}
	wantFiles(t, path, "copy.ndjson.sluice-sync.walk", "copy.ndjson.sluice-sync.walk.part")
	if _, stderr := s.wantCopy(t, record.Entity, path); !strings.HasPrefix(stderr, "Continuing after 14 changes.\n") {
		t.Errorf("%s", stderr)
	}
}

// The copy drops these events even if the erasure job has not yet deleted them from the service.
func TestEventsOfErasedEntitiesLeaveTheCopy(t *testing.T) {
	t.Parallel()
	s, path := newService(t), newCopy(t)
	s.change(t, 200)
	s.erase(t, "e1") // before the copy exists
	s.wantErased(t, path, "e1")
	s.change(t, 100)
	s.erase(t, "e2")
	s.wantErased(t, path, "e1", "e2")
	s.change(t, 300) // some of the new events belong to e1 and e2
	s.wantErased(t, path, "e1", "e2")
	s.erase(t, "e3")
	if _, _, err := entity.Create(t.Context(), s.entities, workspace, entity.Draft{ID: "e3", Type: "t", Attributes: record.Attributes("{}")}); err != nil {
		t.Fatal(err)
	}
	s.change(t, 0)
	s.wantErased(t, path, "e1", "e2", "e3") // e3 exists again, so the run finds no tombstone for it
	s.wantCopy(t, record.Entity, newCopy(t))
}

// wantErased updates a copy of events and checks that it has no events created before their entity
// was erased. ids must list all erased entities.
func (s *service) wantErased(t *testing.T, path string, ids ...string) {
	t.Helper()
	if _, _, err := s.sync(t, record.Event, path); err != nil {
		t.Fatal(err)
	}
	page, err := s.entities.Changes(t.Context(), workspace, record.SyncQuery{Limit: 10_000})
	if err != nil {
		t.Fatal(err)
	}
	erased := make(map[string]record.Time)
	for _, c := range page.Records {
		if c.Erased() {
			erased[c.ID] = c.ErasedAt
		}
	}
	if len(erased) != len(ids) {
		t.Fatalf("tombstones %v, want those of %v", erased, ids)
	}
	gone := 0
	want := s.copyOf(t, record.Event, func(e event.Event) bool {
		at, was := erased[e.EntityID]
		if was && e.CreatedAt.Compare(at) <= 0 {
			gone++
			return false
		}
		return true
	})
	if got := read(t, path); got != want || gone == 0 {
		t.Errorf("%d events are erased, the copy is\n%s\nwant\n%s", gone, got, want)
	}
}

// A run that is refused before it has read any changes leaves no journal behind.
func TestFilesOfOthersAreNotReplaced(t *testing.T) {
	t.Parallel()
	s := newService(t)
	s.change(t, 50)
	for name, tt := range map[string]struct {
		spoil func(path string) // tampers with the copy or its state file
		as    func(*Options)
		says  string
	}{
		"no state file":    {func(path string) { os.Remove(path + ".sluice-sync") }, nil, "exists, and no sync has written it"}, //nolint:errcheck // checked below
		"longer":           {func(path string) { write(t, path, read(t, path)+"{}\n") }, nil, "has changed since a sync wrote it"},
		"empty":            {func(path string) { write(t, path, "") }, nil, "has changed since a sync wrote it"},
		"same size":        {func(path string) { write(t, path, strings.ToUpper(read(t, path))) }, nil, "has changed since a sync wrote it"},
		"another resource": {func(string) {}, func(o *Options) { o.Resource = record.Event }, "is a copy of the resource entity in the workspace default of the service service, but this is event in"},
		"another service":  {func(string) {}, func(*Options) { s.source = "other/default" }, "but this is entity in the workspace default of the service other: use the URL and API key of the former"},
		"another key":      {func(string) {}, func(*Options) { s.source = "service/other" }, "but this is entity in the workspace other of the service service"},
		"invalid state":    {func(path string) { write(t, path+".sluice-sync", "{}") }, nil, "is not the state file of a copy"},
		"a directory":      {func(path string) { os.Remove(path); os.Mkdir(path, 0o700) }, nil, "is not a regular file"}, //nolint:errcheck // checked below
	} {
		t.Run(name, func(t *testing.T) {
			if tt.as == nil {
				tt.as = func(*Options) {}
			}
			path := newCopy(t)
			s.wantCopy(t, record.Entity, path)
			s.change(t, 5)
			tt.spoil(path)
			before, _ := os.ReadFile(path)
			_, _, err := s.sync(t, record.Entity, path, tt.as)
			if refused := new(journal.RefusedError); !errors.As(err, &refused) || !strings.Contains(err.Error(), tt.says) {
				t.Errorf("%v", err)
			}
			if after, _ := os.ReadFile(path); string(after) != string(before) {
				t.Error("the file was changed")
			}
			if name == "a directory" {
				return
			}
			if name == "same size" { // the run reads the changes before it notices that the file has changed, so its journal remains
				write(t, path, read(t, path)+"\n")
			} else if _, err := os.Stat(path + ".sluice-sync.walk"); err == nil {
				t.Error("a journal still exists")
			}
			s.wantCopy(t, record.Entity, path, func(o *Options) { o.Force = true })
		})
	}
}

// A run starts over if tombstones written since the last run, even an interrupted one, can
// expire within a day.
func TestARunStartsANewCopyIfTombstonesCanExpire(t *testing.T) {
	t.Parallel()
	const (
		says = "The last sync was more than 29 days ago"
		most = entity.TombstoneAge - 24*time.Hour // maximum age of the last run; after that, a run starts over
	)
	for _, interrupted := range []bool{false, true} {
		for _, age := range []time.Duration{most, most + time.Millisecond} {
			s, path := newService(t), newCopy(t)
			s.change(t, 100)
			fails := s.requests.Load() + 4
			s.onGet = func(n int64) bool { return !interrupted || n != fails }
			if _, _, err := s.sync(t, record.Entity, path); (err != nil) != interrupted {
				t.Fatal(err)
			}
			last := s.now
			s.change(t, 100)
			s.now = last.Add(age)
			_, stderr := s.wantCopy(t, record.Entity, path)
			if anew := strings.HasPrefix(stderr, says); anew != (age > most) {
				t.Errorf("interrupted %v, after %s: %s", interrupted, age, stderr)
			}
		}
	}
}

// The copy gets the changes made after the service's clock was set back. A run notices that if the
// clock has since advanced by over 4 s less than its own, and then trusts no earlier synced_until.
func TestAClockThatWasAheadDoesNotFreezeACopy(t *testing.T) {
	t.Parallel()
	const says = "the service's clock has advanced less than this computer's"
	for _, ahead := range []time.Duration{-time.Hour, 0, 3 * time.Second, 6 * time.Second, time.Hour} {
		for _, resource := range resources {
			s, path := newService(t), newCopy(t)
			own := s.now
			clock := func(o *Options) { o.Now = func() time.Time { return own } }
			s.now = own.Add(ahead)
			s.change(t, 50)
			own = s.now.Add(-ahead)
			s.wantCopy(t, resource, path, clock)
			own = own.Add(75 * time.Second)
			s.now = own
			s.change(t, 50)
			own = s.now
			if _, stderr := s.wantCopy(t, resource, path, clock); strings.Contains(stderr, says) != (ahead > 4*time.Second) {
				t.Errorf("%s ahead: %s", ahead, stderr)
			}
			if _, stderr := s.wantCopy(t, resource, path, clock); stderr != "" {
				t.Errorf("%s ahead, next: %s", ahead, stderr)
			}
		}
	}
}

func TestARunStartsANewCopyIfTheCopyIsGone(t *testing.T) {
	t.Parallel()
	s, path := newService(t), newCopy(t)
	s.change(t, 50)
	s.wantCopy(t, record.Entity, path)
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	if _, stderr := s.wantCopy(t, record.Entity, path); !strings.HasPrefix(stderr, path+" no longer exists. Starting a new copy.\n") {
		t.Errorf("%s", stderr)
	}
}

// The file keeps its permissions, even those that the umask would remove. If the path is a
// symbolic link, the link's target is replaced.
func TestTheFileKeepsItsModeAndItsLink(t *testing.T) {
	t.Parallel()
	s, path := newService(t), newCopy(t)
	s.change(t, 50)
	s.wantCopy(t, record.Entity, path)
	link := filepath.Join(t.TempDir(), "link")
	if err := errors.Join(os.Chmod(path, 0o666), os.Symlink(path, link)); err != nil {
		t.Fatal(err)
	}
	s.change(t, 50)
	if _, _, err := s.sync(t, record.Entity, link); err != nil {
		t.Fatal(err)
	}
	s.wantCopy(t, record.Entity, path)
	info, err := os.Lstat(link)
	if err != nil || info.Mode()&os.ModeSymlink == 0 {
		t.Errorf("the link is now %v, %v", info, err)
	}
	if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o666 {
		t.Errorf("the copy is now %v, %v", info, err)
	}
}
