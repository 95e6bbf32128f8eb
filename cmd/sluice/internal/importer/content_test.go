package importer

import (
	"archive/zip"
	"bytes"
	"errors"
	"io/fs"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"sluice/cmd/sluice/internal/journal"
	"sluice/pkg/importfile"
	"sluice/pkg/record"
)

// archive returns a zip archive of files, which are pairs of name and content.
func archive(t *testing.T, files ...[2]string) string {
	t.Helper()
	var b bytes.Buffer
	w := zip.NewWriter(&b)
	for _, f := range files {
		file, err := w.Create(f[0])
		if err == nil {
			_, err = file.Write([]byte(f[1]))
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

func events(path string, format record.Format, d importfile.Description) Options {
	d.Resource, d.Format, d.Time = record.Event, format, importfile.TimeNow
	return Options{Description: d, Path: path}
}

// columnsOf returns columns that become fields; "" leaves one out.
func columnsOf(fields map[string]string) (list []importfile.Column) {
	for _, source := range slices.Sorted(maps.Keys(fields)) {
		list = append(list, importfile.Column{Source: source, Field: fields[source], Out: fields[source] == ""})
	}
	return list
}

func array(lines string) string {
	return "[" + strings.ReplaceAll(strings.TrimSpace(lines), "\n", ",") + "]"
}

// A stopped import continues only with the same options. Each record is stored or rejected
// exactly once.
func TestAStoppedImportContinuesWithTheSameOptions(t *testing.T) {
	t.Parallel()
	text := lines(0, 700) + "[]\n" + lines(700, 1500) + "{}\n"
	renamed := importfile.Description{Columns: columnsOf(map[string]string{"name": "id", "attributes": "attributes"}), Name: "n"}
	for name, tt := range map[string]struct {
		format record.Format
		file   string
		shape  importfile.Description
	}{
		"an array":             {record.JSON, array(text), importfile.Description{}},
		"an archive":           {record.NDJSON, archive(t, [2]string{"__MACOSX/._events.ndjson", "x"}, [2]string{"a/", ""}, [2]string{"a/events.ndjson", text}), importfile.Description{}},
		"another encoding":     {record.NDJSON, text, importfile.Description{Encoding: "windows-1252"}},
		"a compressed array":   {record.JSON, packed(array(text)), importfile.Description{}},
		"with names and zones": {record.NDJSON, text, importfile.Description{Columns: columnsOf(map[string]string{"name": "name"}), TimeFormats: []string{"%d.%m.%Y"}, TimeZone: "Europe/Berlin"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s, path := newService(t), filepath.Join(t.TempDir(), "events")
			write(t, path, tt.file, 0)
			o := events(path, tt.format, tt.shape)
			other := o
			other.Description = events(path, tt.format, renamed).Description
			s.answer = func(call int) int {
				if call == 10 {
					return http.StatusNotImplemented
				}
				return 0
			}
			r, _, err := s.importAs(t.Context(), o)
			if err == nil || r.Complete || r.Total() == 0 {
				t.Fatalf("%+v, %v", r, err)
			}
			refused := new(journal.RefusedError)
			if r, _, err := s.importAs(t.Context(), other); !errors.As(err, &refused) || r.Resource != "" {
				t.Fatalf("other options: %+v, %v", r, err)
			}
			r, _, err = s.importAs(t.Context(), o)
			if err != nil || !r.Complete || r.Created != 1500 || r.Rejected != 2 {
				t.Fatalf("%+v, %v", r, err)
			}
			rejects, err := os.ReadFile(path + ".rejects")
			row := `{"line":`
			if tt.format == record.JSON {
				row = `{"element":`
			}
			if err != nil || strings.Count(string(rejects), "\n") != 2 || !strings.HasPrefix(string(rejects), row+"701,") {
				t.Errorf("rejects %s, %v", rejects, err)
			}
			s.want(t, 1500)

			// A complete import is not repeated, and other options are refused.
			calls := s.calls
			if _, stderr, err := s.importAs(t.Context(), o); err != nil || !strings.Contains(stderr, "Already imported") {
				t.Errorf("once more: %s%v", stderr, err)
			}
			if _, _, err := s.importAs(t.Context(), other); !errors.As(err, &refused) || !strings.Contains(err.Error(), "already imported with other options") {
				t.Errorf("other options: %v", err)
			}
			write(t, path, lines(1500, 1501), os.O_APPEND)
			if _, _, err := s.importAs(t.Context(), o); name != "with names and zones" && (!errors.As(err, &refused) || !strings.Contains(err.Error(), "has grown")) {
				t.Errorf("after the file has grown: %v", err)
			}
			if name != "with names and zones" && s.calls != calls {
				t.Errorf("%d calls", s.calls-calls)
			}
		})
	}
}

func TestArchivesThatCannotBeRead(t *testing.T) {
	t.Parallel()
	for want, text := range map[string]string{
		"the archive has 2 files, but must have one: unpack it, and import each file (a.csv, b.csv)": archive(t, [2]string{"a.csv", ""}, [2]string{"b.csv", ""}),
		"the archive has 0 files": archive(t, [2]string{"a/", ""}),
		"encrypted":               strings.Replace(archive(t, [2]string{"a.csv", "name\nn\n"}), "PK\x01\x02\x14\x00\x14\x00\x08", "PK\x01\x02\x14\x00\x14\x00\x09", 1),
		"unpack":                  "PK\x03\x04",
		"is not a zip archive":    "name\n",
	} {
		path := filepath.Join(t.TempDir(), "events.zip")
		write(t, path, text, 0)
		if _, err := NameIn(path); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v, want %q", err, want)
		}
	}
}

// A dry run checks each record and writes nothing.
func TestADryRunSaysWhatAnImportWouldDo(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "events.ndjson")
	large := `{"name":"n","attributes":{"a":"` + strings.Repeat("x", record.MaxAttributesBytes-26) + `"}}`
	write(t, path, lines(0, 3)+large+"\n"+strings.Repeat("{}\n", 25)+`{"id":"a","name":"n"}`, 0)
	shape := importfile.Description{Columns: columnsOf(map[string]string{"note": "", "attributes": "attributes"})}
	r, err := Try(t.Context(), events(path, record.NDJSON, shape), nil)
	if err != nil || r.Valid != 4 || r.Rejected != 26 || len(r.Rejects) != 2 || len(r.Rejects[1].Examples) != 20 || !strings.Contains(string(r.First), `{"i":0}`) {
		t.Fatalf("%+v, %v", r, err)
	}
	var out bytes.Buffer
	r.Print(&out, func(int64) string { return "30 events" })
	for _, want := range []string{"30 events: 4 would be sent, 26 would be rejected. Nothing was sent.\n", "\n1 reject, such as line 4: the record is larger than 262144 bytes\n", "\n25 rejects, such as line 5: the record has", "\nNote: events without a time, which occur when they are imported: 4"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("%s lacks %q", out.String(), want)
		}
	}
	if files, err := filepath.Glob(filepath.Join(filepath.Dir(path), "*")); err != nil || len(files) != 1 {
		t.Errorf("%v, %v", files, err)
	}
}

// A misspelled member in --map stops an import before anything is sent. Otherwise the records would
// be stored without the field.
func TestAMemberThatNoRecordHas(t *testing.T) {
	t.Parallel()
	const says = `no record has the member "no", which becomes id; write it as in the file, or leave it out of the description`
	shape := importfile.Description{Columns: columnsOf(map[string]string{"no": "id", "note": "", "name": "name", "attributes": "attributes"})}
	for format, text := range map[record.Format]string{record.NDJSON: lines(0, 3), record.JSON: array(lines(0, 3))} {
		s, path := newService(t), filepath.Join(t.TempDir(), "events")
		o := events(path, format, shape)
		write(t, path, text, 0)
		if _, err := Try(t.Context(), o, nil); err == nil || !strings.HasSuffix(err.Error(), says) {
			t.Errorf("%s, a dry run: %v", format, err)
		}
		if _, _, err := s.importAs(t.Context(), o); err == nil || err.Error() != says || s.calls > 0 {
			t.Errorf("%s: %v after %d calls", format, err, s.calls)
		}
		if _, err := os.Stat(path + ".journal"); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%s: the journal: %v", format, err)
		}
		o.Path, o.File = "-", path
		if _, _, err := s.importAs(t.Context(), o); err == nil || err.Error() != says || s.calls > 0 {
			t.Errorf("%s, standard input: %v after %d calls", format, err, s.calls)
		}
		o.File = ""

		// It is enough if only the last record has the member. In an empty file, nothing is missing.
		for _, text := range []string{"", text + "\n" + `{"no":7,"name":"n"}`} {
			if text != "" && format == record.JSON {
				text = array(lines(0, 3) + `{"no":7,"name":"n"}`)
			}
			o.Path = filepath.Join(t.TempDir(), "events")
			write(t, o.Path, text, 0)
			if _, _, err := s.importAs(t.Context(), o); err != nil {
				t.Errorf("%s, %q: %v", format, text, err)
			}
		}
	}
}

// A rejected record's members count as found. An unreadable record may have had any member. A
// member that becomes an attribute may be absent from all records.
func TestAMemberThatNoRecordMustHave(t *testing.T) {
	t.Parallel()
	const note = `no record has the member "tel", which becomes attributes.phone; write it as in the file, or leave it out of the description`
	for name, tt := range map[string]struct {
		text     string
		rejected int64
		note     string
	}{
		"after a member that is wrong": {`{"ts":"31/12/2026","no":7,"tel":1}`, 1, ""},
		"unreadable":                   {"{\"no\xff", 1, ""},
		"an attribute":                 {`{"ts":"31.12.2026","no":7}`, 0, note},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s, path := newService(t), filepath.Join(t.TempDir(), "events")
			write(t, path, tt.text, 0)
			o := events(path, record.NDJSON, importfile.Description{
				Columns: columnsOf(map[string]string{"ts": "occurred_at", "no": "id", "tel": "attributes.phone"}), TimeFormats: []string{"%d.%m.%Y"}, Name: "n",
			})
			if r, err := Try(t.Context(), o, nil); err != nil || r.Rejected != tt.rejected || strings.Join(r.Notes, "") != tt.note {
				t.Errorf("a dry run: %v, %d rejected, notes %q", err, r.Rejected, r.Notes)
			}
			r, stderr, err := s.importAs(t.Context(), o)
			if err != nil || r.Rejected != tt.rejected || strings.Contains(stderr, "Note: ") != (tt.note != "") || !strings.Contains(stderr, tt.note) {
				t.Errorf("%v, %d rejected, %s", err, r.Rejected, stderr)
			}
		})
	}
}

// An import that fails before it has stored anything leaves the previous import's journal and
// reject file unchanged, so the same records are not imported twice.
func TestAFailedImportLeavesTheJournalOfTheOneBefore(t *testing.T) {
	t.Parallel()
	refuse := func(int) int { return http.StatusForbidden }
	serve := func(int) int { return 0 }
	for name, tt := range map[string]struct {
		again  importfile.Description
		answer func(int) int
		says   string
	}{
		"a wrong --map":                 {importfile.Description{Columns: columnsOf(map[string]string{"typo": "id"})}, serve, `the header lacks the column "typo"`},
		"other options without a right": {importfile.Description{Name: "other"}, refuse, "403"},
		"the same without a right":      {importfile.Description{}, refuse, "403"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s, path := newService(t), filepath.Join(t.TempDir(), "events.csv")
			write(t, path, "name,attributes.i\nn,0\n,1\n", 0)
			o := events(path, record.CSV, importfile.Description{})
			if r, _, err := s.importAs(t.Context(), o); err != nil || r.Rejected != 1 {
				t.Fatal(r, err)
			}
			files := func() (text string) {
				for _, name := range []string{path + ".journal", path + ".rejects"} {
					content, err := os.ReadFile(name)
					if err != nil {
						t.Error(err)
					}
					text += string(content)
				}
				return text
			}
			before, again := files(), o
			again.Again, again.Description, s.answer = true, events(path, record.CSV, tt.again).Description, tt.answer
			if _, _, err := s.importAs(t.Context(), again); err == nil || !strings.Contains(err.Error(), tt.says) || strings.Contains(err.Error(), "continues") {
				t.Errorf("again: %v", err)
			}
			if after := files(); after != before {
				t.Errorf("the files were\n%s and are\n%s", before, after)
			}
			s.answer = serve
			if r, stderr, err := s.importAs(t.Context(), o); err != nil || r.Calls != 0 || !strings.Contains(stderr, "Already imported") {
				t.Errorf("the first command: %+v, %s%v", r, stderr, err)
			}
			o.Again = true
			if r, _, err := s.importAs(t.Context(), o); err != nil || r.Existing != 1 || r.Rejected != 1 {
				t.Errorf("again, with success: %+v, %v", r, err)
			}
		})
	}
}
