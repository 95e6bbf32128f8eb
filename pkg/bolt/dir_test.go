package bolt

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"go.etcd.io/bbolt"
)

func TestADataDirectoryIsUsedOnlyIfItsLayoutIsKnown(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		files   map[string]string
		refused string // part of the error; "" if the directory can be used
	}{
		"a new directory":                     {nil, ""},
		"a directory of this build":           {map[string]string{layoutFile: layout, recordsFile: "", keysFile: "", limitsFile: ""}, ""},
		"other files":                         {map[string]string{"notes.txt": "x"}, ""},
		"a process that was killed early":     {map[string]string{layoutFile: ""}, ""},
		"one that was killed a little later":  {map[string]string{layoutFile: "", keysFile: "", recordsFile: ""}, ""},
		"a later layout":                      {map[string]string{layoutFile: layout + "0", recordsFile: ""}, "layout " + layout + "0, not " + layout},
		"a later layout without data":         {map[string]string{layoutFile: layout + "0"}, "layout " + layout + "0, not " + layout},
		"records without a layout":            {map[string]string{recordsFile: ""}, "layout unknown, not " + layout},
		"keys without a layout":               {map[string]string{keysFile: ""}, "layout unknown, not " + layout},
		"limits without a layout":             {map[string]string{limitsFile: ""}, "layout unknown, not " + layout},
		"a layout file that cannot be a file": {map[string]string{filepath.Join(layoutFile, "x"): ""}, "read the layout"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := filepath.Join(t.TempDir(), "data")
			for file, text := range tt.files {
				path := filepath.Join(dir, file)
				if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
					t.Fatal(err)
				}
				if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			for what, open := range map[string]func() error{
				"the keys":   func() error { _, err := OpenKeys(dir); return err },
				"the limits": func() error { _, err := OpenLimits(dir); return err },
				"the server": func() error { return CreateDir(dir) },
				"it again":   func() error { return CreateDir(dir) },
			} {
				err := open()
				if tt.refused == "" && err != nil || tt.refused != "" && (err == nil || !strings.Contains(err.Error(), tt.refused)) {
					t.Errorf("%s: error %v, want %q", what, err, tt.refused)
				}
			}
			text, err := os.ReadFile(filepath.Join(dir, layoutFile))
			if tt.refused == "" && (err != nil || string(text) != layout) {
				t.Errorf("the layout file has %q, error %v", text, err)
			} else if want := tt.files[layoutFile]; tt.refused != "" && string(text) != want {
				t.Errorf("the layout file of a refused directory has %q, want %q", text, want)
			}
		})
	}
}

// A machine that lost power, or a careless copy, may leave a directory without the text in the file
// layout. The file with the records has it too.
func TestALostLayoutIsKnownFromTheRecords(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	reopen := func(want string) {
		t.Helper()
		s, err := Open(dir, Config{})
		if err == nil {
			err = s.Close()
		}
		if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("error %v, want %q", err, want)
		}
	}
	reopen("")
	for _, lose := range []func() error{
		func() error { return os.Truncate(filepath.Join(dir, layoutFile), 0) },
		func() error { return os.Remove(filepath.Join(dir, layoutFile)) },
	} {
		if err := lose(); err != nil {
			t.Fatal(err)
		}
		reopen("")
		if text, err := os.ReadFile(filepath.Join(dir, layoutFile)); string(text) != layout {
			t.Errorf("the layout is %q, error %v", text, err)
		}
	}
	err := updateFile(filepath.Join(dir, recordsFile), func(tx *bbolt.Tx) error {
		return tx.Bucket([]byte(serviceBucket)).Put([]byte(layoutKey), []byte(layout+"0"))
	})
	if err != nil || os.Truncate(filepath.Join(dir, layoutFile), 0) != nil {
		t.Fatal(err)
	}
	reopen("layout " + layout + "0, not " + layout)
}

// The id of a service is lost together with its records, and a server does not begin without them.
func TestALostFileOfRecordsIsNoticed(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	open := func() (id string, err error) {
		s, err := Open(dir, Config{NoSync: true})
		if err != nil {
			return "", err
		}
		return s.ServiceID, s.Close()
	}
	if keys, err := OpenKeys(dir); err != nil || keys == nil {
		t.Fatal(err)
	}
	id, err := open()
	if err != nil || id == "" {
		t.Fatal(id, err)
	}
	records := filepath.Join(dir, recordsFile)
	for what, lose := range map[string]func() error{
		"kept":    func() error { return nil },
		"missing": func() error { return os.Remove(records) },
		"empty":   func() error { return os.WriteFile(records, nil, 0o600) },
		"another": func() error {
			if err := os.WriteFile(records, nil, 0o600); err != nil {
				return err
			}
			db, err := bbolt.Open(records, 0o600, nil)
			if err != nil {
				return err
			}
			return db.Close()
		},
	} {
		text, err := os.ReadFile(records)
		if err == nil {
			err = lose()
		}
		if err != nil {
			t.Fatal(err)
		}
		again, err := open()
		if what == "kept" && (again != id || err != nil) || what != "kept" && (err == nil || !strings.Contains(err.Error(), "restore the file from a backup")) {
			t.Errorf("%s: the id is %q, was %q, error %v", what, again, id, err)
		}
		if err := os.WriteFile(records, text, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for what, files := range map[string][]string{"an old copy": {usedFile}, "no records": {usedFile, recordsFile}} {
		for _, name := range files {
			if err := os.Remove(filepath.Join(dir, name)); err != nil {
				t.Fatal(err)
			}
		}
		again, err := open()
		if again == id || err != nil {
			t.Errorf("%s: the id is %q, was %q, error %v", what, again, id, err)
		}
		id = again
	}
}
