package template_test

import (
	"fmt"
	"reflect"
	"sluice/internal/template"
	"strings"
	"testing"

	"sluice"
)

// small is a template that uses every property that Parse reads.
const small = `
AWSTemplateFormatVersion: "2010-09-09"
Transform: AWS::Serverless-2016-10-31
Parameters:
  RecordsPerSecond: {Type: Number}
Resources:
  Api: {Type: AWS::Serverless::HttpApi}
  Files: {Type: AWS::S3::Bucket, Condition: Whatever, Properties: !Ref AWS::NoValue}
  UsageFunction:
    Type: AWS::Serverless::Function
    Metadata: {BuildMethod: makefile}
    Properties:
      CodeUri: .
      Events:
        Route: {Type: HttpApi, Properties: {ApiId: !Ref Api, Method: get, Path: /usage}}
        Other: {Type: HttpApi, Properties: {ApiId: !Ref Api, Method: ANY, Path: "/usage/{proxy+}"}}
  CreateExportJobFunction:
    Type: AWS::Serverless::Function
    Properties:
      Events:
        Rest: {Type: HttpApi, Properties: {ApiId: !Ref Api}}
  WorkerFunction:
    Type: AWS::Serverless::Function
    Properties:
      Events:
        Queued: {Type: DynamoDB, Properties: {Stream: !GetAtt JobsTable.StreamArn, BatchSize: 1}}
  JobsTable:
    Type: AWS::DynamoDB::Table
    DeletionPolicy: Retain
    Properties:
      BillingMode: PAY_PER_REQUEST
      AttributeDefinitions:
        - {AttributeName: pk, AttributeType: S}
        - {AttributeName: at, AttributeType: N}
        - {AttributeName: hash, AttributeType: B}
      KeySchema:
        - {AttributeName: pk, KeyType: HASH}
        - {AttributeName: at, KeyType: RANGE}
      GlobalSecondaryIndexes:
        - IndexName: by_time
          KeySchema: [{AttributeName: at, KeyType: HASH}, {AttributeName: pk, KeyType: RANGE}]
          Projection: {ProjectionType: ALL}
          OnDemandThroughput: {MaxReadRequestUnits: !Ref RecordsPerSecond}
        - IndexName: by_hash
          KeySchema: [{AttributeName: hash, KeyType: HASH}]
          Projection: {ProjectionType: INCLUDE, NonKeyAttributes: [name, size]}
      DeletionProtectionEnabled: !Ref RecordsPerSecond
      StreamSpecification: {StreamViewType: NEW_IMAGE}
  CountersTable:
    Type: AWS::DynamoDB::Table
    Properties:
      BillingMode: PAY_PER_REQUEST
      AttributeDefinitions: [{AttributeName: pk, AttributeType: S}]
      KeySchema: [{AttributeName: pk, KeyType: HASH}]
      TimeToLiveSpecification: {AttributeName: expires_at, Enabled: true}
`

func TestParse(t *testing.T) {
	t.Parallel()
	got, err := template.Parse([]byte(small))
	if err != nil {
		t.Fatal(err)
	}
	want := []template.Table{
		{
			LogicalID:   "CountersTable",
			BillingMode: "PAY_PER_REQUEST",
			Attributes:  []template.Attribute{{Name: "pk", Type: "S"}},
			Key:         []template.KeyElement{{Name: "pk", Type: "HASH"}},
			TTL:         template.TTL{Attribute: "expires_at", Enabled: true},
		},
		{
			LogicalID:   "JobsTable",
			BillingMode: "PAY_PER_REQUEST",
			Attributes:  []template.Attribute{{Name: "pk", Type: "S"}, {Name: "at", Type: "N"}, {Name: "hash", Type: "B"}},
			Key:         []template.KeyElement{{Name: "pk", Type: "HASH"}, {Name: "at", Type: "RANGE"}},
			Indexes: []template.Index{
				{
					Name:       "by_time",
					Key:        []template.KeyElement{{Name: "at", Type: "HASH"}, {Name: "pk", Type: "RANGE"}},
					Projection: template.Projection{Type: "ALL"},
				},
				{
					Name:       "by_hash",
					Key:        []template.KeyElement{{Name: "hash", Type: "HASH"}},
					Projection: template.Projection{Type: "INCLUDE", Attributes: []template.Text{"name", "size"}},
				},
			},
			Stream: template.Stream{View: "NEW_IMAGE"},
		},
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got  %+v\nwant %+v", got, want)
	}
}

// Without these errors, Parse would return a table that differs from the template.
// TestRenderedTemplate in package repository_test checks further properties.
func TestParseRejects(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		old, new string // text in the template small, and its replacement
		want     string // part of the expected error
	}{
		"broken YAML":              {small, "Resources: [", "parse template: yaml:"},
		"a list":                   {small, "- Resources", "line 1: cannot unmarshal !!seq"},
		"resource is a list":       {"{Type: AWS::S3::Bucket,", "[]\n  More: {Type: AWS::S3::Bucket,", "line 8: cannot unmarshal !!seq"},
		"resource twice":           {"  JobsTable:\n", "  CountersTable:\n", `mapping key "CountersTable" already defined`},
		"type is an intrinsic":     {"{Type: AWS::S3::Bucket", "{Type: !Ref RecordsPerSecond", `line 8: !Ref "RecordsPerSecond" is not a string`},
		"properties are a list":    {"    Properties:\n      BillingMode: PAY_PER_REQUEST\n      AttributeDefinitions: [", "    Properties: []\n    More:\n      AttributeDefinitions: [", "CountersTable: yaml: unmarshal errors:\n  line 51: cannot unmarshal !!seq"},
		"billing by parameter":     {"BillingMode: PAY_PER_REQUEST\n      AttributeDefinitions:\n", "BillingMode: !Ref Mode\n      AttributeDefinitions:\n", `JobsTable: yaml: unmarshal errors:` + "\n" + `  line 31: !Ref "Mode" is not a string`},
		"attributes not a list":    {"[{AttributeName: pk, AttributeType: S}]", "{pk: S}", "CountersTable: yaml: unmarshal errors:\n  line 53: cannot unmarshal"},
		"attributes by condition":  {"[{AttributeName: pk, AttributeType: S}]", "!If [A, [{AttributeName: pk, AttributeType: S}], []]", "line 53: cannot unmarshal"},
		"attribute by parameter":   {"{AttributeName: at, AttributeType: N}", "{AttributeName: !Ref At, AttributeType: N}", `line 34: !Ref "At" is not a string`},
		"attribute type a number":  {"AttributeType: N", "AttributeType: 1", `line 34: !!int "1" is not a string`},
		"attribute without name":   {"{AttributeName: pk, AttributeType: S}]", `{AttributeName: "", AttributeType: S}]`, `line 53: !!str "" is not a string`},
		"key type by parameter":    {"KeyType: RANGE}\n", "KeyType: !Ref Range}\n", `line 38: !Ref "Range" is not a string`},
		"index name by parameter":  {"IndexName: by_hash", "IndexName: !Sub by_hash", `line 44: !Sub "by_hash" is not a string`},
		"projection by parameter":  {"ProjectionType: ALL", "ProjectionType: !Ref All", `line 42: !Ref "All" is not a string`},
		"expiry by parameter":      {"AttributeName: expires_at", "AttributeName: !Ref RecordsPerSecond", `line 55: !Ref "RecordsPerSecond" is not a string`},
		"expiry on a condition":    {"Enabled: true", "Enabled: !Ref RecordsPerSecond", "line 55: cannot unmarshal !Ref"},
		"stream view by parameter": {"StreamViewType: NEW_IMAGE", "StreamViewType: !Ref View", `line 48: !Ref "View" is not a string`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if !strings.Contains(small, c.old) {
				t.Fatalf("the test's template does not contain %q", c.old)
			}
			got, err := template.Parse([]byte(strings.ReplaceAll(small, c.old, c.new)))
			if err == nil {
				t.Fatalf("got %+v, want an error that contains %q", got, c.want)
			}
			if !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %q\nwant an error that contains %q", err, c.want)
			}
		})
	}
}

func TestParseReportsEveryProblem(t *testing.T) {
	t.Parallel()
	broken := strings.NewReplacer("AttributeName: expires_at", "AttributeName: !Ref A", "AttributeType: N", "AttributeType: !Ref B", "KeyType: RANGE}\n", "KeyType: !Ref C}\n").Replace(small)
	_, err := template.Parse([]byte(broken))
	for _, want := range []string{"CountersTable: ", "line 55: ", "JobsTable: ", "line 34: ", "line 38: "} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %q, want an error that contains %q", err, want)
		}
	}
}

func FuzzParse(f *testing.F) {
	f.Add([]byte(small))
	f.Add([]byte("# nothing\n"))
	f.Add([]byte("Resources: &a {<<: *a}"))
	f.Fuzz(func(t *testing.T, b []byte) {
		got, err := template.Parse(b)
		if err != nil && got != nil {
			t.Errorf("got %+v and %v", got, err)
		}
	})
}

func ExampleParse() {
	tables, err := template.Parse(sluice.Template)
	if err != nil {
		panic(err)
	}
	for _, table := range tables {
		if table.LogicalID == "EntitiesTable" {
			fmt.Println(table.EnvVar(), table.Key)
		}
	}
	// Output: ENTITIES_TABLE [{workspace HASH} {id RANGE}]
}
