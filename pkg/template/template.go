// Package template reads the routes, the functions and the tables out of an AWS
// SAM template, so that the local server and the tests take them from the
// definition that AWS takes them from.
//
// It reads AWS::Serverless::Function resources with HttpApi and DynamoDB events,
// the environment that Globals and the functions give them, and
// AWS::DynamoDB::Table resources. It accepts Schedule events, which depend on
// nothing else in the template. In those parts it refuses what it does not
// understand, for a local stack that silently differs from the deployed one
// would be worse than none. The rest of the template it leaves to the tools of
// AWS.
package template

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"
)

// Template is what Parse reads.
type Template struct {
	Functions []Function // sorted by LogicalID
	Tables    []Table    // sorted by LogicalID
}

// Function is one AWS::Serverless::Function.
type Function struct {
	LogicalID string            // ends in "Function": ListEntityFunction
	Name      string            // name of its folder, the logical id in kebab case without "Function": list-entity
	Routes    []Route           // sorted by Key; empty for a function that no request reaches
	Streams   []Stream          // in the order of the template
	Tables    map[string]string // environment variable → logical id of the table whose name it holds
	Grants    []Grant           // what it may do, sorted
}

// Route is what an HttpApi event sends to a function.
type Route struct {
	Method string // upper case, or ANY; "" for the default route
	Path   string // starts with "/"; "$default" for the default route
}

// Stream is what a DynamoDB event sends to a function: the changes of a table's
// items.
type Stream struct {
	Table    string   // logical id
	Patterns []string // of the filter, each the JSON of an event pattern; a change is sent that fits any, all if there are none
}

// Default is the route of requests that no other route takes.
var Default = Route{Path: "$default"}

// Key is the route key of API Gateway: "GET /entity" or "$default".
func (r Route) Key() string {
	if r == Default {
		return r.Path
	}
	return r.Method + " " + r.Path
}

// Table is one AWS::DynamoDB::Table that is paid per request.
type Table struct {
	LogicalID    string
	Hash, Range  string            // names of the key attributes; Range is "" where the key is the hash alone
	Attributes   map[string]string // name of each key attribute, of the table and its indexes → S, N or B
	Indexes      []Index           // global secondary indexes, sorted by Name
	TTLAttribute string            // "" where items do not expire
	StreamView   string            // what the stream shows of a change: NEW_IMAGE, …; "" for no stream
}

// EnvVar is the environment variable that holds the table's name: its logical
// id in capitals, ENTITIES_TABLE for EntitiesTable.
func (t Table) EnvVar() string {
	return strings.ToUpper(strings.ReplaceAll(kebab(t.LogicalID), "-", "_"))
}

// Index is one global secondary index of a Table.
type Index struct {
	Name        string
	Hash, Range string // like those of Table
	Projection  string // ALL or KEYS_ONLY
}

// Table is the table with the logical id, and whether there is one.
func (t *Template) Table(logicalID string) (Table, bool) {
	i, ok := slices.BinarySearchFunc(t.Tables, logicalID, func(t Table, id string) int {
		return strings.Compare(t.LogicalID, id)
	})
	if !ok {
		return Table{}, false
	}
	return t.Tables[i], true
}

// Parse reads a template in YAML, with CloudFormation's short tags (!Ref, !Sub,
// !GetAtt, …). The error lists everything that is wrong or not understood, one
// problem a line, each with its line number and its place in the template.
func Parse(b []byte) (*Template, error) {
	dec := yaml.NewDecoder(bytes.NewReader(b))
	var doc yaml.Node
	if err := dec.Decode(&doc); errors.Is(err, io.EOF) {
		return nil, errors.New("parse template: it is empty")
	} else if err != nil {
		return nil, fmt.Errorf("parse template: %w", err)
	}
	if err := dec.Decode(new(yaml.Node)); !errors.Is(err, io.EOF) {
		return nil, errors.New("parse template: more than one YAML document")
	}
	var p parser
	t := p.template(value{name: "template", node: doc.Content[0]})
	if err := errors.Join(p.errs...); err != nil {
		return nil, fmt.Errorf("parse template: %w", err)
	}
	return t, nil
}

// Types of the resources that are read, and of those that they refer to.
const (
	typeAPI      = "AWS::Serverless::HttpApi"
	typeFunction = "AWS::Serverless::Function"
	typeTable    = "AWS::DynamoDB::Table"
	typeBucket   = "AWS::S3::Bucket"
)

const functionSuffix = "Function"

// template reads the whole template.
func (p *parser) template(v value) *Template {
	top := p.mapping(v)
	globals := p.optional(top, "Globals")
	p.only(globals, "Function")
	globalEnv := p.environment(p.optional(globals, "Function"))

	p.types = map[string]string{}
	p.parameters = p.optional(top, "Parameters").fields
	all := p.mapping(p.required(top, "Resources"))
	resources := map[string]mapping{}
	for _, id := range all.order {
		resources[id] = p.mapping(all.fields[id])
		p.types[id] = p.text(p.required(resources[id], "Type"))
	}

	t := new(Template)
	routes := map[string]string{} // key → logical id of its function
	for _, id := range all.order {
		r, typ := resources[id], p.types[id]
		switch {
		case typ == typeTable:
			p.resource(r)
			t.Tables = append(t.Tables, p.table(id, r))
		case typ == typeFunction:
			p.resource(r)
			f := p.function(id, r, globalEnv)
			for _, route := range f.Routes {
				if other, taken := routes[route.Key()]; taken {
					p.fail(r.value, "the route %q belongs to %s already", route.Key(), other)
				}
				routes[route.Key()] = id
			}
			t.Functions = append(t.Functions, f)
		case typ != typeAPI && (strings.HasPrefix(typ, "AWS::Serverless::") || strings.HasPrefix(typ, "AWS::DynamoDB::")):
			// It may stand for routes or tables that would go unseen.
			p.fail(r.value, "resources of the type %s are not understood", typ)
		}
	}
	for _, f := range t.Functions {
		for _, s := range f.Streams {
			if i := slices.IndexFunc(t.Tables, func(t Table) bool { return t.LogicalID == s.Table }); i >= 0 && t.Tables[i].StreamView == "" {
				p.fail(resources[f.LogicalID].value, "reads the stream of %s, which has no StreamSpecification", s.Table)
			}
		}
	}
	slices.SortFunc(t.Functions, func(a, b Function) int { return strings.Compare(a.LogicalID, b.LogicalID) })
	slices.SortFunc(t.Tables, func(a, b Table) int { return strings.Compare(a.LogicalID, b.LogicalID) })
	return t
}

// resource refuses what would make r depend on more than the template.
func (p *parser) resource(r mapping) {
	p.only(r, "Type", "Properties", "Metadata", "DependsOn", "DeletionPolicy", "UpdateReplacePolicy")
}

// function reads the resource r. globalEnv is the environment of all functions.
func (p *parser) function(id string, r mapping, globalEnv map[string]value) Function {
	f := Function{LogicalID: id, Tables: map[string]string{}}
	name, ok := strings.CutSuffix(id, functionSuffix)
	if !ok || name == "" || name[0] < 'A' || name[0] > 'Z' {
		p.fail(r.value, "a function's logical id is its folder's name in CamelCase and %q", functionSuffix)
	}
	f.Name = kebab(name)

	properties := p.optional(r, "Properties")
	f.Grants = p.grants(properties.fields["Policies"])
	env := maps.Clone(globalEnv)
	maps.Copy(env, p.environment(properties))
	for _, name := range slices.Sorted(maps.Keys(env)) {
		v := env[name]
		target := p.reference(v)
		if p.types[target] == typeTable {
			f.Tables[name] = target
		} else if strings.HasSuffix(name, "_TABLE") {
			p.fail(v, "an environment variable that names a table is a !Ref to a %s", typeTable)
		}
	}

	events := p.optional(properties, "Events")
	for _, name := range events.order {
		p.event(events.fields[name], &f)
	}
	slices.SortFunc(f.Routes, func(a, b Route) int { return strings.Compare(a.Key(), b.Key()) })
	return f
}

// environment reads Environment.Variables of a function's properties.
func (p *parser) environment(properties mapping) map[string]value {
	env := p.optional(properties, "Environment")
	p.only(env, "Variables")
	vars := map[string]value{}
	maps.Copy(vars, p.optional(env, "Variables").fields)
	return vars
}

var methods = []string{"ANY", "DELETE", "GET", "HEAD", "OPTIONS", "PATCH", "POST", "PUT"}

// event reads an event of f.
func (p *parser) event(v value, f *Function) {
	event := p.mapping(v)
	p.only(event, "Type", "Properties")
	switch typ := p.text(p.required(event, "Type")); typ {
	case "HttpApi":
		f.Routes = append(f.Routes, p.route(p.mapping(p.required(event, "Properties"))))
	case "DynamoDB":
		f.Streams = append(f.Streams, p.stream(p.mapping(p.required(event, "Properties"))))
	case "Schedule":
		// Nothing else in the template depends on it.
	default:
		p.fail(v, "events of the type %q are not understood", typ)
	}
}

// stream reads the properties of a DynamoDB event.
func (p *parser) stream(properties mapping) Stream {
	p.only(properties, "Stream", "FilterCriteria",
		// How changes are handed over, which makes no difference to what they are:
		"StartingPosition", "BatchSize", "ParallelizationFactor", "MaximumRetryAttempts", "MaximumRecordAgeInSeconds",
		"BisectBatchOnFunctionError", "DestinationConfig", "FunctionResponseTypes")
	var s Stream
	arn := p.required(properties, "Stream")
	table, ok := strings.CutSuffix(p.attribute(arn), ".StreamArn")
	if !ok || p.types[table] != typeTable {
		p.fail(arn, "is a !GetAtt of the StreamArn of a %s", typeTable)
	}
	s.Table = table
	criteria := p.optional(properties, "FilterCriteria")
	p.only(criteria, "Filters")
	for _, v := range p.sequence(criteria.fields["Filters"]) {
		filter := p.mapping(v)
		p.only(filter, "Pattern")
		pattern := p.required(filter, "Pattern")
		text := p.text(pattern)
		if text != "" && !json.Valid([]byte(text)) {
			p.fail(pattern, "is not JSON")
		}
		s.Patterns = append(s.Patterns, text)
	}
	return s
}

// route reads the properties of an HttpApi event.
func (p *parser) route(properties mapping) Route {
	p.only(properties, "ApiId", "Method", "Path")

	// An event without ApiId is served by another API, one that SAM makes up.
	if api := p.required(properties, "ApiId"); p.types[p.reference(api)] != typeAPI {
		p.fail(api, "is a !Ref to a %s", typeAPI)
	}

	method, hasMethod := properties.fields["Method"]
	path, hasPath := properties.fields["Path"]
	if !hasMethod && !hasPath {
		return Default
	}
	route := Route{
		Method: strings.ToUpper(p.text(p.required(properties, "Method"))),
		Path:   p.text(p.required(properties, "Path")),
	}
	if hasMethod && !slices.Contains(methods, route.Method) {
		p.fail(method, "%q is none of %s", route.Method, strings.Join(methods, ", "))
	}
	if hasPath && !strings.HasPrefix(route.Path, "/") {
		p.fail(path, "%q does not start with a slash", route.Path)
	}
	return route
}

// table reads the resource r.
func (p *parser) table(id string, r mapping) Table {
	t := Table{LogicalID: id, Attributes: map[string]string{}}
	properties := p.mapping(p.required(r, "Properties"))
	p.only(properties,
		"BillingMode", "AttributeDefinitions", "KeySchema", "GlobalSecondaryIndexes", "TimeToLiveSpecification", "StreamSpecification",
		// What a local table can do without:
		"DeletionProtectionEnabled", "OnDemandThroughput", "PointInTimeRecoverySpecification", "SSESpecification", "Tags")

	if mode := p.required(properties, "BillingMode"); p.text(mode) != "PAY_PER_REQUEST" {
		p.fail(mode, "is PAY_PER_REQUEST")
	}
	attributes := p.required(properties, "AttributeDefinitions")
	for _, v := range p.sequence(attributes) {
		m := p.mapping(v)
		p.only(m, "AttributeName", "AttributeType")
		name := p.text(p.required(m, "AttributeName"))
		typ := p.required(m, "AttributeType")
		if _, again := t.Attributes[name]; again {
			p.fail(v, "the attribute %q is defined already", name)
		}
		t.Attributes[name] = p.text(typ)
		if !slices.Contains([]string{"S", "N", "B"}, t.Attributes[name]) {
			p.fail(typ, "%q is none of S, N, B", t.Attributes[name])
		}
	}

	used := map[string]bool{}
	t.Hash, t.Range = p.key(p.required(properties, "KeySchema"), t.Attributes, used)
	for _, v := range p.sequence(properties.fields["GlobalSecondaryIndexes"]) {
		m := p.mapping(v)
		p.only(m, "IndexName", "KeySchema", "Projection", "OnDemandThroughput")
		index := Index{Name: p.text(p.required(m, "IndexName"))}
		if slices.ContainsFunc(t.Indexes, func(other Index) bool { return other.Name == index.Name }) {
			p.fail(v, "the index %q is defined already", index.Name)
		}
		index.Hash, index.Range = p.key(p.required(m, "KeySchema"), t.Attributes, used)
		projection := p.mapping(p.required(m, "Projection"))
		p.only(projection, "ProjectionType")
		typ := p.required(projection, "ProjectionType")
		index.Projection = p.text(typ)
		if index.Projection != "ALL" && index.Projection != "KEYS_ONLY" {
			p.fail(typ, "%q is neither ALL nor KEYS_ONLY", index.Projection)
		}
		t.Indexes = append(t.Indexes, index)
	}
	slices.SortFunc(t.Indexes, func(a, b Index) int { return strings.Compare(a.Name, b.Name) })
	for _, name := range slices.Sorted(maps.Keys(t.Attributes)) {
		if !used[name] {
			p.fail(attributes, "no key uses the attribute %q", name) // DynamoDB refuses such a table
		}
	}

	if v, ok := properties.fields["TimeToLiveSpecification"]; ok {
		ttl := p.mapping(v)
		p.only(ttl, "AttributeName", "Enabled")
		t.TTLAttribute = p.text(p.required(ttl, "AttributeName"))
		if enabled := p.required(ttl, "Enabled"); p.scalar(enabled, "!!bool") != "true" {
			p.fail(enabled, "is true; leave the specification out where items do not expire")
		}
	}
	if v, ok := properties.fields["StreamSpecification"]; ok {
		stream := p.mapping(v)
		p.only(stream, "StreamViewType")
		view := p.required(stream, "StreamViewType")
		t.StreamView = p.text(view)
		if views := []string{"KEYS_ONLY", "NEW_IMAGE", "OLD_IMAGE", "NEW_AND_OLD_IMAGES"}; !slices.Contains(views, t.StreamView) {
			p.fail(view, "%q is none of %s", t.StreamView, strings.Join(views, ", "))
		}
	}
	return t
}

// key reads a KeySchema whose attributes are among those defined, and notes
// them in used.
func (p *parser) key(v value, defined map[string]string, used map[string]bool) (hash, rng string) {
	for _, e := range p.sequence(v) {
		m := p.mapping(e)
		p.only(m, "AttributeName", "KeyType")
		name := p.required(m, "AttributeName")
		attribute := p.text(name)
		used[attribute] = true
		if _, ok := defined[attribute]; !ok && attribute != "" {
			p.fail(name, "AttributeDefinitions does not define %q", attribute)
		}
		switch typ := p.text(p.required(m, "KeyType")); {
		case typ == "HASH" && hash == "":
			hash = attribute
		case typ == "RANGE" && rng == "":
			rng = attribute
		default:
			p.fail(e, "a key has one attribute of the type HASH and at most one of the type RANGE")
		}
	}
	if hash == "" {
		p.fail(v, "the key has no attribute of the type HASH")
	}
	return hash, rng
}

// kebab turns ListEntity into list-entity, as the Makefile does.
func kebab(camel string) string {
	var b strings.Builder
	for i, r := range camel {
		if i > 0 && 'A' <= r && r <= 'Z' {
			b.WriteByte('-')
		}
		b.WriteRune(r)
	}
	return strings.ToLower(b.String())
}
