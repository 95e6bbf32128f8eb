package repository_test

import (
	"encoding/json"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"

	"sluice"
)

func read(t *testing.T, path string) string {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// Every alarm has its section in docs/operate.md, and every parameter its row in
// docs/deploy.md, and nothing else has.
func TestDocsNameEveryAlarmAndParameter(t *testing.T) {
	t.Parallel()
	var doc struct {
		Parameters map[string]any `yaml:"Parameters"`
		Resources  map[string]struct {
			Type string `yaml:"Type"`
		} `yaml:"Resources"`
	}
	if err := yaml.Unmarshal(sluice.Template, &doc); err != nil {
		t.Fatal(err)
	}
	var alarms, sections, parameters, rows []string
	for id, r := range doc.Resources {
		if r.Type == "AWS::CloudWatch::Alarm" {
			alarms = append(alarms, id)
		}
	}
	for _, m := range regexp.MustCompile(`(?m)^### (\w+)$`).FindAllStringSubmatch(read(t, "docs/operate.md"), -1) {
		sections = append(sections, m[1])
	}
	same(t, "template.yaml", alarms, "docs/operate.md", sections)

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

// sam local sets only variables that the template has, and needs a name for
// every table: the one that `sluice serve --dynamodb` gives it.
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
