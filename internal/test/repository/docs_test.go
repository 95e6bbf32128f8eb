package repository_test

import (
	"encoding/json"
	"maps"
	"os"
	"os/exec"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"

	"sluice"
	"sluice/internal/test/child"
	"sluice/pkg/httpapi"
)

func read(t *testing.T, path string) string {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// docs/operate.md has a section for each alarm without a condition, and docs/alarms.md has a
// section for each alarm with the condition WatchesAll. Neither page has other alarm sections.
// docs/deploy.md has a row for every parameter of the template, and no other rows.
func TestDocsNameEveryAlarmAndParameter(t *testing.T) {
	t.Parallel()
	var doc struct {
		Parameters map[string]any `yaml:"Parameters"`
		Resources  map[string]struct {
			Type      string `yaml:"Type"`
			Condition string `yaml:"Condition"`
		} `yaml:"Resources"`
	}
	if err := yaml.Unmarshal(sluice.Template, &doc); err != nil {
		t.Fatal(err)
	}
	for page, condition := range map[string]string{"docs/operate.md": "", "docs/alarms.md": "WatchesAll"} {
		var alarms, sections []string
		for id, r := range doc.Resources {
			if r.Type == "AWS::CloudWatch::Alarm" && r.Condition == condition {
				alarms = append(alarms, id)
			}
		}
		for _, m := range regexp.MustCompile(`(?m)^##+ (\w+Alarm)$`).FindAllStringSubmatch(read(t, page), -1) {
			sections = append(sections, m[1])
		}
		same(t, "template.yaml", alarms, page, sections)
	}

	var parameters, rows []string

	for name := range doc.Parameters {
		parameters = append(parameters, name)
	}
	_, table, _ := strings.Cut(read(t, "docs/deploy.md"), "\n## Parameters\n")
	table, _, _ = strings.Cut(table, "\n## ")
	for line := range strings.SplitSeq(table, "\n") {
		if cells := strings.Split(line, "|"); len(cells) > 1 {
			for _, m := range regexp.MustCompile("`(\\w+)`").FindAllStringSubmatch(cells[1], -1) {
				rows = append(rows, m[1])
			}
		}
	}
	same(t, "template.yaml", parameters, "docs/deploy.md", rows)
}

// sam-local.json gives every table the name that `sluice serve --dynamodb` uses. It has only
// variables that are in the template, because sam local ignores all others.
func TestSAMLocalNamesEveryTable(t *testing.T) {
	t.Parallel()
	var file struct{ Parameters map[string]string }
	if err := json.Unmarshal([]byte(read(t, "sam-local.json")), &file); err != nil {
		t.Fatal(err)
	}
	for _, table := range parse(t) {
		if got, want := file.Parameters[table.EnvVar()], "sluice-"+table.LogicalID; got != want {
			t.Errorf("%s is %q, want %q", table.EnvVar(), got, want)
		}
	}
	variables := regexp.MustCompile(`(?m)^ +([A-Z][A-Z0-9_]+):`).FindAllStringSubmatch(string(sluice.Template), -1)
	for name := range file.Parameters {
		if !slices.ContainsFunc(variables, func(m []string) bool { return m[1] == name }) {
			t.Errorf("no function has the variable %s", name)
		}
	}
}

// docs/configuration.md lists exactly the environment variables that the code reads or the
// template sets.
func TestDocsListEveryEnvironmentVariable(t *testing.T) {
	t.Parallel()
	used := make(map[string]bool)
	collect := func(source, pattern string) {
		for _, m := range regexp.MustCompile(pattern).FindAllStringSubmatch(source, -1) {
			used[m[1]] = true
		}
	}
	for _, path := range tracked(t) {
		if product := strings.HasSuffix(path, ".go") && !strings.HasSuffix(path, "_test.go") && !strings.Contains(path, "test/") && !strings.HasPrefix(path, "bench/"); product {
			source := read(t, path)
			collect(source, `"([A-Z][A-Z0-9]*(?:_[A-Z0-9]+)+)"`)
			collect(source, `[gG]etenv\("([A-Z0-9_]+)"\)`)
		}
	}
	collect(string(sluice.Template), `(?m)^ +([A-Z][A-Z0-9]*(?:_[A-Z0-9]+)+): `)
	for _, table := range parse(t) {
		used[table.EnvVar()] = true
	}
	var rows []string
	for line := range strings.SplitSeq(read(t, "docs/configuration.md"), "\n") {
		if cells := strings.Split(line, "|"); len(cells) > 1 {
			for _, m := range regexp.MustCompile("`([A-Z0-9_]+)`").FindAllStringSubmatch(cells[1], -1) {
				rows = append(rows, m[1])
			}
		}
	}
	same(t, "the code", slices.Collect(maps.Keys(used)), "docs/configuration.md", rows)
}

// The tree in the README names every folder in the root, and no files. If it names one
// subfolder of a folder, it names all of them. Everything in the tree exists.
func TestReadmeShowsTheTree(t *testing.T) {
	t.Parallel()
	_, section, _ := strings.Cut(read(t, "README.md"), "\n## Where things are\n")
	var tree []string
	for _, m := range regexp.MustCompile(`(?m)^(\S+)  +\S`).FindAllStringSubmatch(section, -1) {
		tree = append(tree, m[1])
	}
	opened := map[string]bool{"": true} // folders whose subfolders must be in the tree
	for _, name := range tree {
		if info, err := os.Stat(name); err != nil {
			t.Error(err)
		} else if !info.IsDir() || !strings.HasSuffix(name, "/") {
			t.Errorf("README's tree names %s, which is not a folder with its slash", name)
		}
		for dir, _ := path.Split(strings.TrimSuffix(name, "/")); dir != ""; dir, _ = path.Split(strings.TrimSuffix(dir, "/")) {
			opened[dir] = opened[dir] || !slices.Contains(tree, dir)
		}
	}
	for _, file := range tracked(t) {
		dir := ""
		for name := range strings.SplitAfterSeq(file, "/") {
			if opened[dir] && strings.HasSuffix(name, "/") && !opened[dir+name] && !slices.Contains(tree, dir+name) {
				t.Errorf("README's tree lacks %s", dir+name)
			}
			dir += name
		}
	}
}

func TestDocsNameEveryRoute(t *testing.T) {
	t.Parallel()
	_, section, _ := strings.Cut(read(t, "docs/api.md"), "\n## Routes\n")
	section, _, _ = strings.Cut(section, "\n## ")
	for _, r := range httpapi.Routes() {
		if key := r.Keys()[0]; r.Name != "dashboard" && r.Name != "not-found" && !strings.Contains(section, "`"+key+"`") {
			t.Errorf("docs/api.md lacks %s", key)
		}
	}
}

func tracked(t *testing.T) []string {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), "git", "ls-files").Output()
	child.Require(t, err, "Run the tests in a clone of the repository.")
	return strings.Fields(string(out))
}

// The newest version in CHANGELOG.md is the version that `sluice --version` prints.
func TestTheChangelogNamesTheVersion(t *testing.T) {
	t.Parallel()
	version := regexp.MustCompile(`(?m)^var version = "(.*)"$`).FindStringSubmatch(read(t, "cmd/sluice/main.go"))
	newest := regexp.MustCompile(`(?m)^## (\d\S*)`).FindStringSubmatch(read(t, "CHANGELOG.md"))
	if version == nil || newest == nil || version[1] != newest[1] {
		t.Errorf("the program's version is %q, the changelog's is %q", version, newest)
	}
}

// The totals of the monthly bills in docs/cost.md are the sums of their lines.
func TestTheBillsAddUp(t *testing.T) {
	t.Parallel()
	_, table, _ := strings.Cut(read(t, "docs/cost.md"), "\n| USD a month |")
	var sums [3]int // in cents
	lines := 0
	for line := range strings.SplitSeq(table, "\n") {
		cells := strings.Split(line, "|")
		if len(cells) != 6 {
			if lines > 0 {
				break
			}
			continue
		}
		total := strings.Contains(cells[1], "Total")
		for i := range sums {
			cents, err := strconv.Atoi(strings.Replace(strings.Trim(cells[i+2], " *"), ".", "", 1))
			if err != nil {
				break // the separator line
			}
			if total && sums[i] != cents {
				t.Errorf("column %d adds up to %d cents, the page says %d", i+1, sums[i], cents)
			}
			sums[i] += cents
			lines++
		}
	}
	if lines < 30 {
		t.Errorf("only %d amounts were found, so this test reads the wrong thing", lines)
	}
}
