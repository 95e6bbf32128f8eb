package functions_test

import (
	"slices"
	"strings"
	"testing"

	"sluice/internal/test/dynamoproxy"
	"sluice/internal/test/templatetest"
)

// checkGrants checks that template.yaml grants exactly the permissions on tables and indexes
// that the calls through the proxy needed. It ignores streams, which Lambda itself reads.
func checkGrants(t *testing.T, function string, proxy *dynamoproxy.Proxy) {
	t.Helper()
	functions := templatetest.Functions(t)
	i := slices.IndexFunc(functions, func(f templatetest.Function) bool { return f.Name == function })
	if i < 0 {
		t.Fatalf("template.yaml has no function %s", function)
	}
	var needed []templatetest.Grant
	for _, a := range proxy.Accesses() {
		// In tests, the name of a table is its logical id, a hyphen and a random suffix.
		resource, _, _ := strings.Cut(a.Table, "-")
		if a.Index != "" {
			resource += "/index/" + a.Index
		}
		if a.Partition != "" {
			resource += "/" + a.Partition
		}
		needed = append(needed, templatetest.Grant{Action: a.Action, Resource: resource})
	}
	granted := slices.DeleteFunc(functions[i].Grants, func(g templatetest.Grant) bool {
		return !strings.HasPrefix(g.Action, "dynamodb:") || strings.HasSuffix(g.Resource, ".StreamArn")
	})
	for _, g := range needed {
		if !slices.Contains(granted, g) {
			t.Errorf("%s does %s on %s, which template.yaml does not allow", function, g.Action, g.Resource)
		}
	}
	for _, g := range granted {
		if !slices.Contains(needed, g) {
			t.Errorf("template.yaml allows %s %s on %s, which it has not used", function, g.Action, g.Resource)
		}
	}
}
