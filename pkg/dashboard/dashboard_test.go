package dashboard

import (
	"crypto/sha256"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strings"
	"testing"
)

func TestAppHasEveryPartOnce(t *testing.T) {
	names, err := fs.Glob(page, "page/*.js")
	if err != nil {
		t.Fatal(err)
	}
	for i := range names {
		names[i] = path.Base(names[i])
	}
	if sorted := slices.Sorted(slices.Values(parts)); !slices.Equal(sorted, names) {
		t.Errorf("app.js consists of %v, want %v", sorted, names)
	}
	if last := parts[len(parts)-1]; last != "app.js" {
		t.Errorf("the last part is %s, but app.js starts the page", last)
	}
}

// Each library must also have its license.
func TestLibrariesAreAsPublished(t *testing.T) {
	sums := string(read("vendor/SHA256SUMS"))
	names, err := fs.Glob(page, "vendor/*js")
	if err != nil || len(names) != 2 {
		t.Fatalf("%v, %v", names, err)
	}
	for _, name := range names {
		if want := fmt.Sprintf("%x  %s\n", sha256.Sum256(read(name)), path.Base(name)); !strings.Contains(sums, want) {
			t.Errorf("SHA256SUMS lacks %q", want)
		}
		library, _, _ := strings.Cut(path.Base(name), ".")
		if !strings.Contains(string(read("vendor/"+library+".LICENSE")), "Permission is hereby granted") {
			t.Errorf("%s has no license", library)
		}
	}
}

func TestThePageNamesItsAssetsByTheirVersion(t *testing.T) {
	files := Files()
	for name := range files {
		if name != Page && !strings.Contains(string(files[Page]), `"dashboard/`+name+`"`) {
			t.Errorf("the page does not load %s", name)
		}
	}
	if strings.Contains(string(files[Page]), "{version}") {
		t.Error("the page names no version")
	}
}
