package dashboard

import (
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
