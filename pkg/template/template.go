// Package template reads routes and tables from an AWS SAM template, so that
// local tables and tests use the definition that AWS uses.
//
// It decodes the properties that it knows of functions and of tables, and
// ignores the rest of a template. Whether a table is valid is left to DynamoDB,
// which checks that when the table is created. The tests of the module check
// that template.yaml has nothing that would have to be known here.
package template

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"
)

// Template is the part of an AWS SAM template that Parse reads.
type Template struct {
	Functions []Function // sorted by LogicalID
	Tables    []Table    // sorted by LogicalID
}

// Table returns the table with the given logical id, and whether it exists.
func (t *Template) Table(logicalID string) (Table, bool) {
	i := slices.IndexFunc(t.Tables, func(t Table) bool { return t.LogicalID == logicalID })
	if i < 0 {
		return Table{}, false
	}
	return t.Tables[i], true
}

// Function is an AWS::Serverless::Function.
type Function struct {
	LogicalID string  // ends in "Function": ListEntityFunction
	Name      string  // name of its folder, the logical id in kebab case without "Function": list-entity
	Routes    []Route // sorted by Key; empty for a function without HttpApi events
}

// Route is an HttpApi event of a function.
type Route struct {
	Method string // upper case, or ANY; "" for the default route
	Path   string // "$default" for the default route
}

// Default is the route of requests that no other route takes.
var Default = Route{Path: "$default"}

// Key returns the route key of API Gateway: "GET /entity" or "$default".
func (r Route) Key() string {
	if r == Default {
		return r.Path
	}
	return r.Method + " " + r.Path
}

// Table is an AWS::DynamoDB::Table.
type Table struct {
	LogicalID   string       `yaml:"-"`
	BillingMode Text         `yaml:"BillingMode"`
	Attributes  []Attribute  `yaml:"AttributeDefinitions"` // that keys of the table and its indexes use
	Key         []KeyElement `yaml:"KeySchema"`
	Indexes     []Index      `yaml:"GlobalSecondaryIndexes"`
	TTL         TTL          `yaml:"TimeToLiveSpecification"`
	Stream      Stream       `yaml:"StreamSpecification"`
}

// EnvVar returns the name of the environment variable that holds the table's
// name: ENTITIES_TABLE for EntitiesTable.
func (t Table) EnvVar() string {
	return strings.ToUpper(strings.ReplaceAll(kebab(t.LogicalID), "-", "_"))
}

// Attribute is an attribute of a table's items.
type Attribute struct {
	Name Text `yaml:"AttributeName"`
	Type Text `yaml:"AttributeType"` // S, N or B
}

// KeyElement is an attribute of a key.
type KeyElement struct {
	Name Text `yaml:"AttributeName"`
	Type Text `yaml:"KeyType"` // HASH or RANGE
}

// Index is a global secondary index of a table.
type Index struct {
	Name       Text         `yaml:"IndexName"`
	Key        []KeyElement `yaml:"KeySchema"`
	Projection Projection   `yaml:"Projection"`
}

// Projection says which attributes an index holds.
type Projection struct {
	Type       Text   `yaml:"ProjectionType"`   // ALL, KEYS_ONLY or INCLUDE
	Attributes []Text `yaml:"NonKeyAttributes"` // besides keys, of INCLUDE
}

// TTL says when items expire. The zero value means never.
type TTL struct {
	Attribute Text `yaml:"AttributeName"`
	Enabled   bool `yaml:"Enabled"`
}

// Stream says what a table's stream shows of a change. The zero value means
// that the table has no stream.
type Stream struct {
	View Text `yaml:"StreamViewType"` // KEYS_ONLY, NEW_IMAGE, OLD_IMAGE or NEW_AND_OLD_IMAGES
}

// Text is a string that a template writes out. Anything else in its place is an
// error, such as !Ref and !Sub, which only AWS CloudFormation can evaluate.
type Text string

// UnmarshalYAML implements yaml.Unmarshaler.
func (t *Text) UnmarshalYAML(n *yaml.Node) error {
	if n.Kind != yaml.ScalarNode || n.Tag != "!!str" || n.Value == "" {
		return &yaml.TypeError{Errors: []string{fmt.Sprintf("line %d: %s %q is not a string", n.Line, n.Tag, n.Value)}}
	}
	*t = Text(n.Value)
	return nil
}

// document is a template in YAML.
type document struct {
	Resources map[string]struct {
		Type       Text      `yaml:"Type"`
		Properties yaml.Node `yaml:"Properties"`
	} `yaml:"Resources"`
}

// functionProperties are the properties of an AWS::Serverless::Function.
type functionProperties struct {
	Events map[string]struct {
		Type       Text `yaml:"Type"`
		Properties struct {
			Method Text `yaml:"Method"`
			Path   Text `yaml:"Path"`
		} `yaml:"Properties"`
	} `yaml:"Events"`
}

// Parse reads a template in YAML. An error names the lines that cannot be read
// and the logical id of their resource.
func Parse(b []byte) (*Template, error) {
	var doc document
	if err := yaml.Unmarshal(b, &doc); err != nil {
		return nil, fmt.Errorf("parse template: %w", err)
	}
	var t Template
	var errs []error
	for _, id := range slices.Sorted(maps.Keys(doc.Resources)) {
		var err error
		switch r := doc.Resources[id]; r.Type {
		case "AWS::Serverless::Function":
			var properties functionProperties
			err = r.Properties.Decode(&properties)
			t.Functions = append(t.Functions, Function{
				LogicalID: id, Name: kebab(strings.TrimSuffix(id, "Function")), Routes: properties.routes(),
			})
		case "AWS::DynamoDB::Table":
			table := Table{LogicalID: id}
			err = r.Properties.Decode(&table)
			t.Tables = append(t.Tables, table)
		}
		if err != nil {
			errs = append(errs, fmt.Errorf("parse template: %s: %w", id, err))
		}
	}
	if err := errors.Join(errs...); err != nil {
		return nil, err
	}
	return &t, nil
}

// routes returns the routes of a function, sorted by their keys.
func (p functionProperties) routes() (routes []Route) {
	for _, e := range p.Events {
		switch {
		case e.Type != "HttpApi":
		case e.Properties.Method == "" && e.Properties.Path == "":
			routes = append(routes, Default)
		default:
			routes = append(routes, Route{Method: strings.ToUpper(string(e.Properties.Method)), Path: string(e.Properties.Path)})
		}
	}
	slices.SortFunc(routes, func(a, b Route) int { return strings.Compare(a.Key(), b.Key()) })
	return routes
}

// kebab returns list-entity for ListEntity, like the Makefile.
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
