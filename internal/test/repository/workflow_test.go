package repository_test

import (
	"regexp"
	"slices"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"
)

type workflow struct {
	Permissions map[string]string
	Jobs        map[string]struct {
		Permissions map[string]string
		Environment string
		Uses        string // path of another workflow
		Steps       []step
	}
}

type step struct {
	Uses, Run string
	With      map[string]string
}

const testWorkflow = ".github/workflows/test.yml"

func readWorkflow(t *testing.T, path string) (w workflow, text string) {
	t.Helper()
	text = read(t, path)
	if err := yaml.Unmarshal([]byte(text), &w); err != nil {
		t.Fatal(err)
	}
	if w.Permissions == nil || len(w.Permissions) > 0 {
		t.Errorf("the jobs of %s have the permissions %v by default, want none", path, w.Permissions)
	}
	return w, text
}

// Only the job that deploys can ask for credentials of the account, and only the job that
// releases can write to the repository. Neither runs the tests' programs, or anything that the
// tests left in a cache.
func TestTheWorkflowGivesTestsNoPermissions(t *testing.T) {
	t.Parallel()
	w, text := readWorkflow(t, ".github/workflows/deploy.yml")
	tests, testText := readWorkflow(t, testWorkflow)
	test := tests.Jobs["test"]
	runs := slices.ContainsFunc(test.Steps, func(s step) bool { return strings.HasSuffix(s.Run, " .ci/run") })
	if caller := w.Jobs["test"]; caller.Uses != "./"+testWorkflow || len(caller.Permissions) != 1 || caller.Permissions["contents"] != "read" || len(tests.Jobs) != 1 || !runs {
		t.Errorf("%+v calls the tests %+v, which should run .ci/run and may only read", caller, tests.Jobs)
	}
	w.Jobs["test"], text = test, strings.ReplaceAll(text, "uses: ./"+testWorkflow, "")+testText
	trusted := map[string][]string{ // job → beginnings of the commands that it may run
		"deploy":  {"make sam", ".cache/sam/bin/sam build", ".cache/sam/bin/sam deploy "},
		"release": {"make sbom", "gh release create "},
	}
	permissions := map[string]map[string]string{
		"test":    {"contents": "read"},
		"deploy":  {"contents": "read", "id-token": "write"},
		"release": {"contents": "write"},
	}
	if len(w.Jobs) != len(permissions) {
		t.Errorf("%d jobs, want %d", len(w.Jobs), len(permissions))
	}
	for name, job := range w.Jobs {
		for scope, access := range job.Permissions {
			if permissions[name][scope] != access {
				t.Errorf("%s has the permission %s: %s", name, scope, access)
			}
		}
		if job.Permissions == nil || (job.Environment == "prod") != (name == "deploy") {
			t.Errorf("%s has the permissions %v and the environment %q", name, job.Permissions, job.Environment)
		}
		for _, step := range job.Steps {
			commands, privileged := trusted[name]
			allowed := func(command string) bool { return strings.HasPrefix(step.Run, command) }
			if privileged && step.Run != "" && !slices.ContainsFunc(commands, allowed) {
				t.Errorf("%s runs %s", name, step.Run)
			}
			if strings.HasPrefix(step.Uses, "actions/checkout@") && step.With["persist-credentials"] != "false" {
				t.Errorf("%s leaves its token where later steps can read it", name)
			}
			if strings.HasPrefix(step.Uses, "actions/setup-go@") && privileged && step.With["cache"] != "false" {
				t.Errorf("%s restores a cache that the tests can write", name)
			}
		}
	}
	uses := regexp.MustCompile(`(?m)uses: (.*)$`).FindAllStringSubmatch(text, -1)
	for _, m := range uses {
		if !regexp.MustCompile(`^[\w-]+/[\w-]+@[0-9a-f]{40} # v\d+\.\d+\.\d+$`).MatchString(m[1]) {
			t.Errorf("%s is not pinned to the commit of a version", m[1])
		}
	}
	if len(uses) < 5 {
		t.Errorf("only %d actions were found, so this test reads the wrong thing", len(uses))
	}
}
