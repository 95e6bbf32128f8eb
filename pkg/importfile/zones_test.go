package importfile_test

import (
	"archive/zip"
	_ "embed"
	"encoding/json"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"sluice/internal/test/child"
	"sluice/pkg/importfile"
)

//go:embed testdata/zones.py
var zonesPy string

// database is Go's time zone database, which both Go and Python read in this test.
var database string

func TestMain(m *testing.M) {
	if root, err := exec.Command("go", "env", "GOROOT").Output(); err == nil {
		database = filepath.Join(strings.TrimSpace(string(root)), "lib", "time", "zoneinfo.zip")
		os.Setenv("ZONEINFO", database) //nolint:errcheck // the test then compares with another database
	}
	os.Exit(m.Run())
}

// Python's zoneinfo says when each local time was, for all zones and 20 formats, around each
// change of a clock and at random times.
func TestTimesAreThoseOfPython(t *testing.T) {
	t.Parallel()
	python, err := exec.LookPath("python3")
	if err == nil {
		err = exec.CommandContext(t.Context(), python, "-c", "import zoneinfo").Run()
	}
	child.Require(t, err, "install Python 3.9 or later")
	dir := unpack(t, database)
	cmd := exec.CommandContext(t.Context(), python, "-c", zonesPy)
	cmd.Env = append(os.Environ(), "PYTHONTZPATH="+dir)
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatal(err)
	}
	type row struct {
		Zone, Format string
		Times        [][2]string // local time, and the instant or ""
	}
	zones, formats, times, skipped, wrong := map[string]bool{}, map[string]bool{}, 0, 0, 0
	for in := json.NewDecoder(strings.NewReader(string(out))); ; {
		var r row
		if err := in.Decode(&r); err == io.EOF {
			break
		} else if err != nil {
			t.Fatal(err)
		}
		zones[r.Zone], formats[r.Format] = true, true
		d := importfile.Description{Resource: "event", Format: "ndjson", Name: "n", TimeFormats: []string{r.Format}, TimeZone: r.Zone}
		if strings.Contains(r.Format, "z") {
			d.TimeZone = ""
		}
		var file []byte
		for _, pair := range r.Times {
			line, err := json.Marshal(map[string]string{"occurred_at": pair[0]})
			if err != nil {
				t.Fatal(err)
			}
			file = append(append(file, line...), '\n')
		}
		rows, err := read(file, d)
		if err != nil || len(rows) != len(r.Times) {
			t.Fatalf("%s, %s: %d rows, %v", r.Zone, r.Format, len(rows), err)
		}
		for i, got := range rows {
			want, at := r.Times[i][1], ""
			if got.Event.OccurredAt != nil {
				at = got.Event.OccurredAt.String()
			}
			times++
			if want == "" {
				skipped++
			}
			if at != want && wrong < 20 {
				wrong++
				t.Errorf("%s in %s by %s is %q, %v; Python says %q", r.Times[i][0], r.Zone, r.Format, at, got.Err, want)
			}
		}
	}
	t.Logf("%d zones, %d formats, %d times, of which clocks skip %d", len(zones), len(formats), times, skipped)
	if len(zones) < 400 || len(formats) < 20 || skipped == 0 {
		t.Error("too little was compared")
	}
}

// unpack returns a directory with the files of an archive.
func unpack(t *testing.T, archive string) string {
	t.Helper()
	in, err := zip.OpenReader(archive)
	if err != nil {
		t.Fatal(err)
	}
	defer in.Close() //nolint:errcheck // the file is only read
	dir := t.TempDir()
	for _, file := range in.File {
		if file.FileInfo().IsDir() {
			continue
		}
		r, err := file.Open()
		if err != nil {
			t.Fatal(err)
		}
		data, err := io.ReadAll(r)
		path := filepath.Join(dir, filepath.FromSlash(file.Name))
		if err == nil {
			err = os.MkdirAll(filepath.Dir(path), 0o700)
		}
		if err == nil {
			err = os.WriteFile(path, data, 0o600)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	return dir
}
