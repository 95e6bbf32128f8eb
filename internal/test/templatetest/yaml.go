package templatetest

import (
	"fmt"

	"go.yaml.in/yaml/v3"

	"sluice/pkg/template"
)

// Types of resources that this package reads or refers to.
const (
	typeAPI      = "AWS::Serverless::HttpApi"
	typeFunction = "AWS::Serverless::Function"
	typeTable    = "AWS::DynamoDB::Table"
	typeBucket   = "AWS::S3::Bucket"
)

// document is a template. The decoder rejects fields that a type does not have,
// unless the type has an inline map.
type document struct {
	Globals struct {
		Function struct {
			Environment environment        `yaml:"Environment"`
			Other       map[string]ignored `yaml:",inline"`
		} `yaml:"Function"`
	} `yaml:"Globals"`
	Resources map[string]resource `yaml:"Resources"`
	Other     map[string]ignored  `yaml:",inline"`
}

type environment struct {
	Variables map[string]value `yaml:"Variables"`
}

// head has the fields that all resources and events share.
type head struct {
	Type  template.Text      `yaml:"Type"`
	Other map[string]ignored `yaml:",inline"`
}

// resource is a resource of any type. Only the properties of its type are set.
type resource struct {
	Type     template.Text
	table    table
	function function
}

// UnmarshalYAML implements the older of the two interfaces of package yaml, because only with
// that one the decoder rejects unknown fields.
func (r *resource) UnmarshalYAML(decode func(any) error) error {
	var h head
	if err := decode(&h); err != nil {
		return err
	}
	switch r.Type = h.Type; r.Type {
	case typeTable:
		return decode(&envelope[*table]{Properties: &r.table})
	case typeFunction:
		return decode(&envelope[*function]{Properties: &r.function})
	}
	return nil
}

// envelope is a resource with properties of type P. It has no field Condition, so the decoder
// rejects conditional resources, whose existence would depend on parameters.
type envelope[P any] struct {
	Type                ignored `yaml:"Type"`
	Metadata            ignored `yaml:"Metadata"`
	DependsOn           ignored `yaml:"DependsOn"`
	DeletionPolicy      ignored `yaml:"DeletionPolicy"`
	UpdateReplacePolicy ignored `yaml:"UpdateReplacePolicy"`
	Properties          P       `yaml:"Properties"`
}

// table has every property of a table that template.yaml may use.
type table struct {
	BillingMode ignored               `yaml:"BillingMode"`
	Attributes  []template.Attribute  `yaml:"AttributeDefinitions"`
	Key         []template.KeyElement `yaml:"KeySchema"`
	Indexes     []struct {
		template.Index     `yaml:",inline"`
		OnDemandThroughput ignored `yaml:"OnDemandThroughput"`
	} `yaml:"GlobalSecondaryIndexes"`
	TTL    *template.TTL   `yaml:"TimeToLiveSpecification"`
	Stream template.Stream `yaml:"StreamSpecification"`

	// Local tables do not have these properties.
	DeletionProtectionEnabled        ignored `yaml:"DeletionProtectionEnabled"`
	OnDemandThroughput               ignored `yaml:"OnDemandThroughput"`
	PointInTimeRecoverySpecification ignored `yaml:"PointInTimeRecoverySpecification"`
	SSESpecification                 ignored `yaml:"SSESpecification"`
	Tags                             ignored `yaml:"Tags"`
}

type function struct {
	Environment environment `yaml:"Environment"`
	Policies    []struct {
		Statement []statement `yaml:"Statement"`
	} `yaml:"Policies"`
	Events map[string]event   `yaml:"Events"`
	Other  map[string]ignored `yaml:",inline"`
}

type statement struct {
	Effect   template.Text `yaml:"Effect"`
	Action   values        `yaml:"Action"`
	Resource values        `yaml:"Resource"`
}

// event is an event of any type. Only the properties of its type are set.
type event struct {
	Type   template.Text
	route  httpEvent
	stream streamEvent
}

// UnmarshalYAML implements the older interface, like resource.UnmarshalYAML.
func (e *event) UnmarshalYAML(decode func(any) error) error {
	var h head
	if err := decode(&h); err != nil {
		return err
	}
	switch e.Type = h.Type; e.Type {
	case "HttpApi":
		return decode(&eventEnvelope[*httpEvent]{Properties: &e.route})
	case "DynamoDB":
		return decode(&eventEnvelope[*streamEvent]{Properties: &e.stream})
	}
	return nil
}

type eventEnvelope[P any] struct {
	Type       ignored `yaml:"Type"`
	Properties P       `yaml:"Properties"`
}

type httpEvent struct {
	API    value         `yaml:"ApiId"`
	Method template.Text `yaml:"Method"`
	Path   template.Text `yaml:"Path"`
}

type streamEvent struct {
	Stream         value `yaml:"Stream"`
	FilterCriteria struct {
		Filters []struct {
			Pattern template.Text `yaml:"Pattern"`
		} `yaml:"Filters"`
	} `yaml:"FilterCriteria"`

	// These properties say how changes are delivered, not which changes.
	StartingPosition           ignored `yaml:"StartingPosition"`
	BatchSize                  ignored `yaml:"BatchSize"`
	ParallelizationFactor      ignored `yaml:"ParallelizationFactor"`
	MaximumRetryAttempts       ignored `yaml:"MaximumRetryAttempts"`
	MaximumRecordAgeInSeconds  ignored `yaml:"MaximumRecordAgeInSeconds"`
	BisectBatchOnFunctionError ignored `yaml:"BisectBatchOnFunctionError"`
	DestinationConfig          ignored `yaml:"DestinationConfig"`
	FunctionResponseTypes      ignored `yaml:"FunctionResponseTypes"`
}

// ignored is a part of a template that is accepted but not read.
type ignored struct{}

// UnmarshalYAML implements yaml.Unmarshaler.
func (ignored) UnmarshalYAML(*yaml.Node) error { return nil }

// value is a scalar, or a short-form CloudFormation intrinsic function with a scalar,
// such as !Ref. For !If, only the tag is kept.
type value struct{ tag, text string }

// UnmarshalYAML implements yaml.Unmarshaler.
func (v *value) UnmarshalYAML(n *yaml.Node) error {
	if n.Kind != yaml.ScalarNode && n.Tag != "!If" {
		return &yaml.TypeError{Errors: []string{fmt.Sprintf("line %d: not a scalar or an intrinsic function in its short form", n.Line)}}
	}
	*v = value{tag: n.Tag, text: n.Value}
	return nil
}

// of returns the text of v if its tag is tag, such as !Ref, and "" otherwise. The tag
// of a plain string is !!str.
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
