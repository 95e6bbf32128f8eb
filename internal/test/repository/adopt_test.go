package repository_test

import (
	"bytes"
	"maps"
	"os/exec"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"

	"sluice"
)

// tables.yaml is for importing resources into CloudFormation: it has the parameters, the
// conditions and all retained tables of template.yaml, and nothing that an import does not
// support.
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
	maps.DeleteFunc(want.Resources, func(_ string, r map[string]any) bool {
		return r["Type"] != "AWS::DynamoDB::Table"
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
