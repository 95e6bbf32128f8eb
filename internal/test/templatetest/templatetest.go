// Package templatetest reads from template.yaml what only tests need: the routes,
// permissions, streams and tables of each function.
//
// Package template ignores properties that it does not know. This package rejects such
// properties of functions and tables, because they could make the deployed stack differ
// from local tables and from what the tests check. In policies, it rejects wildcards,
// managed policies and conditions.
package templatetest

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"regexp"
	"slices"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"

	"sluice"
	"sluice/pkg/template"
)

// Function is a function of a template.
type Function struct {
	LogicalID string            // ends in "Function": ListEntityFunction
	Name      string            // name of its folder: the logical id in kebab case without "Function", such as list-entity
	Routes    []Route           // sorted by Key; empty for a function without HttpApi events
	Tables    map[string]string // environment variables that contain a table name, with the logical id of the table
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
	Patterns []string // event patterns in JSON; a change must match one of them unless the list is empty
}

// Grant is the permission to take an action on a resource.
type Grant struct {
	Action string // such as dynamodb:Query

	// Resource is a logical id, followed by the text after the ARN of that resource. Examples:
	// EntitiesTable, EntitiesTable/index/by_type, and Files/* for the objects of a bucket.
	Resource string
}

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
	dec := yaml.NewDecoder(bytes.NewReader(b))
	dec.KnownFields(true)
	var doc document
	if err := dec.Decode(&doc); err != nil && !errors.Is(err, io.EOF) {
		return nil, err
	}
	if err := dec.Decode(new(yaml.Node)); !errors.Is(err, io.EOF) {
		return nil, errors.New("more than one YAML document")
	}
	if len(doc.Resources) == 0 {
		return nil, errors.New("no Resources")
	}
	if _, err := template.Parse(b); err != nil {
		return nil, err
	}
	var functions []Function
	var errs []error
	owners := make(map[Route]string)
	for _, id := range slices.Sorted(maps.Keys(doc.Resources)) {
		if err := doc.check(id); err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", id, err))
		}
		if doc.Resources[id].Type != typeFunction {
			continue
		}
		f, err := doc.function(id)
		if err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", id, err))
		}
		for _, r := range f.Routes {
			if owner, taken := owners[r]; taken {
				errs = append(errs, fmt.Errorf("%s: the route %q belongs to %s", id, r.Key(), owner))
			}
			owners[r] = id
		}
		functions = append(functions, f)
	}
	return functions, errors.Join(errs...)
}

// check rejects resource types that could define routes or tables that package template does
// not read. It also rejects logical ids of functions that do not correspond to a folder name.
func (d document) check(id string) error {
	switch typ := d.Resources[id].Type; {
	case typ == typeFunction && !regexp.MustCompile(`^([A-Z][a-z0-9]*)+Function$`).MatchString(id):
		return errors.New("the logical id of a function is its folder's name in CamelCase, followed by Function")
	case typ == typeTable:
		return d.Resources[id].table.check()
	case typ == typeFunction, typ == typeAPI:
		return nil
	case typ == "", strings.HasPrefix(string(typ), "AWS::Serverless::"), strings.HasPrefix(string(typ), "AWS::DynamoDB::"):
		return fmt.Errorf("resources of type %q are not supported", typ)
	}
	return nil
}

// check rejects attributes that no key uses, projections that AWS does not accept, and a TTL
// that is specified but disabled. DynamoDB Local accepts such attributes and AWS does not.
func (t table) check() error {
	keys := slices.Clone(t.Key)
	for _, i := range t.Indexes {
		keys = append(keys, i.Key...)
		if (i.Projection.Type == "INCLUDE") != (len(i.Projection.Attributes) > 0) {
			return fmt.Errorf("%s: NonKeyAttributes belong to the projection INCLUDE", i.Name)
		}
	}
	for _, a := range t.Attributes {
		if !slices.ContainsFunc(keys, func(e template.KeyElement) bool { return e.Name == a.Name }) {
			return fmt.Errorf("no key uses the attribute %q", a.Name)
		}
	}
	if t.TTL != nil && !t.TTL.Enabled {
		return errors.New("TimeToLiveSpecification is not enabled; remove it if items do not expire")
	}
	return nil
}

var innerCapital = regexp.MustCompile(`\B[A-Z]`)

// function returns the function with the given logical id.
func (d document) function(id string) (Function, error) {
	properties := d.Resources[id].function
	name := innerCapital.ReplaceAllString(strings.TrimSuffix(id, "Function"), "-$0")
	full := Function{LogicalID: id, Name: strings.ToLower(name), Tables: make(map[string]string)}
	var errs []error

	variables := maps.Clone(d.Globals.Function.Environment.Variables)
	if variables == nil {
		variables = make(map[string]value)
	}
	maps.Copy(variables, properties.Environment.Variables)
	for _, name := range slices.Sorted(maps.Keys(variables)) {
		if table := variables[name].of("!Ref"); d.Resources[table].Type == typeTable {
			full.Tables[name] = table
		} else if strings.HasSuffix(name, "_TABLE") {
			errs = append(errs, fmt.Errorf("the variable %s names a table, but is not !Ref of a %s", name, typeTable))
		}
	}

	for _, name := range slices.Sorted(maps.Keys(properties.Events)) {
		e := properties.Events[name]
		var err error
		switch e.Type {
		case "HttpApi":
			err = d.checkRoute(e.route)
			full.Routes = append(full.Routes, e.route.route())
		case "DynamoDB":
			var s Stream
			s, err = d.stream(e.stream)
			full.Streams = append(full.Streams, s)
		case "Schedule": // no other part of the template depends on a schedule
		default:
			err = fmt.Errorf("events of type %q are not supported", e.Type)
		}
		if err != nil {
			errs = append(errs, fmt.Errorf("event %s: %w", name, err))
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

func (e httpEvent) route() Route {
	if e.Method == "" && e.Path == "" {
		return Default
	}
	return Route{Method: strings.ToUpper(string(e.Method)), Path: string(e.Path)}
}

var methods = []string{"ANY", "DELETE", "GET", "HEAD", "OPTIONS", "PATCH", "POST", "PUT"}

func (d document) checkRoute(e httpEvent) error {
	method, path := string(e.Method), string(e.Path)
	switch {
	case d.Resources[e.API.of("!Ref")].Type != typeAPI:
		// For an event without ApiId, SAM would create another API.
		return fmt.Errorf("ApiId is not !Ref of a %s", typeAPI)
	case method == "" && path == "":
		return nil // the default route
	case !slices.Contains(methods, strings.ToUpper(method)):
		return fmt.Errorf("the method %q is not one of %s", method, strings.Join(methods, ", "))
	case !strings.HasPrefix(path, "/"):
		return fmt.Errorf("the path %q does not start with a slash", path)
	}
	return nil
}

func (d document) stream(e streamEvent) (Stream, error) {
	table, ok := strings.CutSuffix(e.Stream.of("!GetAtt"), ".StreamArn")
	if !ok || d.Resources[table].Type != typeTable {
		return Stream{}, fmt.Errorf("Stream is not !GetAtt of the StreamArn of a %s", typeTable)
	}
	if d.Resources[table].table.Stream.View == "" {
		return Stream{}, fmt.Errorf("%s has no StreamSpecification", table)
	}
	s := Stream{Table: table}
	for _, f := range e.FilterCriteria.Filters {
		if !json.Valid([]byte(f.Pattern)) {
			return Stream{}, fmt.Errorf("the pattern %q is not JSON", f.Pattern)
		}
		s.Patterns = append(s.Patterns, string(f.Pattern))
	}
	return s, nil
}

// grants returns the permissions in a statement, one for each action on each resource.
func (d document) grants(s statement) (grants []Grant, err error) {
	if s.Effect != "Allow" || len(s.Action) == 0 || len(s.Resource) == 0 {
		return nil, errors.New("a statement has the Effect Allow, an Action and a Resource")
	}
	for _, v := range s.Action {
		action := v.of("!!str")
		if action == "" || strings.ContainsAny(action, "*?") {
			return nil, fmt.Errorf("the action %q has a wildcard or no name", action)
		}
		for _, v := range s.Resource {
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
	case strings.ContainsAny(rest, "*?") && (r.Type != typeBucket || rest != "/*"):
		return "", fmt.Errorf("%q after the Arn of %s is a wildcard", rest, id)
	}
	return id + rest, nil
}
