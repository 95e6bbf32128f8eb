package repository_test

import (
	"regexp"
	"testing"

	"go.yaml.in/yaml/v3"

	"sluice/pkg/httpapi"
	"sluice/pkg/ratelimit"
)

// edge is the part of edge.yaml that the test reads.
type edge struct {
	Parameters map[string]struct {
		Default yaml.Node `yaml:"Default"`
	} `yaml:"Parameters"`
	Resources struct {
		WebACL struct {
			Properties struct {
				Scope string `yaml:"Scope"`
				Rules []struct {
					Name      string `yaml:"Name"`
					Statement struct {
						Rate struct {
							Limit     yaml.Node `yaml:"Limit"`
							Window    int       `yaml:"EvaluationWindowSec"`
							ScopeDown struct {
								Regex struct {
									String          string `yaml:"RegexString"`
									Transformations []struct {
										Type string `yaml:"Type"`
									} `yaml:"TextTransformations"`
								} `yaml:"RegexMatchStatement"`
							} `yaml:"ScopeDownStatement"`
						} `yaml:"RateBasedStatement"`
					} `yaml:"Statement"`
				} `yaml:"Rules"`
			} `yaml:"Properties"`
		} `yaml:"WebAcl"`
	} `yaml:"Resources"`
}

// Each rule of the web ACL selects the routes that its name suggests. The rules stop a client
// before it uses up a route's throttle in API Gateway, but they do not stop a client that imports
// at its limit.
func TestTheEdgeStopsAClientBeforeItFillsARoute(t *testing.T) {
	t.Parallel()
	var e edge
	if err := yaml.Unmarshal([]byte(read(t, "edge.yaml")), &e); err != nil {
		t.Fatal(err)
	}
	rate, _ := throttle(t, render(t, "prod")["prod"])
	admitted := int(rate)
	selected := map[string]func(httpapi.Route) bool{ // rule → routes that it is meant for
		"batches":  httpapi.Route.Batch,
		"imports":  func(r httpapi.Route) bool { return r.Class == ratelimit.Import },
		"requests": func(httpapi.Route) bool { return true },
	}
	rules := e.Resources.WebACL.Properties.Rules
	if len(rules) != len(selected)+1 || rules[0].Name != "blocked" || e.Resources.WebACL.Properties.Scope != "CLOUDFRONT" {
		t.Fatalf("%d rules of the scope %s, the first of which is %q", len(rules), e.Resources.WebACL.Properties.Scope, rules[0].Name)
	}
	for _, rule := range rules[1:] {
		rate := rule.Statement.Rate
		scope := regexp.MustCompile(rate.ScopeDown.Regex.String)
		if ts := rate.ScopeDown.Regex.Transformations; rate.ScopeDown.Regex.String != "" && (len(ts) != 1 || ts[0].Type != "URL_DECODE") {
			t.Errorf("%s transforms the path by %v, so /%%75psert_entities, which API Gateway decodes, may pass", rule.Name, ts)
		}
		for _, r := range httpapi.Routes() {
			if got, want := scope.MatchString(r.Path), selected[rule.Name](r); got != want {
				t.Errorf("the rule %s applies to %s: %t, want %t", rule.Name, r, got, want)
			}
		}
		limit := e.Parameters[rate.Limit.Value].Default
		var most int
		if err := limit.Decode(&most); err != nil || rate.Limit.Tag != "!Ref" || rate.Window != 60 {
			t.Fatalf("%s: the limit %v in %d s: %v", rule.Name, rate.Limit.Value, rate.Window, err)
		}
		if most/rate.Window >= admitted {
			t.Errorf("%s lets an address make %d requests a second, and API Gateway admits %d to a route", rule.Name, most/rate.Window, admitted)
		}
		if rule.Name == "imports" && most <= ratelimit.DefaultLimit*rate.Window {
			t.Errorf("%s stops an address at %d requests a minute, which its limit allows", rule.Name, most)
		}
	}
}
