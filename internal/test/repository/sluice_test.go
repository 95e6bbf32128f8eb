package repository_test

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"sluice"
	"strconv"
	"strings"
	"testing"

	"sluice/internal/test/templatetest"
	"sluice/pkg/access"
	"sluice/pkg/httpapi"
	"sluice/pkg/job"
)

// The template, the function folders, the sample events and the route table have the same
// functions and routes.
func TestTemplateFoldersAndRoutesAgree(t *testing.T) {
	functions := templatetest.Functions(t)
	var routes, deployed []string
	for _, r := range httpapi.Routes() {
		if key := r.Name + " " + r.Key(); !slices.Contains(routes, key) {
			routes = append(routes, key)
		}
	}
	for _, f := range functions {
		for _, r := range f.Routes {
			deployed = append(deployed, f.Name+" "+r.Key())
		}
	}
	same(t, "route table", routes, "template.yaml", deployed)

	var names []string
	for _, f := range functions {
		names = append(names, f.Name)
	}
	same(t, "template.yaml", names, "functions", list(t, "functions/*/main.go", func(path string) string { return filepath.Base(filepath.Dir(path)) }))
	same(t, "template.yaml", names, "events", list(t, "events/*.json", func(path string) string { return strings.TrimSuffix(filepath.Base(path), ".json") }))
}

// The names of a table and its environment variable agree, for example EntitiesTable and
// ENTITIES_TABLE.
func TestTablesAndVariablesAgree(t *testing.T) {
	variables := make(map[string]string)
	for _, table := range parse(t) {
		variables[table.EnvVar()] = table.LogicalID
	}
	for _, f := range templatetest.Functions(t) {
		for _, variable := range []string{"COUNTERS_TABLE", "LIMITS_TABLE"} {
			if len(f.Routes) > 0 && f.Tables[variable] == "" {
				t.Errorf("%s has no %s", f.LogicalID, variable)
			}
		}
		for variable, table := range f.Tables {
			if variables[variable] != table {
				t.Errorf("%s: %s names %s", f.LogicalID, variable, table)
			}
		}
	}
}

func TestTheMonitorWatchesEveryTableOfJobs(t *testing.T) {
	functions := templatetest.Functions(t)
	i := slices.IndexFunc(functions, func(f templatetest.Function) bool { return f.Name == "job-monitor" })
	for _, table := range parse(t) {
		if strings.HasSuffix(table.LogicalID, "JobsTable") && functions[i].Tables[table.EnvVar()] == "" {
			t.Errorf("the monitor does not watch %s", table.LogicalID)
		}
	}
}

// A job waits for its next run in a lane. Without a function, a job that was handed over would never
// end, and two functions would run it twice.
func TestEachLaneOfJobsHasOneFunction(t *testing.T) {
	patterns := make(map[string]string) // by table
	for _, f := range templatetest.Functions(t) {
		for _, s := range f.Streams {
			patterns[s.Table] += strings.Join(s.Patterns, "")
		}
	}
	for _, table := range parse(t) {
		for _, lane := range []job.Lane{job.Fast, job.Slow} {
			n := strings.Count(patterns[table.LogicalID], strconv.Quote(string(lane)))
			if strings.HasSuffix(table.LogicalID, "JobsTable") && n != 1 {
				t.Errorf("%d functions run jobs of %s in the lane %s", n, table.LogicalID, lane)
			}
		}
	}
}

// A function has access to the table of API keys only if its route requires an API key. The
// exception is the dashboard, which checks the API key at sign-in.
func TestFunctionsHaveKeysWhereTheirRouteAsksForThem(t *testing.T) {
	functions := templatetest.Functions(t)
	for _, r := range httpapi.Routes() {
		for _, f := range functions {
			if _, has := f.Tables["KEYS_TABLE"]; f.Name == r.Name && has != (r.Scope != access.Public || r.Name == "dashboard") {
				t.Errorf("%s, whose route has the scope %s: KEYS_TABLE %v", f.LogicalID, r.Scope, has)
			}
		}
	}
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

func list(t *testing.T, pattern string, name func(path string) string) (names []string) {
	t.Helper()
	paths, err := filepath.Glob(pattern)
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range paths {
		names = append(names, name(p))
	}
	return names
}

func same(t *testing.T, aName string, a []string, bName string, b []string) {
	t.Helper()
	for _, s := range a {
		if !slices.Contains(b, s) {
			t.Errorf("%s has %q, but %s does not", aName, s, bName)
		}
	}
	for _, s := range b {
		if !slices.Contains(a, s) {
			t.Errorf("%s has %q, but %s does not", bName, s, aName)
		}
	}
	if !t.Failed() && len(a) != len(b) {
		t.Errorf("%s has %d names, %s has %d, so one of them repeats a name", aName, len(a), bName, len(b))
	}
}

// imports returns the words that `go list -f FORMAT` prints for packages.
func imports(t *testing.T, format string, patterns ...string) []string {
	t.Helper()
	out, err := exec.Command("go", append([]string{"list", "-f", format}, patterns...)...).Output()
	if err != nil {
		t.Fatalf("go list %v: %v", patterns, err)
	}
	return strings.Fields(string(out))
}

// No function links an embedded store, a test helper or a command-line package.
func TestFunctionsLinkOnlyWhatTheyUse(t *testing.T) {
	deps := imports(t, "{{join .Deps \" \"}}", "./functions/...")
	for _, dep := range deps {
		for _, unwanted := range []string{"go.etcd.io/bbolt", "sluice/pkg/bolt", "spf13/cobra", "sluice/internal/", "sluice/cmd/", "go.yaml.in/"} {
			if strings.Contains(dep, unwanted) {
				t.Errorf("a function links %s", dep)
			}
		}
	}
	if !slices.Contains(deps, "sluice/pkg/dynamo") {
		t.Error("the functions do not link the DynamoDB counters, so this test reads the wrong thing")
	}
}

// Package httpapi uses plain net/http. Everything specific to AWS is in functions/internal
// and in the stores.
func TestTheAPILinksNoAWSPackage(t *testing.T) {
	deps := imports(t, "{{join .Deps \" \"}}", "./pkg/httpapi")
	for _, dep := range deps {
		if strings.HasPrefix(dep, "github.com/aws") {
			t.Errorf("pkg/httpapi links %s", dep)
		}
	}
	if !slices.Contains(deps, "sluice/pkg/ratelimit") {
		t.Error("pkg/httpapi does not link the limiter, so this test reads the wrong thing")
	}
}

// The S3 package is linked only into the functions that need it, because a larger binary starts
// more slowly.
func TestS3IsLinkedOnlyWhereNeeded(t *testing.T) {
	const s3 = "github.com/aws/aws-sdk-go-v2/service/s3"
	uses := imports(t, `{{$p := .ImportPath}}{{range .Deps}}{{if eq . "`+s3+`"}}{{$p}}{{end}}{{end}}`, "./functions/...", "./cmd/...", "./pkg/client")
	for i := range uses {
		uses[i] = strings.TrimPrefix(uses[i], "sluice/")
	}
	same(t, "the test", []string{"functions/delete-export-job", "functions/export-starter", "functions/export-worker", "functions/get-export-job", "functions/internal/exportwork", "cmd/sluice"}, "the users of "+s3, uses)
}

// Every function imports the job packages, which also contain the code of the workers. The
// linker drops that code from functions that only request or show jobs.
func TestRunsOfJobsAreLinkedOnlyWhereNeeded(t *testing.T) {
	runs := map[string]string{
		"the life of runs": "sluice/pkg/job.(*Worker).Run",
		"exports":          "sluice/pkg/exportjob.(*Exporter).Do",
		"erasures":         "sluice/pkg/erasurejob.(*Eraser).Do",
	}
	for function, want := range map[string][]string{
		"create-export-job": nil,
		"get-export-job":    nil,
		"delete-entity":     nil,
		"job-monitor":       nil,
		"export-worker":     {"the life of runs", "exports"},
		"erasure-worker":    {"the life of runs", "erasures"},
	} {
		t.Run(function, func(t *testing.T) {
			t.Parallel()
			path := filepath.Join(t.TempDir(), function)
			build := exec.CommandContext(t.Context(), "go", "build", "-trimpath", "-tags", "lambda.norpc,nethttpomithttp2", "-o", path, "./functions/"+function)
			build.Env = append(os.Environ(), "CGO_ENABLED=0")
			if out, err := build.CombinedOutput(); err != nil {
				t.Fatalf("%v\n%s", err, out)
			}
			symbols, err := exec.CommandContext(t.Context(), "go", "tool", "nm", path).Output()
			if err != nil {
				t.Fatal(err)
			}
			var linked []string
			for what, symbol := range runs {
				if strings.Contains(string(symbols), " "+symbol+"\n") {
					linked = append(linked, what)
				}
			}
			same(t, "the test", want, function, linked)
			if !strings.Contains(string(symbols), " main.main\n") {
				t.Error("the binary has no symbols, so this test proves nothing")
			}
		})
	}
}

// TestImportsPointDownwards checks the arrows in docs/architecture.md, "Who may import whom".
func TestImportsPointDownwards(t *testing.T) {
	for line := range strings.SplitSeq(strings.Join(imports(t, "{{$p := .ImportPath}}{{range .Imports}}{{$p}}>{{.}} {{end}}", "./pkg/..."), "\n"), "\n") {
		from, to, _ := strings.Cut(line, ">")
		if !mayImport(from, to) {
			t.Errorf("%s imports %s", from, to)
		}
	}
}

// domain lists what each domain package may import besides the standard library.
var domain = map[string][]string{
	"sluice/pkg/access":     {"sluice/pkg/ratelimit", "sluice/pkg/snapshot"},
	"sluice/pkg/audit":      {"sluice/pkg/record", "github.com/google/uuid"},
	"sluice/pkg/snapshot":   {"golang.org/x/sync/singleflight"},
	"sluice/pkg/ratelimit":  {"github.com/gaissmai/bart", "sluice/pkg/snapshot"},
	"sluice/pkg/record":     {"github.com/go-json-experiment/json/jsontext"}, // unlike encoding/json, it rejects duplicate names and invalid UTF-8
	"sluice/pkg/recordfile": {"github.com/go-json-experiment/json/jsontext", "sluice/pkg/record"},
	"sluice/pkg/importfile": {"github.com/go-json-experiment/json/jsontext", "sluice/pkg/entity", "sluice/pkg/event", "sluice/pkg/record", "sluice/pkg/recordfile"},
	"sluice/pkg/index":      {"sluice/pkg/entity", "sluice/pkg/record", "sluice/pkg/snapshot", "github.com/go-json-experiment/json/jsontext", "golang.org/x/text/cases"},
	"sluice/pkg/entity":     {"sluice/pkg/record"},
	"sluice/pkg/event":      {"sluice/pkg/record"},
	"sluice/pkg/job":        {"sluice/pkg/api", "sluice/pkg/record"},
	"sluice/pkg/exportjob":  {"sluice/pkg/api", "sluice/pkg/entity", "sluice/pkg/event", "sluice/pkg/index", "sluice/pkg/job", "sluice/pkg/record", "sluice/pkg/recordfile", "golang.org/x/sync/errgroup"},
	"sluice/pkg/erasurejob": {"sluice/pkg/api", "sluice/pkg/entity", "sluice/pkg/event", "sluice/pkg/job", "sluice/pkg/record"},
	"sluice/pkg/api":        {"sluice/pkg/entity", "sluice/pkg/event", "sluice/pkg/record"},
	// The client links only what describes records and the JSON of the API.
	"sluice/pkg/client": {"sluice/pkg/access", "sluice/pkg/api", "sluice/pkg/audit", "sluice/pkg/ratelimit", "sluice/pkg/entity", "sluice/pkg/event", "sluice/pkg/record", "github.com/google/uuid"},
}

// rooms lists the store packages, each with the libraries that it may import.
var rooms = map[string][]string{
	"sluice/pkg/dynamo":    {"github.com/aws/aws-sdk-go-v2", "github.com/aws/smithy-go"},
	"sluice/pkg/files":     {"github.com/aws/aws-sdk-go-v2", "github.com/aws/smithy-go"},
	"sluice/pkg/bolt":      {"go.etcd.io/bbolt", "github.com/go-json-experiment/json"},
	"sluice/pkg/memory":    {},
	"sluice/pkg/storetest": {"pgregory.net/rapid", "sluice/internal/test/secrettest"},
}

func mayImport(from, to string) bool {
	standard := !strings.HasPrefix(to, "sluice") && !strings.Contains(strings.Split(to, "/")[0], ".")
	under := func(library string) bool { return to == library || strings.HasPrefix(to, library+"/") }
	allowed, isDomain := domain[from]
	libraries, isRoom := rooms[from]
	_, toDomain := domain[to]
	_, toRoom := rooms[to]
	switch {
	case standard:
		return true
	case under("sluice/cmd"), under("sluice/functions"), toRoom:
		return false
	case isDomain:
		return slices.Contains(allowed, to)
	case isRoom:
		return toDomain || under("golang.org/x/sync") || slices.ContainsFunc(libraries, under)
	default: // httpapi and the dashboard
		return !under("sluice/internal") && !under("github.com/aws") && !under("go.etcd.io/bbolt")
	}
}
