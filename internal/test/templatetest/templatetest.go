// Package templatetest reads the parts of template.yaml that only tests need: the
// routes, permissions, streams and tables of each function.
//
// It rejects functions and tables that depend on a condition. It also rejects managed policies,
// and wildcards and conditions in policies. The tests of the rendered template check the rest.
package templatetest

import (
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"sluice/internal/template"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"

	"sluice"
)

// Function is a function of a template.
type Function struct {
	LogicalID string            // ends in "Function", for example ListEntityFunction
	Name      string            // name of its folder: the logical id in kebab case without "Function", such as list-entity
	Routes    []Route           // sorted by Key; empty for a function without HttpApi events
	Tables    map[string]string // logical ids of tables, by the environment variable that contains the table's name
	Streams   []Stream          // sorted by Table
	Grants    []Grant
}

// Route is an HttpApi event of a function.
type Route struct {
	Method string // upper case, or ANY; "" for the default route
	Path   string // "$default" for the default route
}

// Default is the route of requests that match no other route.
var Default = Route{Path: "$default"}

// Key returns the route key of API Gateway, such as "GET /entity" or "$default".
func (r Route) Key() string {
	if r == Default {
		return r.Path
	}
	return r.Method + " " + r.Path
}

// Stream is a DynamoDB event source of a function.
type Stream struct {
	Table    string   // logical id
	Patterns []string // event patterns in JSON; a change must match at least one of them; empty if every change matches
}

// Grant is the permission to take an action on a resource.
type Grant struct {
	Action string // such as dynamodb:Query

	// Resource is the logical id of a resource, followed by any text that the IAM policy
	// adds to the ARN of the resource. Examples: EntitiesTable, EntitiesTable/index/by_type,
	// and Files/* for the objects of a bucket.
	Resource string
}

const (
	typeFunction = "AWS::Serverless::Function"
	typeTable    = "AWS::DynamoDB::Table"
)

// Functions returns the functions of template.yaml, sorted by logical id.
func Functions(t testing.TB) []Function {
	t.Helper()
	functions, err := Parse(sluice.Template)
	if err != nil {
		t.Fatalf("template.yaml: %v", err)
	}
	return functions
}

// Parse returns the functions of a template, sorted by logical id. The error lists
// everything that is rejected, with its line number or logical id.
func Parse(b []byte) ([]Function, error) {
	var doc document
	if err := yaml.Unmarshal(b, &doc); err != nil {
		return nil, err
	}
	var functions []Function
	var errs []error
	for _, id := range slices.Sorted(maps.Keys(doc.Resources)) {
		r := doc.Resources[id]
		if r.Condition != "" && (r.Type == typeFunction || r.Type == typeTable) {
			errs = append(errs, fmt.Errorf("%s: a %s must not depend on a condition", id, r.Type))
		}
		if r.Type != typeFunction {
			continue
		}
		f, err := doc.function(id)
		if err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", id, err))
		}
		functions = append(functions, f)
	}
	return functions, errors.Join(errs...)
}

var innerCapital = regexp.MustCompile(`\B[A-Z]`)

// function returns the function with the given logical id.
func (d document) function(id string) (Function, error) {
	name := innerCapital.ReplaceAllString(strings.TrimSuffix(id, "Function"), "-$0")
	full := Function{LogicalID: id, Name: strings.ToLower(name), Tables: make(map[string]string)}
	var properties function
	node := d.Resources[id].Properties
	if err := node.Decode(&properties); err != nil {
		return full, err
	}
	var errs []error

	variables := make(map[string]value)
	maps.Copy(variables, d.Globals.Function.Environment.Variables)
	maps.Copy(variables, properties.Environment.Variables)
	for _, name := range slices.Sorted(maps.Keys(variables)) {
		if table := variables[name].of("!Ref"); d.Resources[table].Type == typeTable {
			full.Tables[name] = table
		} else if strings.HasSuffix(name, "_TABLE") {
			errs = append(errs, fmt.Errorf("the variable %s names a table, but is not the !Ref of a table", name))
		}
	}

	for _, name := range slices.Sorted(maps.Keys(properties.Events)) {
		e := properties.Events[name]
		switch e.Type {
		case "HttpApi":
			full.Routes = append(full.Routes, e.route())
		case "DynamoDB":
			s, err := d.stream(e)
			full.Streams, errs = append(full.Streams, s), append(errs, err)
		case "Schedule": // not part of the result, because nothing else in the template depends on a schedule
		default:
			errs = append(errs, fmt.Errorf("event %s: events of type %q are not supported", name, e.Type))
		}
	}
	slices.SortFunc(full.Routes, func(a, b Route) int { return strings.Compare(a.Key(), b.Key()) })
	slices.SortFunc(full.Streams, func(a, b Stream) int { return strings.Compare(a.Table, b.Table) })

	for _, policy := range properties.Policies {
		for _, s := range policy.Statement {
			grants, err := d.grants(s)
			full.Grants, errs = append(full.Grants, grants...), append(errs, err)
		}
	}
	return full, errors.Join(errs...)
}

func (e event) route() Route {
	method, path := e.Properties.Method, e.Properties.Path
	if method == "" && path == "" {
		return Default
	}
	return Route{Method: strings.ToUpper(string(method)), Path: string(path)}
}

func (d document) stream(e event) (Stream, error) {
	table, ok := strings.CutSuffix(e.Properties.Stream.of("!GetAtt"), ".StreamArn")
	if !ok || d.Resources[table].Type != typeTable {
		return Stream{}, errors.New("Stream is not !GetAtt of the StreamArn of a table")
	}
	s := Stream{Table: table}
	for _, f := range e.Properties.FilterCriteria.Filters {
		s.Patterns = append(s.Patterns, f.Pattern)
	}
	return s, nil
}

// grants returns the permissions in a statement: each action on each resource.
func (d document) grants(s map[string]values) (grants []Grant, err error) {
	if len(s) != 3 || len(s["Effect"]) != 1 || s["Effect"][0].text != "Allow" || len(s["Action"]) == 0 || len(s["Resource"]) == 0 {
		return nil, errors.New("a statement has only the Effect Allow, an Action and a Resource")
	}
	for _, v := range s["Action"] {
		action := v.of("!!str")
		if action == "" || strings.ContainsAny(action, "*?") {
			return nil, fmt.Errorf("the action %q has a wildcard or no name", action)
		}
		for _, v := range s["Resource"] {
			resource, err := d.arn(v)
			if err != nil {
				return nil, err
			}
			grants = append(grants, Grant{Action: action, Resource: resource})
		}
	}
	return grants, nil
}

var arnSub = regexp.MustCompile(`^\$\{([A-Za-z0-9]+)\.Arn\}([^$]*)$`)

// arn returns the resource of an ARN in the form of Grant.Resource.
func (d document) arn(v value) (string, error) {
	id, isARN := strings.CutSuffix(v.of("!GetAtt"), ".Arn")
	rest := ""
	if m := arnSub.FindStringSubmatch(v.of("!Sub")); m != nil {
		id, rest, isARN = m[1], m[2], true
	}
	r, known := d.Resources[id]
	switch {
	case !isARN || !known:
		return "", fmt.Errorf("the resource %s %q is not the Arn of a resource of the template", v.tag, v.text)
	case strings.ContainsAny(rest, "*?") && (r.Type != "AWS::S3::Bucket" || rest != "/*"):
		return "", fmt.Errorf("%q after the Arn of %s is a wildcard", rest, id)
	}
	return id + rest, nil
}

// document is a template.
type document struct {
	Globals struct {
		Function function `yaml:"Function"`
	} `yaml:"Globals"`
	Resources map[string]struct {
		Type       template.Text `yaml:"Type"`
		Condition  string        `yaml:"Condition"`
		Properties yaml.Node     `yaml:"Properties"`
	} `yaml:"Resources"`
}

type function struct {
	Environment struct {
		Variables map[string]value `yaml:"Variables"`
	} `yaml:"Environment"`
	Policies []struct {
		Statement []map[string]values `yaml:"Statement"`
	} `yaml:"Policies"`
	Events map[string]event `yaml:"Events"`
}

// event is an HttpApi event or a DynamoDB event source.
type event struct {
	Type       template.Text `yaml:"Type"`
	Properties struct {
		Method         template.Text `yaml:"Method"`
		Path           template.Text `yaml:"Path"`
		Stream         value         `yaml:"Stream"`
		FilterCriteria struct {
			Filters []struct {
				Pattern string `yaml:"Pattern"`
			} `yaml:"Filters"`
		} `yaml:"FilterCriteria"`
	} `yaml:"Properties"`
}

// value is a scalar, or a CloudFormation intrinsic function in its short form, such as !Ref. The
// argument of the function is a scalar. For !If, only the tag is kept.
type value struct{ tag, text string }

// UnmarshalYAML implements yaml.Unmarshaler.
func (v *value) UnmarshalYAML(n *yaml.Node) error {
	if n.Kind != yaml.ScalarNode && n.Tag != "!If" {
		return &yaml.TypeError{Errors: []string{fmt.Sprintf("line %d: not a scalar or an intrinsic function in its short form", n.Line)}}
	}
	*v = value{tag: n.Tag, text: n.Value}
	return nil
}

// of returns the text of v if v has the given tag, such as !Ref. Otherwise it returns "".
// The tag of a plain string is !!str.
func (v value) of(tag string) string {
	if v.tag != tag {
		return ""
	}
	return v.text
}

// values are the elements of a list, or a single value.
type values []value

// UnmarshalYAML implements yaml.Unmarshaler.
func (v *values) UnmarshalYAML(n *yaml.Node) error {
	if n.Kind == yaml.SequenceNode {
		return n.Decode((*[]value)(v))
	}
	*v = make(values, 1)
	return (*v)[0].UnmarshalYAML(n)
}
