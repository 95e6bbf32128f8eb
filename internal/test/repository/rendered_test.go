package repository_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"

	"sluice"
	"sluice/internal/template"
	"sluice/internal/test/child"
	"sluice/internal/test/templatetest"
)

// environments lists the environments of samconfig.toml, each with the settings that tests expect.
var environments = []environment{
	{name: "dev", gradual: "AllAtOnce", retention: "7", protected: "false"},
	{name: "prod", gradual: "Canary10Percent5Minutes", retention: "90", protected: "true"},
}

type environment struct{ name, gradual, retention, protected string }

// rendered is the output of testdata/render.py for one environment.
type rendered struct {
	Stack      string
	Parameters map[string]string
	Tags       []string
	Refused    []string // descriptions of the rules that refuse the parameters
	Rendered   json.RawMessage
	Resolved   struct{ Resources map[string]resource }
}

type resource struct {
	Type                                string
	DeletionPolicy, UpdateReplacePolicy string
	UpdatePolicy                        any
	Properties                          map[string]any
}

func (r rendered) ofType(typ string) map[string]resource {
	found := make(map[string]resource)
	for id, r := range r.Resolved.Resources {
		if r.Type == typ {
			found[id] = r
		}
	}
	return found
}

// python runs a script in the virtual environment .cache/VENV. If that is missing, the test is
// skipped, or fails if CI is set.
func python(t *testing.T, venv, target string, stdin []byte, args ...string) []byte {
	t.Helper()
	interpreter := ".cache/" + venv + "/bin/python"
	_, err := os.Stat(interpreter)
	child.Require(t, err, "Run: make "+target)
	cmd := exec.CommandContext(t.Context(), interpreter, args...)
	var out, diagnostics bytes.Buffer
	cmd.Stdin, cmd.Stdout, cmd.Stderr = bytes.NewReader(stdin), &out, &diagnostics
	if err := cmd.Run(); err != nil {
		t.Fatalf("%v: %v\n%s", args, err, diagnostics.Bytes())
	}
	return out.Bytes()
}

// renderings is a cache of the results of render, by argument.
var renderings = struct {
	sync.Mutex
	of map[string]rendered
}{of: make(map[string]rendered)}

// render runs testdata/render.py for each argument or, if there is none, for the environments
// of samconfig.toml. An argument may name one of editions. Tests share the results and must not
// change them.
func render(t *testing.T, arguments ...string) map[string]rendered {
	t.Helper()
	if len(arguments) == 0 {
		for _, e := range environments {
			arguments = append(arguments, e.name)
		}
	}
	renderings.Lock()
	defer renderings.Unlock()
	missing := slices.DeleteFunc(slices.Compact(slices.Sorted(slices.Values(arguments))), func(a string) bool {
		_, done := renderings.of[a]
		return done
	})
	if len(missing) > 0 {
		changed := make(map[string]string)
		for _, a := range missing {
			environment, _, _ := strings.Cut(a, ",")
			if _, name, ok := strings.Cut(environment, "@"); ok {
				changed[name] = edited(t, name)
			}
		}
		stdin, err := json.Marshal(changed)
		if err != nil {
			t.Fatal(err)
		}
		text := python(t, "sam", "template", stdin, append([]string{"internal/test/repository/testdata/render.py"}, missing...)...)
		if err := json.Unmarshal(text, &renderings.of); err != nil {
			t.Fatal(err)
		}
	}
	all := make(map[string]rendered)
	for _, a := range arguments {
		all[a] = renderings.of[a]
	}
	return all
}

// valueAt returns the value at a path of member names and element indexes, or nil.
func valueAt(v any, path ...any) any {
	for _, step := range path {
		switch step := step.(type) {
		case string:
			m, _ := v.(map[string]any)
			v = m[step]
		case int:
			list, _ := v.([]any)
			if step >= len(list) {
				return nil
			}
			v = list[step]
		}
	}
	return v
}

func ref(id string) any             { return map[string]any{"Ref": id} }
func attribute(id, name string) any { return map[string]any{"Fn::GetAtt": []any{id, name}} }
func parse(t *testing.T) []template.Table {
	t.Helper()
	tables, err := template.Parse(sluice.Template)
	if err != nil {
		t.Fatal(err)
	}
	return tables
}

func TestRenderedTemplate(t *testing.T) {
	t.Parallel()
	all, tables, declared := render(t, "dev", "prod"), parse(t), templatetest.Functions(t)
	for _, e := range environments {
		t.Run(e.name, func(t *testing.T) {
			r := all[e.name]
			want := func(what string, got, want any) {
				t.Helper()
				if !reflect.DeepEqual(got, want) {
					t.Errorf("%s is %v, want %v", what, got, want)
				}
			}
			want("stack", r.Stack, "sluice-"+e.name)
			want("tags", r.Tags, []string{"service=sluice", "environment=" + e.name})

			declared := slices.DeleteFunc(slices.Clone(declared), func(f templatetest.Function) bool { return f.Admin && r.Parameters["AdminRoutes"] != "on" })
			checkRoutes(t, r, declared)
			var functions []string
			for _, f := range declared {
				functions = append(functions, f.LogicalID)
				checkFunction(t, r, f, e)
			}
			same(t, "template.yaml", functions, "the rendered template", slices.Collect(maps.Keys(r.ofType("AWS::Lambda::Function"))))

			groups := r.ofType("AWS::Logs::LogGroup")
			for id, group := range groups {
				want(id+"'s retention", group.Properties["RetentionInDays"], e.retention)
			}
			want("log groups", len(groups), 2)
			stage := r.Resolved.Resources["ApiApiGatewayDefaultStage"].Properties
			want("access log", valueAt(stage, "AccessLogSettings", "DestinationArn"), attribute("AccessLogs", "Arn"))
			checkAccessLog(t, fmt.Sprint(valueAt(stage, "AccessLogSettings", "Format")))
			want("rate of requests", valueAt(stage, "DefaultRouteSettings", "ThrottlingRateLimit"), "550")
			want("burst of requests", valueAt(stage, "DefaultRouteSettings", "ThrottlingBurstLimit"), "200")
			want("throttles of single routes", valueAt(stage, "RouteSettings"), nil)

			var names, deployed []string
			for id, resource := range r.Resolved.Resources {
				if strings.HasPrefix(resource.Type, "AWS::DynamoDB::") {
					deployed = append(deployed, id)
				}
			}
			for _, table := range tables {
				names = append(names, table.LogicalID)
				got := r.Resolved.Resources[table.LogicalID]
				p := got.Properties
				checkProperties(t, table.LogicalID, p)
				for _, units := range []string{"MaxReadRequestUnits", "MaxWriteRequestUnits"} {
					if valueAt(p, "OnDemandThroughput", units) == nil {
						t.Errorf("%s has no maximum throughput %s", table.LogicalID, units)
					}
					for i := range table.GlobalSecondaryIndexes {
						if valueAt(p, "GlobalSecondaryIndexes", i, "OnDemandThroughput", units) == nil {
							t.Errorf("an index of %s has no maximum throughput %s", table.LogicalID, units)
						}
					}
				}
				if got, _ := valueAt(p, "TimeToLiveSpecification", "AttributeName").(string); got != string(table.TTL.AttributeName) || table.TTL.Enabled != (got != "") {
					t.Errorf("%s expires by %q, want %q", table.LogicalID, got, table.TTL.AttributeName)
				}
				want("the deletion policies of "+table.LogicalID, got.DeletionPolicy+got.UpdateReplacePolicy, "RetainRetain")
				want(table.LogicalID+"'s protection", p["DeletionProtectionEnabled"], e.protected)
				want(table.LogicalID+"'s recovery", valueAt(p, "PointInTimeRecoverySpecification", "PointInTimeRecoveryEnabled"), true)
				if table.LogicalID != "CountersTable" {
					want(table.LogicalID+"'s encryption", valueAt(p, "SSESpecification", "SSEEnabled"), true)
				}
			}

			same(t, "template.yaml", names, "the rendered template", deployed)
			for _, id := range []string{"ExportFilesBucket", "ExportFilesBucketPolicy"} {
				got := r.Resolved.Resources[id]
				want("the deletion policies of "+id, got.DeletionPolicy+got.UpdateReplacePolicy, "RetainRetain")
			}

			checkAlarms(t, r)
			body, _ := valueAt(r.Resolved.Resources["Dashboard"].Properties, "DashboardBody", "Fn::Sub").(string)
			if !json.Valid([]byte(body)) { // would fail the deployment
				t.Errorf("the dashboard is not JSON: %s", body)
			}
		})
	}
}

// checkProperties checks that a table has only properties that package template reads or that
// local tables do not need.
func checkProperties(t *testing.T, table string, properties map[string]any) {
	t.Helper()
	known := []string{
		"BillingMode", "AttributeDefinitions", "KeySchema", "GlobalSecondaryIndexes", "TimeToLiveSpecification", "StreamSpecification",
		"DeletionProtectionEnabled", "OnDemandThroughput", "PointInTimeRecoverySpecification", "SSESpecification", "Tags",
		"IndexName", "Projection", // of an index
	}
	names := slices.Collect(maps.Keys(properties))
	for _, index := range oneOrMore(properties["GlobalSecondaryIndexes"]) {
		names = append(names, slices.Collect(maps.Keys(index.(map[string]any)))...)
	}
	for _, name := range names {
		if !slices.Contains(known, name) {
			t.Errorf("%s has the property %s, which local tables do not have", table, name)
		}
	}
}

// checkRoutes checks that the API has the template's routes, each with the right function.
func checkRoutes(t *testing.T, r rendered, functions []templatetest.Function) {
	t.Helper()
	alias := regexp.MustCompile(`/functions/\$\{(\w+)Aliaslive\}/invocations$`)
	var deployed, meant []string
	paths, _ := valueAt(r.Resolved.Resources["Api"].Properties, "Body", "paths").(map[string]any)
	for path, item := range paths {
		for method, operation := range item.(map[string]any) {
			uri := fmt.Sprint(valueAt(operation, "x-amazon-apigateway-integration", "uri", "Fn::Sub"))
			m := alias.FindStringSubmatch(uri)
			if m == nil {
				t.Errorf("%s %s goes to %s, not to a function's alias live", method, path, uri)
				continue
			}
			route := templatetest.Route{Method: strings.ToUpper(method), Path: path}
			switch {
			case path == templatetest.Default.Path:
				route = templatetest.Default
			case method == "x-amazon-apigateway-any-method":
				route.Method = "ANY"
			}
			deployed = append(deployed, m[1]+" "+route.Key())
		}
	}
	for _, f := range functions {
		for _, route := range f.Routes {
			meant = append(meant, f.LogicalID+" "+route.Key())
		}
	}
	same(t, "template.yaml", meant, "the rendered template", deployed)
}

// checkFunction checks a function's configuration, permissions and deployment settings.
func checkFunction(t *testing.T, r rendered, f templatetest.Function, e environment) {
	t.Helper()
	resources := r.Resolved.Resources
	p := resources[f.LogicalID].Properties
	for name, want := range map[string]any{
		"Runtime": "provided.al2023", "Handler": "bootstrap", "Architectures": []any{"arm64"},
		"TracingConfig": nil, // checked by TestTracingAndReservedConcurrencyAreParameters
		"LoggingConfig": map[string]any{"LogFormat": "JSON", "LogGroup": ref("FunctionLogs"), "SystemLogLevel": "WARN"},
		"Role":          attribute(f.LogicalID+"Role", "Arn"),
	} {
		if !reflect.DeepEqual(p[name], want) {
			t.Errorf("%s: %s is %v, want %v", f.LogicalID, name, p[name], want)
		}
	}
	for variable, table := range f.Tables {
		if got := valueAt(p, "Environment", "Variables", variable); !reflect.DeepEqual(got, ref(table)) {
			t.Errorf("%s: %s is %v", f.LogicalID, variable, got)
		}
	}

	versions := 0
	for _, version := range r.ofType("AWS::Lambda::Version") {
		if reflect.DeepEqual(version.Properties["FunctionName"], ref(f.LogicalID)) {
			versions++
			if got := version.DeletionPolicy + version.UpdateReplacePolicy; got != "RetainRetain" {
				t.Errorf("the versions of %s have the policies %s, so an update deletes the version that a rollback needs", f.LogicalID, got)
			}
		}
	}
	group := f.LogicalID + "DeploymentGroup"
	if versions != 1 || valueAt(resources[f.LogicalID+"Aliaslive"].UpdatePolicy, "CodeDeployLambdaAliasUpdate", "DeploymentGroupName") == nil || resources[group].Type == "" {
		t.Errorf("%s has %d versions, the alias %+v and the deployment group %v", f.LogicalID, versions, resources[f.LogicalID+"Aliaslive"], resources[group])
	}
	d := resources[group].Properties
	if got := valueAt(d, "DeploymentConfigName"); got != "CodeDeployDefault.Lambda"+e.gradual {
		t.Errorf("%s has the deployment configuration %v, want %s", group, got, e.gradual)
	}
	alarms, _ := valueAt(d, "AlarmConfiguration", "Alarms").([]any)
	if (len(alarms) > 0) != (e.gradual != "AllAtOnce") {
		t.Errorf("%s rolls back on the alarms %v", group, alarms)
	}
	for _, alarm := range alarms {
		if id, _ := valueAt(alarm, "Name", "Ref").(string); resources[id].Type != "AWS::CloudWatch::Alarm" {
			t.Errorf("%s rolls back on %v, which is not an alarm", group, alarm)
		}
	}

	checkRole(t, resources, f)
}

// checkRole checks that a function's role has the permissions in the template, and no AWS managed
// policy except the one for logs, which SAM adds.
func checkRole(t *testing.T, resources map[string]resource, f templatetest.Function) {
	t.Helper()
	role := resources[f.LogicalID+"Role"].Properties
	var documents []any
	for _, policy := range oneOrMore(role["Policies"]) {
		documents = append(documents, valueAt(policy, "PolicyDocument"))
	}
	for _, policy := range oneOrMore(role["ManagedPolicyArns"]) {
		if id, ok := valueAt(policy, "Ref").(string); ok {
			documents = append(documents, resources[id].Properties["PolicyDocument"])
		} else if policy != "arn:aws:iam::aws:policy/service-role/AWSLambdaBasicExecutionRole" {
			t.Errorf("%s has the managed policy %v", f.LogicalID, policy)
		}
	}
	checkGrants(t, f, documents, resourceText)
}

// checkGrants checks that a function has exactly the permissions in the template. The callback
// resource converts an ARN to the form of templatetest.Grant.Resource.
func checkGrants(t *testing.T, f templatetest.Function, policies []any, resource func(any) string) {
	t.Helper()
	var meant, granted []string
	for _, g := range f.Grants {
		meant = append(meant, fmt.Sprint(g))
	}
	for _, policy := range policies {
		for _, statement := range oneOrMore(valueAt(policy, "Statement")) {
			partition := partitionOf(t, valueAt(statement, "Condition"))
			for _, action := range oneOrMore(valueAt(statement, "Action")) {
				for _, r := range oneOrMore(valueAt(statement, "Resource")) {
					granted = append(granted, fmt.Sprint(templatetest.Grant{Action: fmt.Sprint(action), Resource: resource(r) + partition}))
				}
			}
		}
	}
	same(t, f.LogicalID+" in template.yaml", meant, "its role", granted)
}

// partitionOf returns what a condition adds to templatetest.Grant.Resource.
func partitionOf(t *testing.T, condition any) string {
	t.Helper()
	if condition == nil {
		return ""
	}
	var c map[string]map[string][]string
	text, err := json.Marshal(condition)
	if err == nil {
		err = json.Unmarshal(text, &c)
	}
	if err != nil {
		t.Fatal(err)
	}
	return templatetest.Partition(c)
}

// oneOrMore returns a list unchanged, nil for nil, and a one-element list for any other value.
func oneOrMore(v any) []any {
	switch v := v.(type) {
	case nil:
		return nil
	case []any:
		return v
	}
	return []any{v}
}

// resourceText converts an ARN to the form of templatetest.Grant.Resource.
func resourceText(v any) string {
	if text, ok := valueAt(v, "Fn::Sub").(string); ok {
		return strings.Replace(strings.TrimPrefix(text, "${"), ".Arn}", "", 1)
	}
	switch id := fmt.Sprint(valueAt(v, "Fn::GetAtt", 0)); valueAt(v, "Fn::GetAtt", 1) {
	case "Arn":
		return id
	case "StreamArn":
		return id + ".StreamArn"
	}
	return fmt.Sprint(v)
}
