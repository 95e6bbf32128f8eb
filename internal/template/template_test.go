package template_test

import (
	"reflect"
	"strings"
	"testing"

	"sluice/internal/template"
)

// small is a template with every property that Parse reads.
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
        Queued: {Type: DynamoDB, Properties: {StreamSpecification: !GetAtt JobsTable.StreamArn, BatchSize: 1}}
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
			LogicalID:            "CountersTable",
			BillingMode:          "PAY_PER_REQUEST",
			AttributeDefinitions: []template.Attribute{{AttributeName: "pk", AttributeType: "S"}},
			KeySchema:            []template.KeyElement{{AttributeName: "pk", KeyType: "HASH"}},
			TTL:                  template.TTL{AttributeName: "expires_at", Enabled: true},
		},
		{
			LogicalID:            "JobsTable",
			BillingMode:          "PAY_PER_REQUEST",
			AttributeDefinitions: []template.Attribute{{AttributeName: "pk", AttributeType: "S"}, {AttributeName: "at", AttributeType: "N"}, {AttributeName: "hash", AttributeType: "B"}},
			KeySchema:            []template.KeyElement{{AttributeName: "pk", KeyType: "HASH"}, {AttributeName: "at", KeyType: "RANGE"}},
			GlobalSecondaryIndexes: []template.Index{
				{
					IndexName:  "by_time",
					KeySchema:  []template.KeyElement{{AttributeName: "at", KeyType: "HASH"}, {AttributeName: "pk", KeyType: "RANGE"}},
					Projection: template.Projection{ProjectionType: "ALL"},
				},
				{
					IndexName:  "by_hash",
					KeySchema:  []template.KeyElement{{AttributeName: "hash", KeyType: "HASH"}},
					Projection: template.Projection{ProjectionType: "INCLUDE", NonKeyAttributes: []template.Literal{"name", "size"}},
				},
			},
			StreamSpecification: &template.Stream{StreamViewType: "NEW_IMAGE"},
		},
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got  %+v\nwant %+v", got, want)
	}
}

// If Parse ignored these mistakes, local tables could differ from tables on AWS.
func TestParseRejects(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		old, new string // text in small and its replacement
		want     string // part of the error
	}{
		"broken YAML":             {small, "Resources: [", "parse template: yaml:"},
		"billing by parameter":    {"BillingMode: PAY_PER_REQUEST\n      AttributeDefinitions:\n", "BillingMode: !Ref Mode\n      AttributeDefinitions:\n", `JobsTable: yaml: unmarshal errors:` + "\n" + `  line 31: !Ref "Mode" is not a string`},
		"attributes by condition": {"[{AttributeName: pk, AttributeType: S}]", "!If [A, [{AttributeName: pk, AttributeType: S}], []]", "line 53: cannot unmarshal"},
		"attribute by parameter":  {"{AttributeName: at, AttributeType: N}", "{AttributeName: !Ref At, AttributeType: N}", `line 34: !Ref "At" is not a string`},
		"attribute type a number": {"AttributeType: N", "AttributeType: 1", `line 34: !!int "1" is not a string`},
		"expiry on a condition":   {"Enabled: true", "Enabled: !Ref RecordsPerSecond", "line 55: cannot unmarshal !Ref"},
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
