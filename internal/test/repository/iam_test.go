package repository_test

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// policy is an IAM policy or a KMS key policy.
type policy struct {
	Version   string
	Statement []statement
}

type statement struct {
	Sid, Effect string
	Principal   map[string]any
	Action      any // a string or a list of strings
	Resource    any
	Condition   map[string]map[string]any
}

func readPolicy(t *testing.T, name string) policy {
	t.Helper()
	return parsePolicy(t, read(t, "docs/policies/"+name))
}

func parsePolicy(t *testing.T, text string) (p policy) {
	t.Helper()
	if err := json.Unmarshal([]byte(text), &p); err != nil {
		t.Fatal(err)
	}
	return p
}

// filled returns a policy for the stack sluice-prod, as filled in by the command in
// docs/pipeline.md.
func filled(t *testing.T, name string) policy {
	t.Helper()
	command := regexp.MustCompile(`(?s)fill\(\) \{.*?; \}`).FindString(read(t, "docs/pipeline.md"))
	cmd := exec.CommandContext(t.Context(), "sh", "-c", command+"\nfill "+strings.TrimSuffix(name, ".json"))
	cmd.Env = append(os.Environ(), "ACCOUNT_ID=123456789012", "AWS_DEFAULT_REGION=us-east-1", "STACK=sluice-prod", "API_ID=a1b2c3", "DOMAIN_NAME=api.example.com",
		"CERTIFICATE_ID=c-1", "DISTRIBUTION_ID=E1", "REQUEST_POLICY_ID=o-1", "HOSTED_ZONE_ID=Z1", "KMS_KEY_ID=k-1", "REPOSITORY=example/sluice")
	text, err := cmd.Output()
	if left := regexp.MustCompile(`\b[A-Z]+(_[A-Z]+)+\b|REGION|STACK|OWNER`).Find(text); err != nil || left != nil {
		t.Fatalf("%s: %v, and %q is not filled in", name, err, left)
	}
	return parsePolicy(t, string(text))
}

func texts(v any) (all []string) {
	for _, text := range oneOrMore(v) {
		all = append(all, fmt.Sprint(text))
	}
	return all
}

func (p policy) actions() (patterns []string) {
	for _, s := range p.Statement {
		patterns = append(patterns, texts(s.Action)...)
	}
	return patterns
}

// allowsService reports whether p allows an AWS service to perform an action, or allows
// principals to perform it through the service (kms:ViaService).
func (p policy) allowsService(service, action string) bool {
	return slices.ContainsFunc(p.Statement, func(s statement) bool {
		services := append(texts(s.Principal["Service"]), texts(s.Condition["StringEquals"]["kms:ViaService"])...)
		return s.Effect == "Allow" && slices.Contains(services, service) && matches(texts(s.Action), action)
	})
}

// call is an action on a resource, with the values of condition keys.
type call struct {
	action, resource string
	keys             map[string][]string
}

// allows reports whether an identity that has only p may make a call. Source: IAM User Guide,
// "Policy evaluation logic" and "Condition operators".
func (p policy) allows(t *testing.T, c call) bool {
	t.Helper()
	allowed := false
	for _, s := range p.Statement {
		if !matches(texts(s.Action), c.action) || !matches(texts(s.Resource), c.resource) || !s.holds(t, c.keys) {
			continue
		}
		if s.Effect != "Allow" {
			return false
		}
		allowed = true
	}
	return allowed
}

func (s statement) holds(t *testing.T, keys map[string][]string) bool {
	t.Helper()
	for operator, of := range s.Condition {
		for key, patterns := range of {
			values, exact, every := keys[key], false, false
			switch operator {
			case "ArnEquals", "ArnLike", "StringLike":
			case "StringEquals":
				exact = true
			case "ForAllValues:StringEquals": // also true if the call has no value for the key
				exact, every = true, true
			default:
				t.Fatalf("the operator %s is not known", operator)
			}
			if len(values) == 0 && !every {
				return false
			}
			for _, v := range values {
				if exact && !slices.Contains(texts(patterns), v) || !matches(texts(patterns), v) {
					return false
				}
			}
		}
	}
	return true
}

// matches reports whether an action or a resource matches any of the IAM patterns.
func matches(patterns []string, text string) bool {
	return slices.ContainsFunc(patterns, func(p string) bool {
		re := "(?i)^" + strings.ReplaceAll(regexp.QuoteMeta(p), `\*`, ".*") + "$"
		return regexp.MustCompile(re).MatchString(text)
	})
}
