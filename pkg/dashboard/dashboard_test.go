package dashboard

import (
	"crypto/sha256"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/fstest"
)

func TestTheScriptsHaveEveryPartOnce(t *testing.T) {
	var names []string
	for _, pattern := range []string{"page/*.js", "page/admin/*.js"} {
		found, err := fs.Glob(embedded, pattern)
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range found {
			names = append(names, strings.TrimPrefix(name, "page/"))
		}
	}
	slices.Sort(names)
	if sorted := slices.Sorted(slices.Values(slices.Concat(parts, adminParts))); !slices.Equal(sorted, names) {
		t.Errorf("the scripts consist of %v, want %v", sorted, names)
	}
	if last := parts[len(parts)-1]; last != "app.js" {
		t.Errorf("the last part is %s, but app.js starts the page", last)
	}
}

func TestFilesOfOtherProjectsAreUnchanged(t *testing.T) {
	names, err := fs.Glob(embedded, "page/vendor/*-[0-9]*")
	if err != nil {
		t.Fatal(err)
	}
	var sums strings.Builder
	for line := range strings.Lines(string(read("page/vendor/SHA256SUMS"))) {
		_, name, _ := strings.Cut(strings.TrimSpace(line), "  ")
		fmt.Fprintf(&sums, "%x  %s\n", sha256.Sum256(read("page/vendor/"+name)), name)
		names = slices.DeleteFunc(names, func(n string) bool { return path.Base(n) == name })
	}
	if got, want := sums.String(), string(read("page/vendor/SHA256SUMS")); got != want {
		t.Errorf("the files are\n%s, want\n%s", got, want)
	}
	if len(names) > 0 {
		t.Errorf("SHA256SUMS lacks %v", names)
	}
}

// built is a directory with an importer, as "make importer" builds it.
var built = fstest.MapFS{"importer.wasm.gz": {Data: []byte("a program")}, "wasm_exec.js": {Data: []byte("// Go")}}

func TestThePageNamesItsAssetsByTheirVersion(t *testing.T) {
	files := FilesWith(built)
	for name := range files {
		if name != Page && path.Base(name) != "admin.js" && !strings.Contains(string(files[Page]()), `"dashboard/`+name+`"`) {
			t.Errorf("the page does not load %s", name)
		}
	}
	if strings.Contains(string(files[Page]()), "{") {
		t.Error("the page has placeholders")
	}
}

// A page stays with its importer when another one is built.
func TestAnotherImporterHasAnotherName(t *testing.T) {
	dir := t.TempDir()
	build := func(text string) map[string]func() []byte {
		t.Helper()
		for name, content := range map[string]string{program: text, "wasm_exec.js": "// Go"} {
			path := filepath.Join(dir, name)
			if err := os.WriteFile(path+".new", []byte(content), 0o600); err != nil {
				t.Fatal(err)
			}
			if err := os.Rename(path+".new", path); err != nil {
				t.Fatal(err)
			}
		}
		return FilesWith(os.DirFS(dir))
	}
	for name, content := range build("a program with the checksum 1") {
		if path.Base(name) != program {
			continue
		}
		if _, same := build("a program with the checksum 2")[name]; same || string(content()) != "a program with the checksum 1" {
			t.Errorf("the name stays the same (%v), or now stands for %q", same, content())
		}
	}
}

func TestThePageHasOnlyABuiltImporter(t *testing.T) {
	with := len(FilesWith(built))
	for missing := range built {
		part := maps.Clone(built)
		delete(part, missing)
		files := FilesWith(part)
		if len(files) != with-2 || strings.Contains(string(files[Page]()), "importer.wasm") || strings.Contains(string(files[Page]()), "{") {
			t.Errorf("without %s, the page has %d files, want %d", missing, len(files), with-2)
		}
	}
}
