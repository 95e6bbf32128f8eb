// Package templatetest reads from template.yaml what only tests need: the routes, permissions,
// streams and tables of each function.
//
// It fails the test if a table depends on a condition, a function on another than HasAdminRoutes, or
// if a function has a managed policy from outside the template or a policy with a wildcard. The only conditions that
// a policy may have are limits to one partition, and to the partitions of workspaces. The tests of
// the rendered template check the rest.
package templatetest

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"

	"sluice"
)

type Function struct {
	Admin     bool              // whether it exists only with the condition HasAdminRoutes
	LogicalID string            // ends in "Function", such as ListEntityFunction
	Name      string            // name of its folder, such as list-entity
	Routes    []Route           // empty for a function without HttpApi events
	Tables    map[string]string // logical id of each table, by the environment variable that contains the table's name
	Streams   []Stream
	Grants    []Grant
}

// Route is an HttpApi event of a function.
type Route struct {
	Method string // upper case, or ANY; "" for the default route
	Path   string // "$default" for the default route
}

// Default serves requests that match no other route.
var Default = Route{Path: "$default"}

// Key returns the route key of API Gateway, such as "ANY /entity" or "$default".
func (r Route) Key() string {
	if r == Default {
		return r.Path
	}
	return r.Method + " " + r.Path
}

// Stream is a table's stream, from which Lambda passes changes to a function.
type Stream struct {
	Table    string   // logical id
	Patterns []string // event patterns in JSON, one of which a change must match; empty if every change matches
	Failed   string   // logical id of the queue of changes that the function could not process
}

// Grants returns what Lambda must be allowed to do on behalf of the function. Sources: DynamoDB
// Developer Guide, "IAM policy to allow an AWS Lambda function to access DynamoDB stream records";
// Lambda Developer Guide, "Retain discarded records for a DynamoDB event source".
func (s Stream) Grants() (grants []Grant) {
	for _, action := range []string{"DescribeStream", "GetRecords", "GetShardIterator", "ListStreams"} {
		grants = append(grants, Grant{"dynamodb:" + action, s.Table + ".StreamArn"})
	}
	return append(grants, Grant{"sqs:SendMessage", s.Failed})
}

// Grant is the permission to take an action on a resource.
type Grant struct {
	Action string // such as dynamodb:Query

	// Resource is the logical id of a resource, followed by what the policy adds to its ARN.
	// Examples: EntitiesTable, EntitiesTable/index/by_type, Files/* for the objects of a
	// bucket, EntitiesTable/#service for one partition, EntitiesTable/!#* for the partitions of
	// workspaces, and JobsTable.StreamArn for a stream, which Lambda reads on behalf of the
	// function.
	Resource string
}

const (
	typeFunction = "AWS::Serverless::Function"
	typePolicy   = "AWS::IAM::ManagedPolicy"
	typeStream   = "AWS::Lambda::EventSourceMapping"
	typeTable    = "AWS::DynamoDB::Table"
)

// Functions returns the functions of template.yaml, sorted by logical id.
func Functions(t testing.TB) (functions []Function) {
	t.Helper()
	var doc document
	if err := yaml.Unmarshal(sluice.Template, &doc); err != nil {
		t.Fatal(err)
	}
	for _, id := range slices.Sorted(maps.Keys(doc.Resources)) {
		r := doc.Resources[id]
		if r.Condition != "" && (r.Type == typeFunction && r.Condition != "HasAdminRoutes" || r.Type == typeTable) {
			t.Fatalf("%s depends on a condition", id)
		}
		if r.Type != typeFunction {
			continue
		}
		f, err := doc.function(id)
		if err != nil {
			t.Fatalf("template.yaml: %s: %v", id, err)
		}
		f.Admin = r.Condition != ""
		functions = append(functions, f)
	}
	return functions
}

var innerCapital = regexp.MustCompile(`\B[A-Z]`)

func (d document) function(id string) (Function, error) {
	name := innerCapital.ReplaceAllString(strings.TrimSuffix(id, "Function"), "-$0")
	full := Function{LogicalID: id, Name: strings.ToLower(name), Tables: make(map[string]string)}
	var properties function
	node := d.Resources[id].Properties
	if err := node.Decode(&properties); err != nil {
		return full, err
	}
	variables := maps.Clone(d.Globals.Function.Environment.Variables)
	maps.Copy(variables, properties.Environment.Variables)
	for name, v := range variables {
		if d.Resources[v.Value].Type == typeTable && v.Tag == "!Ref" {
			full.Tables[name] = v.Value
		} else if strings.HasSuffix(name, "_TABLE") {
			return full, fmt.Errorf("the variable %s names a table, but is not the !Ref of a table", name)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(properties.Events)) {
		e := properties.Events[name]
		switch p := e.Properties; e.Type {
		case "HttpApi":
			route := Route{Method: strings.ToUpper(p.Method), Path: p.Path}
			if p.Method == "" && p.Path == "" {
				route = Default
			}
			full.Routes = append(full.Routes, route)
		case "Schedule", "EventBridgeRule": // nothing else in the template depends on them
		default:
			return full, fmt.Errorf("event %s: events of type %q are not supported", name, e.Type)
		}
	}
	var err error
	if full.Streams, err = d.streams(id); err != nil {
		return full, err
	}
	for _, node := range properties.Policies {
		policy, err := d.policy(node)
		if err != nil {
			return full, err
		}
		for _, s := range policy.Statement {
			grants, err := d.grants(s)
			if err != nil {
				return full, err
			}
			full.Grants = append(full.Grants, grants...)
		}
	}
	return full, nil
}

func (d document) streams(function string) (streams []Stream, err error) {
	for _, id := range slices.Sorted(maps.Keys(d.Resources)) {
		var p mapping
		if d.Resources[id].Type != typeStream {
			continue
		}
		node := d.Resources[id].Properties
		if err := node.Decode(&p); err != nil {
			return nil, err
		}
		table, ok := strings.CutSuffix(p.EventSourceArn.Value, ".StreamArn")
		if !ok || p.EventSourceArn.Tag != "!GetAtt" || d.Resources[table].Type != typeTable {
			return nil, fmt.Errorf("%s is not on the StreamArn of a table", id)
		}
		if p.FunctionName.Tag != "!Ref" || p.FunctionName.Value != function+".Alias" {
			continue
		}
		failed, _ := strings.CutSuffix(p.DestinationConfig.OnFailure.Destination.Value, ".Arn")
		s := Stream{Table: table, Failed: failed}
		for _, f := range p.FilterCriteria.Filters {
			s.Patterns = append(s.Patterns, f.Pattern)
		}
		streams = append(streams, s)
	}
	return streams, nil
}

// grants returns the permissions in a policy statement, one for each action on each resource.
func (d document) grants(s map[string]values) (grants []Grant, err error) {
	partition := ""
	if condition := s["Condition"]; len(condition) == 1 {
		var c map[string]map[string][]string
		err := condition[0].Decode(&c)
		if partition = Partition(c); err != nil || partition == "" {
			return nil, fmt.Errorf("the condition %v is not understood", c)
		}
		s = maps.Clone(s)
		delete(s, "Condition")
	}
	if len(s) != 3 || len(s["Effect"]) != 1 || s["Effect"][0].Value != "Allow" || len(s["Action"]) == 0 || len(s["Resource"]) == 0 {
		return nil, fmt.Errorf("a statement has only the Effect Allow, an Action, a Resource and a Condition, not %v", s)
	}
	for _, action := range s["Action"] {
		if action.Tag != "!!str" || strings.ContainsAny(action.Value, "*?") {
			return nil, fmt.Errorf("the action %q has a wildcard or no name", action.Value)
		}
		for _, v := range s["Resource"] {
			resource, err := d.arn(v)
			if err != nil {
				return nil, err
			}
			grants = append(grants, Grant{Action: action.Value, Resource: resource + partition})
		}
	}
	return grants, nil
}

// Workspaces is the end of Grant.Resource for the partitions of workspaces.
const Workspaces = "/!#*"

// Partition returns what the condition of a policy adds to Grant.Resource, or "" if the condition
// has neither of the two known forms.
func Partition(condition map[string]map[string][]string) string {
	for operator, prefix := range map[string]string{"ForAllValues:StringEquals": "/", "ForAllValues:StringNotLike": "/!"} {
		keys := condition[operator]["dynamodb:LeadingKeys"]
		if len(condition) == 1 && len(condition[operator]) == 1 && len(keys) == 1 {
			return prefix + keys[0]
		}
	}
	return ""
}

var arnSub = regexp.MustCompile(`^\$\{([A-Za-z0-9]+)\.Arn\}([^$]*)$`)

// arn converts an ARN in the template to the form of Grant.Resource.
func (d document) arn(v yaml.Node) (string, error) {
	id, isARN := strings.CutSuffix(v.Value, ".Arn")
	isARN = isARN && v.Tag == "!GetAtt"
	rest := ""
	if table, ok := strings.CutSuffix(v.Value, ".StreamArn"); ok && v.Tag == "!GetAtt" {
		id, rest, isARN = table, ".StreamArn", true
	}
	if m := arnSub.FindStringSubmatch(v.Value); m != nil && v.Tag == "!Sub" {
		id, rest, isARN = m[1], m[2], true
	}
	r, known := d.Resources[id]
	switch {
	case !isARN || !known:
		return "", fmt.Errorf("the resource %s %q is not the Arn of a resource of the template", v.Tag, v.Value)
	case strings.ContainsAny(rest, "*?") && (r.Type != "AWS::S3::Bucket" || rest != "/*"):
		return "", fmt.Errorf("%q after the Arn of %s is a wildcard", rest, id)
	}
	return id + rest, nil
}

// document is a template. Its nodes keep the tags of intrinsic functions, such as !Ref.
type document struct {
	Globals struct {
		Function function `yaml:"Function"`
	} `yaml:"Globals"`
	Resources map[string]struct {
		Type       string    `yaml:"Type"`
		Condition  string    `yaml:"Condition"`
		Properties yaml.Node `yaml:"Properties"`
	} `yaml:"Resources"`
}

// policy decodes a policy of a function: an inline policy, or a !Ref to a managed policy of the
// template.
func (d document) policy(n yaml.Node) (p policy, err error) {
	if n.Tag != "!Ref" {
		return p, n.Decode(&p)
	}
	if d.Resources[n.Value].Type != typePolicy {
		return p, fmt.Errorf("%s is not a managed policy of the template", n.Value)
	}
	var managed struct {
		PolicyDocument policy `yaml:"PolicyDocument"`
	}
	properties := d.Resources[n.Value].Properties
	err = properties.Decode(&managed)
	return managed.PolicyDocument, err
}

type policy struct {
	Statement []map[string]values `yaml:"Statement"`
}

type function struct {
	Environment struct {
		Variables map[string]yaml.Node `yaml:"Variables"`
	} `yaml:"Environment"`
	Policies []yaml.Node `yaml:"Policies"`
	Events   map[string]struct {
		Type       string `yaml:"Type"`
		Properties struct {
			Method string `yaml:"Method"`
			Path   string `yaml:"Path"`
		} `yaml:"Properties"`
	} `yaml:"Events"`
}

type mapping struct {
	FunctionName   yaml.Node `yaml:"FunctionName"`
	EventSourceArn yaml.Node `yaml:"EventSourceArn"`
	FilterCriteria struct {
		Filters []struct {
			Pattern string `yaml:"Pattern"`
		} `yaml:"Filters"`
	} `yaml:"FilterCriteria"`
	DestinationConfig struct {
		OnFailure struct {
			Destination yaml.Node `yaml:"Destination"`
		} `yaml:"OnFailure"`
	} `yaml:"DestinationConfig"`
}

// values holds the elements of a list, or a single value.
type values []yaml.Node

func (v *values) UnmarshalYAML(n *yaml.Node) error {
	if n.Kind == yaml.SequenceNode {
		return n.Decode((*[]yaml.Node)(v))
	}
	*v = values{*n}
	return nil
}
