// Package template reads table definitions from an AWS SAM template, and creates the tables in
// DynamoDB Local, for tests and for development. Local tables therefore have the same
// definitions as the tables that CloudFormation creates on AWS.
//
// The package decodes the table properties that local tables need, and ignores the rest of the
// template. A test checks that no such property of template.yaml is ignored. The package does not
// validate tables, because DynamoDB does so when they are created.
package template

import (
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"
)

// Table is an AWS::DynamoDB::Table. Its JSON has the form of dynamodb.CreateTableInput.
type Table struct {
	LogicalID              string       `yaml:"-" json:"-"`
	TTL                    TTL          `yaml:"TimeToLiveSpecification" json:"-"`
	BillingMode            Literal      `yaml:"BillingMode"`
	AttributeDefinitions   []Attribute  `yaml:"AttributeDefinitions"` // only the key attributes of the table and its indexes
	KeySchema              []KeyElement `yaml:"KeySchema"`
	GlobalSecondaryIndexes []Index      `yaml:"GlobalSecondaryIndexes"`
	StreamSpecification    *Stream      `yaml:"StreamSpecification"` // nil if the table has no stream
}

// EnvVar returns the name of the environment variable that contains the table's name, such as
// ENTITIES_TABLE for EntitiesTable.
func (t Table) EnvVar() string {
	return strings.ToUpper(innerCapital.ReplaceAllString(t.LogicalID, "_$0"))
}

var innerCapital = regexp.MustCompile(`\B[A-Z]`)

type Attribute struct {
	AttributeName Literal `yaml:"AttributeName"`
	AttributeType Literal `yaml:"AttributeType"` // S, N or B
}

type KeyElement struct {
	AttributeName Literal `yaml:"AttributeName"`
	KeyType       Literal `yaml:"KeyType"` // HASH or RANGE
}

// Index is a global secondary index.
type Index struct {
	IndexName  Literal      `yaml:"IndexName"`
	KeySchema  []KeyElement `yaml:"KeySchema"`
	Projection Projection   `yaml:"Projection"`
}

type Projection struct {
	ProjectionType   Literal   `yaml:"ProjectionType"`   // ALL, KEYS_ONLY or INCLUDE
	NonKeyAttributes []Literal `yaml:"NonKeyAttributes"` // attributes besides the keys; only for INCLUDE
}

// TTL is a table's time to live. With the zero value, items never expire.
type TTL struct {
	AttributeName Literal `yaml:"AttributeName"`
	Enabled       bool    `yaml:"Enabled"`
}

type Stream struct {
	StreamViewType Literal `yaml:"StreamViewType"` // KEYS_ONLY, NEW_IMAGE, OLD_IMAGE or NEW_AND_OLD_IMAGES
}

// Literal is a string that a template spells out. Anything else, such as !Ref or !Sub, cannot
// be decoded, because only CloudFormation can evaluate it.
type Literal string

func (t *Literal) UnmarshalYAML(n *yaml.Node) error {
	if n.Kind != yaml.ScalarNode || n.Tag != "!!str" || n.Value == "" {
		return &yaml.TypeError{Errors: []string{fmt.Sprintf("line %d: %s %q is not a string", n.Line, n.Tag, n.Value)}}
	}
	*t = Literal(n.Value)
	return nil
}

type document struct {
	Resources map[string]struct {
		Type       Literal   `yaml:"Type"`
		Properties yaml.Node `yaml:"Properties"`
	} `yaml:"Resources"`
}

// Parse returns the tables of a template in YAML, sorted by logical id. The error names the
// resource and the line of every value that cannot be decoded.
func Parse(b []byte) ([]Table, error) {
	var doc document
	if err := yaml.Unmarshal(b, &doc); err != nil {
		return nil, fmt.Errorf("parse template: %w", err)
	}
	var tables []Table
	var errs []error
	for _, id := range slices.Sorted(maps.Keys(doc.Resources)) {
		r := doc.Resources[id]
		if r.Type != "AWS::DynamoDB::Table" {
			continue
		}
		table := Table{LogicalID: id}
		if err := r.Properties.Decode(&table); err != nil {
			errs = append(errs, fmt.Errorf("parse template: %s: %w", id, err))
		}
		tables = append(tables, table)
	}
	if err := errors.Join(errs...); err != nil {
		return nil, err
	}
	return tables, nil
}

// Cors says what web pages of other origins may send and read.
type Cors struct {
	AllowMethods  []string `yaml:"AllowMethods"`
	AllowHeaders  []string `yaml:"AllowHeaders"`
	ExposeHeaders []string `yaml:"ExposeHeaders"`
	MaxAge        int      `yaml:"MaxAge"` // in seconds
}

// ParseCors returns the CORS configuration of a template's API. The template has it under a condition.
func ParseCors(b []byte) (c Cors, err error) {
	var doc document
	if err := yaml.Unmarshal(b, &doc); err != nil {
		return c, fmt.Errorf("parse template: %w", err)
	}
	var api struct {
		Cors yaml.Node `yaml:"CorsConfiguration"`
	}
	properties := doc.Resources["Api"].Properties
	if err := properties.Decode(&api); err != nil {
		return c, fmt.Errorf("parse template: Api: %w", err)
	}
	choices := api.Cors.Content // condition, value if it holds, value if not
	if len(choices) != 3 {
		return c, errors.New("parse template: Api has no CorsConfiguration under a condition")
	}
	if err := choices[1].Decode(&c); err != nil {
		return c, fmt.Errorf("parse template: CorsConfiguration: %w", err)
	}
	return c, nil
}
