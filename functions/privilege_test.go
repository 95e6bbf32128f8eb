package functions_test

import (
	"slices"
	"strings"
	"testing"

	"sluice"
	"sluice/internal/dynamoproxy"
	"sluice/pkg/template"
)

// checkGrants sees that template.yaml allows a function the actions on tables
// and indexes that it has taken through its proxy, and no other.
func checkGrants(t *testing.T, function string, proxy *dynamoproxy.Proxy) {
	t.Helper()
	tmpl, err := template.Parse(sluice.Template)
	if err != nil {
		t.Fatal(err)
	}
	i := slices.IndexFunc(tmpl.Functions, func(f template.Function) bool { return f.Name == function })
	if i < 0 {
		t.Fatalf("template.yaml has no function %s", function)
	}
	var needed []template.Grant
	for _, a := range proxy.Accesses() {
		// A test's table has its logical id and something random for a name.
		resource, _, _ := strings.Cut(a.Table, "-")
		if a.Index != "" {
			resource += "/index/" + a.Index
		}
		needed = append(needed, template.Grant{Action: a.Action, Resource: resource})
	}
	granted := slices.DeleteFunc(tmpl.Functions[i].Grants, func(g template.Grant) bool { return !strings.HasPrefix(g.Action, "dynamodb:") })
	for _, g := range needed {
		if !slices.Contains(granted, g) {
			t.Errorf("%s does %s on %s, which template.yaml does not allow", function, g.Action, g.Resource)
		}
	}
	for _, g := range granted {
		if !slices.Contains(needed, g) {
			t.Errorf("template.yaml allows %s %s on %s, which it has not done", function, g.Action, g.Resource)
		}
	}
}
