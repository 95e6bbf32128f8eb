package syncer

import (
	"os"
	"strings"
	"testing"

	"sluice/pkg/record"
)

func force(o *Options) { o.Force = true }

// failAt runs a sync whose nth request fails. The sync must read a page before that request.
func (s *service) failAt(t *testing.T, path string, n int64, change ...func(*Options)) (stderr string) {
	t.Helper()
	fails := s.requests.Load() + n
	s.onGet = func(n int64) bool {
		if n == fails-1 {
			s.change(t, 30) // so that there is a page to read at n, even if a walk has just ended
		}
		return n != fails
	}
	_, stderr, err := s.sync(t, record.Entity, path, change...)
	s.onGet = func(int64) bool { return true }
	if err == nil || !strings.Contains(err.Error(), "The same command continues after ") {
		t.Fatalf("%v", err)
	}
	return stderr
}

// The first run is interrupted. The second continues it, reads the changes made in between,
// and is interrupted too. The third continues the second.
func TestAForcedRunContinues(t *testing.T) {
	t.Parallel()
	for name, before := range map[string]func(t *testing.T, s *service, path string){
		"no file": func(*testing.T, *service, string) {},
		"a file":  func(t *testing.T, _ *service, path string) { write(t, path, "mine\n") },
		"a copy":  func(t *testing.T, s *service, path string) { s.wantCopy(t, record.Entity, path); s.change(t, 20) },
		"an unfinished copy": func(t *testing.T, s *service, path string) {
			s.failAt(t, path, 2)
			s.change(t, 20)
		},
	} {
		t.Run(name, func(t *testing.T) {
			s, path := newService(t), newCopy(t)
			s.change(t, 100)
			before(t, s, path)
			if stderr := s.failAt(t, path, 4, force); stderr != "" {
				t.Errorf("the first run: %s", stderr)
			}
			s.change(t, 100)
			if stderr := s.failAt(t, path, 7, force); !strings.HasPrefix(stderr, "Continuing after 21 changes.\n") {
				t.Errorf("the second run: %s", stderr)
			}
			s.change(t, 5)
			if read(t, path) == "mine\n" {
				t.Fatal("the second run did not end the first walk")
			}
			if _, stderr := s.wantCopy(t, record.Entity, path, force); !strings.HasPrefix(stderr, "Continuing after ") {
				t.Errorf("the third run: %s", stderr)
			}
			// The third run has completed the copy, so the next run with Force starts over.
			if r, stderr := s.wantCopy(t, record.Entity, path, force); stderr != "" || r.Changes < r.Records {
				t.Errorf("the next command: %+v, %s", r, stderr)
			}
		})
	}
}

// A run with Force starts over if the interrupted run did not have Force, or if the state file
// or the file at the path has changed since.
func TestForceStartsOver(t *testing.T) {
	t.Parallel()
	for name, before := range map[string]func(t *testing.T, s *service, path string){
		"after a run without Force": func(t *testing.T, s *service, path string) {
			s.wantCopy(t, record.Entity, path)
			s.change(t, 60)
			s.failAt(t, path, 3)
		},
		"another file": func(t *testing.T, s *service, path string) {
			write(t, path, "mine\n")
			s.failAt(t, path, 3, force)
			write(t, path, "MINE\n")
		},
		"a state that cannot be read": func(t *testing.T, s *service, path string) {
			s.failAt(t, path, 3, force)
			write(t, path+".sluice-sync", "{}")
		},
	} {
		t.Run(name, func(t *testing.T) {
			s, path := newService(t), newCopy(t)
			s.change(t, 100)
			before(t, s, path)
			if r, stderr := s.wantCopy(t, record.Entity, path, force); stderr != "" || r.Changes < r.Records {
				t.Errorf("%+v, %s", r, stderr)
			}
		})
	}
}

// With Force, a run abandons a walk of another service, workspace or resource. If Run refuses
// to replace the file, the unfinished walk can still be continued.
func TestForceAbandonsAnotherWalk(t *testing.T) {
	t.Parallel()
	for name, as := range map[string]func(s *service, o *Options){
		"another service":   func(s *service, _ *Options) { s.source = "other/default" },
		"another workspace": func(s *service, _ *Options) { s.source = "service/other" },
		"another resource":  func(_ *service, o *Options) { o.Resource = record.Event },
	} {
		for _, forced := range []bool{false, true} {
			t.Run(name, func(t *testing.T) {
				s, path := newService(t), newCopy(t)
				other := func(o *Options) { as(s, o) }
				s.change(t, 100)
				s.failAt(t, path, 3, func(o *Options) { o.Force = forced })
				if err := os.Mkdir(path, 0o700); err != nil {
					t.Fatal(err)
				}
				if _, _, err := s.sync(t, record.Entity, path, other, force); err == nil || !strings.Contains(err.Error(), "is not a regular file") {
					t.Errorf("%v", err)
				}
				if err := os.Remove(path); err != nil {
					t.Fatal(err)
				}
				if stderr := s.failAt(t, path, 2, func(o *Options) { o.Force = forced }); !strings.HasPrefix(stderr, "Continuing after 14 changes.\n") {
					t.Errorf("after a refusal: %s", stderr)
				}
				if r, stderr, err := s.sync(t, record.Entity, path, other, force); err != nil || strings.Contains(stderr, "Continuing") || r.Changes < r.Records {
					t.Errorf("%+v, %s, %v", r, stderr, err)
				}
				wantFiles(t, path, "copy.ndjson", "copy.ndjson.sluice-sync")
				s.wantCopy(t, record.Entity, path, force)
			})
		}
	}
}
