package repository_test

import (
	"encoding/json"
	"maps"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// The Makefile installs packages from PyPI and npm only with the hashes in tools, and runs none
// of their code during installation.
func TestToolsAreInstalledByTheirHashesAndRunNoScripts(t *testing.T) {
	t.Parallel()
	required := map[string][]string{
		"pip install": {"--no-deps", "--require-hashes", "--only-binary :all:"},
		"npm ci":      {"--ignore-scripts"},
		"npm install": {"--package-lock-only", "--ignore-scripts"},
		"npm pack":    {"not allowed"},
		"npx ":        {"not allowed"},
	}
	seen := 0
	for line := range strings.Lines(strings.ReplaceAll(read(t, "Makefile"), "\\\n", " ")) {
		for command, options := range required {
			if strings.HasPrefix(line, "#") || !strings.Contains(line, command) {
				continue
			}
			seen++
			for _, o := range options {
				if !strings.Contains(line, o) {
					t.Errorf("the Makefile runs %q without %s: %s", command, o, line)
				}
			}
		}
	}
	if seen < 3 {
		t.Errorf("only %d installations were found, so this test reads the wrong thing", seen)
	}
}

// The Docker image is built with the Go version in go.mod's toolchain line. Its only
// third-party base image is golang.
func TestTheImageIsBuiltWithTheToolchain(t *testing.T) {
	t.Parallel()
	toolchain := regexp.MustCompile(`(?m)^toolchain go(\S+)$`).FindStringSubmatch(read(t, "go.mod"))
	var from []string
	for _, m := range regexp.MustCompile(`(?m)^FROM (\S+)`).FindAllStringSubmatch(read(t, "Dockerfile"), -1) {
		from = append(from, m[1])
	}
	if toolchain == nil || !slices.Equal(from, []string{"golang:" + toolchain[1], "scratch"}) {
		t.Errorf("the image is built from %q, want golang of %q and scratch", from, toolchain)
	}
}

// Each version in requirements.in and package.json is also in the lockfile beside it, which
// has a hash for every package.
func TestLockfilesHoldEveryPackage(t *testing.T) {
	t.Parallel()
	pins, err := filepath.Glob("tools/*/requirements.in")
	if err != nil || len(pins) < 7 {
		t.Fatalf("%q, %v", pins, err)
	}
	for _, path := range pins {
		locked := make(map[string]string) // name → version
		for _, m := range regexp.MustCompile(`(?m)^([\w.-]+)==(\S+)[^\\\n]*(\\\n    --hash=sha256:[0-9a-f]{64})?`).FindAllStringSubmatch(read(t, strings.TrimSuffix(path, "in")+"txt"), -1) {
			locked[m[1]] = m[2]
			if m[3] == "" {
				t.Errorf("%s: %s has no hash", path, m[1])
			}
		}
		for name, version := range pinned(t, path) {
			if locked[name] != version {
				t.Errorf("%s has %s==%s, the lockfile %q: run make lock", path, name, version, locked[name])
			}
		}
	}

	paths, err := filepath.Glob("tools/*/package.json")
	if err != nil || len(paths) < 4 {
		t.Fatalf("%q, %v", paths, err)
	}
	type dependencies struct{ Dependencies map[string]string }
	for _, path := range paths {
		var wanted dependencies
		var lock struct {
			Packages map[string]struct {
				dependencies
				Integrity string
			}
		}
		for file, v := range map[string]any{"package.json": &wanted, "package-lock.json": &lock} {
			if err := json.Unmarshal([]byte(read(t, filepath.Join(filepath.Dir(path), file))), v); err != nil {
				t.Fatalf("%s: %v", file, err)
			}
		}
		if !reflect.DeepEqual(wanted.Dependencies, lock.Packages[""].Dependencies) {
			t.Errorf("%s has %v, the lockfile %v: run make lock", path, wanted.Dependencies, lock.Packages[""].Dependencies)
		}
		for name, p := range lock.Packages {
			if name != "" && !strings.HasPrefix(p.Integrity, "sha512-") {
				t.Errorf("%s: %s has the hash %q", path, name, p.Integrity)
			}
		}
	}
}

// pinned returns the versions in a requirements file, and in the files that it includes.
func pinned(t *testing.T, path string) map[string]string {
	t.Helper()
	versions := make(map[string]string)
	for line := range strings.FieldsSeq(strings.ReplaceAll(read(t, path), "-r ", "-r=")) {
		if included, ok := strings.CutPrefix(line, "-r="); ok {
			maps.Copy(versions, pinned(t, filepath.Join(filepath.Dir(path), included)))
			continue
		}
		name, version, _ := strings.Cut(line, "==")
		name, _, _ = strings.Cut(name, "[")
		versions[name] = version
	}
	return versions
}
