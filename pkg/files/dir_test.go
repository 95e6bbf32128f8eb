package files_test

import (
	"errors"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"sluice/pkg/exportjob"
	"sluice/pkg/files"
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

func ask(s *files.Dir, method, target string, header ...string) *httptest.ResponseRecorder {
	r, w := httptest.NewRequest(method, target, nil), httptest.NewRecorder()
	for i := 0; i < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	s.ServeHTTP(w, r)
	return w
}

func TestALinkServesItsFile(t *testing.T) {
	t.Parallel()
	s := open(t, t.TempDir(), &now)
	j := storetest.File(t, s, "a workspace/../é", "a:b", "0123456789")
	target := link(t, s, j)
	whole := ask(s, "GET", target)
	if whole.Code != http.StatusOK || whole.Body.String() != "0123456789" {
		t.Fatalf("%s: %d %s", target, whole.Code, whole.Body)
	}
	for name, want := range map[string]string{
		"Content-Type": "application/gzip", "Cache-Control": "private, no-store", "X-Content-Type-Options": "nosniff", "Accept-Ranges": "bytes",
	} {
		if got := whole.Header().Get(name); got != want {
			t.Errorf("%s: %q, want %q", name, got, want)
		}
	}
	if got := whole.Header().Get("Content-Disposition"); !strings.Contains(got, "filename="+j.Name) {
		t.Errorf("the file is called %s", got)
	}
	j.Name = "people.csv"
	if r := ask(s, "GET", link(t, s, j)); r.Code != http.StatusOK || r.Header().Get("Content-Encoding") != "gzip" || r.Header().Get("Content-Type") != "text/csv; charset=utf-8" ||
		r.Header().Get("Content-Disposition") != "attachment; filename=people.csv" {
		t.Errorf("a link that decompresses: %d %v", r.Code, r.Header())
	}
	if r := ask(s, "HEAD", target); r.Code != http.StatusOK || r.Body.Len() != 0 || r.Header().Get("Content-Length") != "10" {
		t.Errorf("HEAD: %d %v", r.Code, r.Header())
	}
	for ranges, want := range map[string]string{"bytes=0-0": "0", "bytes=3-": "3456789", "bytes=-2": "89", "bytes=8-99": "89"} {
		if r := ask(s, "GET", target, "Range", ranges); r.Code != http.StatusPartialContent || r.Body.String() != want {
			t.Errorf("%s: %d %q, want %q", ranges, r.Code, r.Body, want)
		}
	}
	if r := ask(s, "GET", target, "Range", "bytes=10-"); r.Code != http.StatusRequestedRangeNotSatisfiable {
		t.Errorf("a range after the end: %d", r.Code)
	}
	if r := ask(s, "DELETE", target); r.Code != http.StatusMethodNotAllowed || r.Header().Get("Allow") != "GET, HEAD" {
		t.Errorf("DELETE: %d %v", r.Code, r.Header())
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
		if r := ask(s, "GET", forged); forged == target || r.Code != http.StatusForbidden {
			t.Errorf("%s: %s responds with %d %s", name, forged, r.Code, r.Body)
		}
	}
	if r := ask(open(t, dir, &now), "GET", target); r.Code != http.StatusForbidden {
		t.Errorf("a link of another server: %d", r.Code)
	}
	if r := ask(s, "GET", target); r.Code != http.StatusOK {
		t.Errorf("the link itself: %d", r.Code)
	}
}

func TestALinkExpires(t *testing.T) {
	t.Parallel()
	clock := now
	s := open(t, t.TempDir(), &clock)
	target := link(t, s, storetest.File(t, s, "one", "a", "mine"))
	for _, tt := range []struct {
		after  time.Duration
		status int
	}{{0, 200}, {files.LinkLifetime - time.Second, 200}, {files.LinkLifetime, 403}, {24 * time.Hour, 403}} {
		clock = now.Add(tt.after)
		if r := ask(s, "GET", target); r.Code != tt.status {
			t.Errorf("after %v: %d, want %d", tt.after, r.Code, tt.status)
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
	if r := ask(s, "GET", target); r.Code != http.StatusOK {
		t.Errorf("before the expiry: %d", r.Code)
	}
	made := clock
	clock = made.AddDate(0, 0, 7).Add(time.Minute)
	if err := s.Expire(7); err != nil {
		t.Fatal(err)
	}
	clock = made
	if r := ask(s, "GET", target); r.Code != http.StatusNotFound {
		t.Errorf("after the expiry: %d %s", r.Code, r.Body)
	}
	if _, err := s.Put(t.Context(), j, 2, []byte("part")); !errors.Is(err, exportjob.ErrUpload) {
		t.Errorf("put to an expired upload: %v", err)
	}
}
