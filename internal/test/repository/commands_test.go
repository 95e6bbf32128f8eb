package repository_test

import (
	"bytes"
	"encoding/json"
	"maps"
	"os/exec"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"

	"sluice"
)

var operatorPages = []string{"deploy", "operate", "recover", "adopt", "move", "edge", "quotas", "keys", "pipeline", "cost", "sam-local"}

// commands returns the commands in the indented blocks of operatorPages, by first word.
func commands(t *testing.T) map[string][]string {
	t.Helper()
	found := make(map[string][]string)
	for _, page := range operatorPages {
		text := strings.ReplaceAll(read(t, "docs/"+page+".md"), "\\\n", " ")
		for _, m := range regexp.MustCompile(`(?m)^ {4,}(\S.*)$`).FindAllStringSubmatch(text, -1) {
			line := m[1]
			for _, inner := range regexp.MustCompile(`\$\((aws [^)]*)\)`).FindAllStringSubmatch(line, -1) {
				found["aws"] = append(found["aws"], inner[1])
			}
			line, _, _ = strings.Cut(line, "   #")
			for command := range strings.SplitSeq(line, " && ") {
				word, _, _ := strings.Cut(command, " ")
				found[word] = append(found[word], strings.TrimSpace(command))
			}
		}
	}
	return found
}

// Each command on the pages must exist, and must have the options that the pages use.
func TestCommandsOfTheDocsExist(t *testing.T) {
	t.Parallel()
	found := commands(t)
	if len(found["aws"]) < 40 || len(found["sam"]) < 10 || len(found["go"]) < 15 {
		t.Errorf("%d commands of aws, %d of sam and %d of go were found, so this test reads the wrong thing", len(found["aws"]), len(found["sam"]), len(found["go"]))
	}
	in, err := json.Marshal(slices.DeleteFunc(slices.Concat(found["aws"], found["sam"]), func(c string) bool { return strings.HasPrefix(c, "sam local") }))
	if err != nil {
		t.Fatal(err)
	}
	var problems []string
	if err := json.Unmarshal(python(t, "sam", "template", in, "internal/test/repository/testdata/commands.py"), &problems); err != nil {
		t.Fatal(err)
	}
	for _, p := range problems {
		t.Error(p)
	}
	makefile := read(t, "Makefile")
	for _, command := range found["make"] {
		if target := strings.Fields(command)[1]; !strings.Contains(makefile, "\n"+target+":") {
			t.Errorf("the Makefile has no target %s", target)
		}
	}
	checkOwnCommands(t, found["go"])
}

// checkOwnCommands compares the options of "go run ./cmd/sluice" with the help text.
func checkOwnCommands(t *testing.T, commands []string) {
	t.Helper()
	program := filepath.Join(t.TempDir(), "sluice")
	if out, err := exec.CommandContext(t.Context(), "go", "build", "-o", program, "./cmd/sluice").CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	for _, command := range commands {
		arguments, ok := strings.CutPrefix(command, "go run ./cmd/sluice ")
		if !ok {
			t.Errorf("%s is not a sluice command", command)
			continue
		}
		words := strings.Fields(arguments)
		n := slices.IndexFunc(words, func(w string) bool { return strings.HasPrefix(w, "-") })
		if n < 0 {
			n = len(words)
		}
		help, err := exec.CommandContext(t.Context(), program, append(slices.Clone(words[:n]), "--help")...).CombinedOutput()
		if err != nil || !strings.Contains(string(help), "sluice "+words[0]) {
			t.Errorf("%s: %v: %s", command, err, help)
		}
		for _, option := range regexp.MustCompile(` (--?[a-z-]+)`).FindAllStringSubmatch(" "+arguments, -1) {
			if !regexp.MustCompile(`(^|[ ,])` + option[1] + `[ ,]`).Match(help) {
				t.Errorf("%s has no option %s", command, option[1])
			}
		}
	}
}

// tables.yaml is for importing resources into CloudFormation: it has the parameters, the
// conditions and all retained tables of template.yaml, and nothing that an import does not
// support. docs/adopt.md lists the tables.
func TestTablesOfTheTemplateCanBeAdopted(t *testing.T) {
	t.Parallel()
	recipe := regexp.MustCompile(`(?m)^tables\.yaml: .*\n\t((?:.*\\\n)*.*)\$< > \$@$`).FindStringSubmatch(read(t, "Makefile"))
	if recipe == nil {
		t.Fatal("the Makefile has no recipe of tables.yaml")
	}
	cmd := exec.CommandContext(t.Context(), "sh", "-c", strings.ReplaceAll(recipe[1], "$$", "$")+"template.yaml")
	out, err := cmd.Output()
	if err != nil {
		t.Fatal(err)
	}
	got, want := parseSections(t, out), parseSections(t, sluice.Template)
	maps.DeleteFunc(want.Resources, func(id string, r map[string]any) bool {
		return r["Type"] != "AWS::DynamoDB::Table" || id == "CountersTable"
	})
	same(t, "tables.yaml", slices.Collect(maps.Keys(got.Resources)), "template.yaml", slices.Collect(maps.Keys(want.Resources)))
	for id, table := range want.Resources {
		if !reflect.DeepEqual(got.Resources[id], table) {
			t.Errorf("tables.yaml defines %s as\n%v\nwant\n%v", id, got.Resources[id], table)
		}
	}
	if !reflect.DeepEqual(got.Parameters, want.Parameters) || !reflect.DeepEqual(got.Conditions, want.Conditions) {
		t.Errorf("tables.yaml has the parameters and conditions\n%v\n%v\nwant\n%v\n%v", got.Parameters, got.Conditions, want.Parameters, want.Conditions)
	}
	for _, part := range []string{"Transform:", "Globals:", "Rules:", "Metadata:", "Outputs:", "AWS::Serverless"} {
		if bytes.Contains(out, []byte("\n"+part)) {
			t.Errorf("tables.yaml has %s", part)
		}
	}
	if limit := 51_200; len(out) > limit { // maximum of --template-body, in bytes
		t.Errorf("tables.yaml has %d bytes, want at most %d", len(out), limit)
	}
	for id := range want.Resources {
		if !strings.Contains(read(t, "docs/adopt.md"), `"LogicalResourceId": "`+id+`"`) {
			t.Errorf("docs/adopt.md does not adopt %s", id)
		}
	}
}

// sections holds the sections of a template that a resource import supports. Decoding drops the
// tags of intrinsic functions, such as !Ref.
type sections struct {
	Parameters map[string]any            `yaml:"Parameters"`
	Conditions map[string]any            `yaml:"Conditions"`
	Resources  map[string]map[string]any `yaml:"Resources"`
}

func parseSections(t *testing.T, text []byte) (s sections) {
	t.Helper()
	if err := yaml.Unmarshal(text, &s); err != nil {
		t.Fatal(err)
	}
	return s
}

// Each variable that a command uses must be set by an earlier command on the same page.
func TestPagesSetTheVariablesOfTheirCommands(t *testing.T) {
	t.Parallel()
	set := regexp.MustCompile(`\b([A-Z][A-Z_]+)=|\bfor (\w+) in`)
	used := regexp.MustCompile(`\$\{?([A-Za-z_]+)`)
	for _, page := range operatorPages {
		known := make(map[string]bool)
		for _, block := range regexp.MustCompile(`(?m)(?:^ {4,}\S.*\n)+`).FindAllString(read(t, "docs/"+page+".md"), -1) {
			for line := range strings.Lines(block) {
				for _, m := range set.FindAllStringSubmatch(line, -1) {
					known[m[1]], known[m[2]] = true, true
				}
				for _, m := range used.FindAllStringSubmatch(line, -1) {
					if !known[m[1]] {
						t.Errorf("docs/%s.md uses $%s, which no earlier command of the page sets", page, m[1])
					}
				}
			}
		}
	}
}
