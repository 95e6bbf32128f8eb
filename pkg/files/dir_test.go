package files_test

import (
	"errors"
	"io"
	"io/fs"
	"maps"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"sluice/pkg/exportjob"
	"sluice/pkg/files"
	"sluice/pkg/record"
	"sluice/pkg/storetest"
)

var now = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

func open(t *testing.T, dir string, clock *time.Time) *files.Dir {
	t.Helper()
	s, err := files.NewDir(dir, func() time.Time { return *clock })
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func TestFilesOfDir(t *testing.T) {
	storetest.Files(t, func(t *testing.T) storetest.FileStore {
		dir := t.TempDir()
		return storetest.FileStore{Files: open(t, dir, &now), Read: func(t *testing.T, f exportjob.File) []byte {
			b, err := os.ReadFile(filepath.Join(dir, filepath.FromSlash(f.Key)))
			if err != nil && !errors.Is(err, fs.ErrNotExist) {
				t.Fatal(err)
			}
			return b
		}}
	})
}

func link(t *testing.T, s *files.Dir, f exportjob.File) string {
	t.Helper()
	l, err := s.Link(t.Context(), f)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// ask returns the content of the file of a link, and the headers.
func ask(t *testing.T, s *files.Dir, target string) (content string, header http.Header, err error) {
	t.Helper()
	u, err := url.ParseRequestURI(target)
	if err != nil {
		t.Fatal(err)
	}
	f, header, err := s.Open(u)
	if err != nil {
		return "", nil, err
	}
	b, err := io.ReadAll(f)
	if err := errors.Join(err, f.Close()); err != nil {
		t.Fatal(err)
	}
	return string(b), header, nil
}

func TestALinkOpensItsFile(t *testing.T) {
	t.Parallel()
	s := open(t, t.TempDir(), &now)
	j := storetest.File(t, s, "a workspace/../é", "a:b", "0123456789")
	for name, want := range map[string]http.Header{
		j.Name:       {"Content-Type": {"application/gzip"}, "Content-Disposition": {"attachment; filename=" + j.Name}},
		"people.csv": {"Content-Type": {"text/csv; charset=utf-8"}, "Content-Encoding": {"gzip"}, "Content-Disposition": {"attachment; filename=people.csv"}},
	} {
		j.Name = name
		if content, header, err := ask(t, s, link(t, s, j)); err != nil || content != "0123456789" || !maps.EqualFunc(header, want, slices.Equal) {
			t.Errorf("%s: %q %v, error %v; want %v", name, content, header, err, want)
		}
	}
}

func TestAForgedLinkIsRefused(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	s := open(t, dir, &now)
	target := link(t, s, storetest.File(t, s, "one", "a", "mine"))
	storetest.File(t, s, "one", "b", "another")
	storetest.File(t, s, "two", "a", "somebody else's")
	if err := os.WriteFile(filepath.Join(filepath.Dir(dir), "secret"), []byte("secret"), 0o600); err != nil {
		t.Fatal(err)
	}
	path, query, _ := strings.Cut(target, "?")
	digit := "0"
	if strings.HasSuffix(target, "0") {
		digit = "1"
	}
	for name, forged := range map[string]string{
		"another file":                          strings.Replace(target, "event-a", "event-b", 1),
		"another workspace":                     strings.Replace(target, "/one/", "/two/", 1),
		"a later expiry":                        strings.Replace(target, "expires=", "expires=9", 1),
		"a plus sign before the expiry":         strings.Replace(target, "expires=", "expires=%2B", 1),
		"no expiry":                             strings.Replace(target, "expires=", "expired=", 1),
		"no signature":                          strings.Replace(target, "signature=", "signed=", 1),
		"an empty signature":                    path + "?expires=9999999999&signature=",
		"another signature":                     target[:len(target)-1] + digit,
		"no parameters":                         path,
		"the directory":                         files.DirPrefix + "?" + query,
		"a path outside the directory":          files.DirPrefix + "../secret?" + query,
		"an escaped path outside the directory": files.DirPrefix + "one/%2e%2e/%2e%2e/secret?" + query,
		"the directory of uploads":              files.DirPrefix + ".uploads/?" + query,
		"a second expiry before the first":      path + "?expires=9999999999&" + query,
	} {
		if content, _, err := ask(t, s, forged); forged == target || !errors.Is(err, exportjob.ErrLink) {
			t.Errorf("%s: %s opens %q, error %v", name, forged, content, err)
		}
	}
	if _, _, err := ask(t, open(t, dir, &now), target); !errors.Is(err, exportjob.ErrLink) {
		t.Errorf("a link of another server: %v", err)
	}
	if _, _, err := ask(t, s, target); err != nil {
		t.Errorf("the link itself: %v", err)
	}
}

func TestALinkExpires(t *testing.T) {
	t.Parallel()
	clock := now
	s := open(t, t.TempDir(), &clock)
	target := link(t, s, storetest.File(t, s, "one", "a", "mine"))
	for _, tt := range []struct {
		after time.Duration
		want  error
	}{{0, nil}, {files.LinkLifetime - time.Second, nil}, {files.LinkLifetime, exportjob.ErrLink}, {24 * time.Hour, exportjob.ErrLink}} {
		clock = now.Add(tt.after)
		if _, _, err := ask(t, s, target); !errors.Is(err, tt.want) {
			t.Errorf("after %v: %v, want %v", tt.after, err, tt.want)
		}
	}
}

func TestOldFilesAndUploadsExpire(t *testing.T) {
	t.Parallel()
	dir, clock := t.TempDir(), time.Now()
	s := open(t, dir, &clock)
	j := storetest.File(t, s, "one", "a", "mine")
	target := link(t, s, j)
	upload, err := s.Start(t.Context(), j)
	if err != nil {
		t.Fatal(err)
	}
	j.Upload = upload
	if _, err := s.Put(t.Context(), j, 1, []byte("part")); err != nil {
		t.Fatal(err)
	}
	if err := s.Expire(7); err != nil {
		t.Fatal(err)
	}
	if _, _, err := ask(t, s, target); err != nil {
		t.Errorf("before the expiry: %v", err)
	}
	made := clock
	clock = made.AddDate(0, 0, 7).Add(time.Minute)
	if err := s.Expire(7); err != nil {
		t.Fatal(err)
	}
	clock = made
	if _, _, err := ask(t, s, target); record.CodeOf(err) != record.NotFound {
		t.Errorf("after the expiry: %v", err)
	}
	if _, err := s.Put(t.Context(), j, 2, []byte("part")); !errors.Is(err, exportjob.ErrUpload) {
		t.Errorf("put to an expired upload: %v", err)
	}
}
