package templatetest_test

import (
	"reflect"
	"strings"
	"testing"

	"sluice"
	"sluice/internal/test/templatetest"
)

// small is a template with one example of everything that Parse reads.
const small = `
AWSTemplateFormatVersion: "2010-09-09"
Transform: AWS::Serverless-2016-10-31
Parameters:
  RecordsPerSecond: {Type: Number}
Globals:
  Function:
    Timeout: 10
    Environment:
      Variables:
        COUNTERS_TABLE: !Ref CountersTable
        LIMIT_RECORDS: !Ref RecordsPerSecond
Resources:
  Api: {Type: AWS::Serverless::HttpApi}
  Files: {Type: AWS::S3::Bucket, Condition: Whatever}
  UsageFunction:
    Type: AWS::Serverless::Function
    Metadata: {BuildMethod: makefile}
    Properties:
      Events:
        Route: {Type: HttpApi, Properties: {ApiId: !Ref Api, Method: get, Path: /usage}}
        Other: {Type: HttpApi, Properties: {ApiId: !Ref Api, Method: ANY, Path: "/usage/{proxy+}"}}
  CreateExportJobFunction:
    Type: AWS::Serverless::Function
    Properties:
      Policies: [{Statement: [{Effect: Allow, Action: [s3:GetObject], Resource: !Sub "${Files.Arn}/*"}, {Effect: Allow, Action: dynamodb:Query, Resource: [!Sub "${JobsTable.Arn}/index/by_time", !GetAtt JobsTable.Arn]}]}]
      Environment:
        Variables:
          JOBS_TABLE: !Ref JobsTable
          BUCKET: !GetAtt Files.Arn
          REGION: !Ref AWS::Region
          LEVEL: 3
      Events:
        Rest: {Type: HttpApi, Properties: {ApiId: !Ref Api}}
  WorkerFunction:
    Type: AWS::Serverless::Function
    Properties:
      Events:
        Hourly: {Type: Schedule, Properties: {Schedule: rate(1 hour)}}
        Queued:
          Type: DynamoDB
          Properties:
            Stream: !GetAtt JobsTable.StreamArn
            StartingPosition: TRIM_HORIZON
            BatchSize: 1
            FilterCriteria: {Filters: [{Pattern: '{"eventName": ["INSERT"]}'}]}
            DestinationConfig: {OnFailure: {Destination: !GetAtt Letters.Arn}}
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
          Projection: {ProjectionType: KEYS_ONLY}
      SSESpecification: {SSEEnabled: true}
      DeletionProtectionEnabled: !Ref RecordsPerSecond
      OnDemandThroughput: {MaxReadRequestUnits: !Ref RecordsPerSecond}
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
	got, err := templatetest.Parse([]byte(small))
	if err != nil {
		t.Fatal(err)
	}
	want := []templatetest.Function{
		{
			LogicalID: "CreateExportJobFunction", Name: "create-export-job",
			Routes: []templatetest.Route{templatetest.Default},
			Tables: map[string]string{"COUNTERS_TABLE": "CountersTable", "JOBS_TABLE": "JobsTable"},
			Grants: []templatetest.Grant{
				{Action: "s3:GetObject", Resource: "Files/*"},
				{Action: "dynamodb:Query", Resource: "JobsTable/index/by_time"},
				{Action: "dynamodb:Query", Resource: "JobsTable"},
			},
		},
		{
			LogicalID: "UsageFunction", Name: "usage",
			Routes: []templatetest.Route{{Method: "ANY", Path: "/usage/{proxy+}"}, {Method: "GET", Path: "/usage"}},
			Tables: map[string]string{"COUNTERS_TABLE": "CountersTable"},
		},
		{
			LogicalID: "WorkerFunction", Name: "worker",
			Streams: []templatetest.Stream{{Table: "JobsTable", Patterns: []string{`{"eventName": ["INSERT"]}`}}},
			Tables:  map[string]string{"COUNTERS_TABLE": "CountersTable"},
		},
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got  %+v\nwant %+v", got, want)
	}
}

func TestRouteKey(t *testing.T) {
	t.Parallel()
	if got := (templatetest.Route{Method: "GET", Path: "/entity/{id}"}).Key(); got != "GET /entity/{id}" {
		t.Errorf("got %q", got)
	}
	if got := templatetest.Default.Key(); got != "$default" {
		t.Errorf("got %q", got)
	}
}

func TestTemplateIsAccepted(t *testing.T) {
	t.Parallel()
	if functions := templatetest.Functions(t); len(functions) < 18 {
		t.Errorf("template.yaml has %d functions", len(functions))
	}
	if _, err := templatetest.Parse(sluice.Template); err != nil {
		t.Error(err)
	}
}

func TestParseRejects(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		old, new string // replacement in small
		want     string // part of the error
	}{
		"empty template":         {small, "", "no Resources"},
		"only a comment":         {small, "# nothing\n", "no Resources"},
		"broken YAML":            {small, "Resources: [", "yaml:"},
		"a list":                 {small, "- Resources", "line 1: cannot unmarshal !!seq"},
		"two documents":          {"Transform:", "---\nTransform:", "more than one YAML document"},
		"no resources":           {small, "Transform: x", "no Resources"},
		"transformed resources":  {"Resources:", "Resources: !Transform {Name: x}\nMore:", "line 13: "},
		"resource without type":  {"{Type: AWS::S3::Bucket, Condition: Whatever}", "{}", `Files: resources of type "" are not supported`},
		"resource is a list":     {"{Type: AWS::S3::Bucket, Condition: Whatever}", "[]", "line 15: cannot unmarshal !!seq"},
		"resource twice":         {"  JobsTable:\n", "  CountersTable:\n", `mapping key "CountersTable" already defined`},
		"other kind of table":    {"AWS::S3::Bucket", "AWS::Serverless::SimpleTable", `Files: resources of type "AWS::Serverless::SimpleTable" are not supported`},
		"global table":           {"AWS::S3::Bucket", "AWS::DynamoDB::GlobalTable", `type "AWS::DynamoDB::GlobalTable" are not supported`},
		"other kind of API":      {"{Type: AWS::Serverless::HttpApi}", "{Type: AWS::Serverless::Api}", `type "AWS::Serverless::Api" are not supported`},
		"condition on table":     {"    DeletionPolicy: Retain", "    Condition: Sometimes", "field Condition not found"},
		"condition on function":  {"    Metadata: {BuildMethod: makefile}", "    Condition: Sometimes", "field Condition not found"},
		"global for other types": {"Globals:\n", "Globals:\n  HttpApi: {}\n", "field HttpApi not found"},

		"function without the suffix": {"UsageFunction:", "Usage:", "Usage: the logical id of a function is its folder's name in CamelCase"},
		"function in lower case":      {"UsageFunction:", "usageFunction:", "CamelCase"},
		"function without a name":     {"UsageFunction:", "Function:", "CamelCase"},
		"reference to nothing":        {"!Ref CountersTable", "!Ref CounterTable", "UsageFunction: the variable COUNTERS_TABLE names a table, but is not !Ref of a AWS::DynamoDB::Table"},
		"table variable without one":  {"!Ref CountersTable", "counters", "the variable COUNTERS_TABLE names a table"},
		"table variable of a bucket":  {"!Ref JobsTable", "!Ref Files", "CreateExportJobFunction: the variable JOBS_TABLE names a table"},
		"unknown environment":         {"      Variables:\n        COUNTERS", "      Names:\n        COUNTERS", "field Names not found"},
		"other event":                 {"Rest: {Type: HttpApi", "Rest: {Type: Api", `event Rest: events of type "Api" are not supported`},
		"event without type":          {"Rest: {Type: HttpApi, ", "Rest: {", `event Rest: events of type "" are not supported`},
		"event without properties":    {"{Type: HttpApi, Properties: {ApiId: !Ref Api}}", "{Type: HttpApi}", "event Rest: ApiId is not !Ref"},
		"event of an implicit API":    {"Properties: {ApiId: !Ref Api}", "Properties: {}", "event Rest: ApiId is not !Ref of a AWS::Serverless::HttpApi"},
		"event of another resource":   {"Properties: {ApiId: !Ref Api}", "Properties: {ApiId: !Ref Files}", "event Rest: ApiId is not !Ref"},
		"event of an API by name":     {"Properties: {ApiId: !Ref Api}", "Properties: {ApiId: Api}", "event Rest: ApiId is not !Ref"},
		"event with more":             {"Properties: {ApiId: !Ref Api}", "Properties: {ApiId: !Ref Api, Auth: {}}", "field Auth not found"},
		"event with more around":      {"Rest: {Type: HttpApi", "Rest: {Enabled: false, Type: HttpApi", "field Enabled not found"},
		"path without method":         {"Method: get, ", "", `event Route: the method "" is not one of ANY, DELETE`},
		"method without path":         {", Path: /usage}", "}", `event Route: the path "" does not start with a slash`},
		"unknown method":              {"Method: get", "Method: fetch", `event Route: the method "fetch" is not one of ANY, DELETE`},
		"method is an intrinsic":      {"Method: get", "Method: !Ref RecordsPerSecond", `line 21: !Ref "RecordsPerSecond" is not a string`},
		"path is an intrinsic":        {"Path: /usage}", "Path: !Sub /usage}", `line 21: !Sub "/usage" is not a string`},
		"path is a mapping":           {"Path: /usage}", "Path: {Ref: Usage}}", `line 21: !!map "" is not a string`},
		"events are a list":           {"Events:\n        Rest: {Type", "Events:\n        - {Type", "line 34: cannot unmarshal !!seq"},
		"path without slash":          {"Path: /usage}", "Path: usage}", `event Route: the path "usage" does not start with a slash`},
		"route twice":                 {`Method: ANY, Path: "/usage/{proxy+}"`, "Method: GET, Path: /usage", `the route "GET /usage" belongs to UsageFunction`},
		"default route twice":         {", Method: get, Path: /usage", "", `UsageFunction: the route "$default" belongs to CreateExportJobFunction`},

		"stream of no table":        {"!GetAtt JobsTable.StreamArn", "!GetAtt Files.StreamArn", "event Queued: Stream is not !GetAtt of the StreamArn of a AWS::DynamoDB::Table"},
		"stream by its table":       {"!GetAtt JobsTable.StreamArn", "!GetAtt JobsTable.Arn", "Stream is not !GetAtt of the StreamArn"},
		"stream written out":        {"!GetAtt JobsTable.StreamArn", "arn:aws:dynamodb", "Stream is not !GetAtt of the StreamArn"},
		"stream of a table without": {"!GetAtt JobsTable.StreamArn", "!GetAtt CountersTable.StreamArn", "event Queued: CountersTable has no StreamSpecification"},
		"stream event with more":    {"BatchSize: 1", "Enabled: false", "field Enabled not found"},
		"filter of something else":  {"{Pattern:", "{Patterns:", "field Patterns not found"},
		"filter that is not JSON":   {`["INSERT"]}'`, `["INSERT"'`, "is not JSON"},

		"managed policy":            {"Policies: [{Statement", "Policies: [AWSLambdaExecute, {Statement", "line 26: cannot unmarshal !!str `AWSLamb"},
		"policy by a template":      {"Policies: [{Statement", "Policies: [{DynamoDBCrudPolicy: {}}, {Statement", "field DynamoDBCrudPolicy not found"},
		"denying statement":         {"Effect: Allow, Action: dynamodb", "Effect: Deny, Action: dynamodb", "a statement has the Effect Allow"},
		"statement with more":       {"Effect: Allow, Action: dynamodb", "Condition: {}, Effect: Allow, Action: dynamodb", "field Condition not found"},
		"statement without action":  {"Action: dynamodb:Query, ", "", "a statement has the Effect Allow, an Action"},
		"statement of all but one":  {"Action: dynamodb:Query, ", "NotAction: dynamodb:Query, ", "field NotAction not found"},
		"wildcard action":           {"dynamodb:Query", "dynamodb:*", `the action "dynamodb:*" has a wildcard`},
		"any resource":              {`!Sub "${Files.Arn}/*"`, `"*"`, `the resource !!str "*" is not the Arn of a resource`},
		"any index":                 {"/index/by_time", "/index/*", `"/index/*" after the Arn of JobsTable is a wildcard`},
		"objects by prefix":         {"${Files.Arn}/*", "${Files.Arn}*", `"*" after the Arn of Files is a wildcard`},
		"other attribute":           {"!GetAtt JobsTable.Arn", "!GetAtt JobsTable.StreamArn", "is not the Arn of a resource of the template"},
		"resource of another stack": {"!GetAtt JobsTable.Arn", "arn:aws:dynamodb:us-east-1:1:table/t", "is not the Arn of a resource of the template"},

		"table name":            {"    Properties:\n      BillingMode", "    Properties:\n      TableName: x\n      BillingMode", "field TableName not found"},
		"local secondary index": {"GlobalSecondaryIndexes", "LocalSecondaryIndexes", "field LocalSecondaryIndexes not found"},
		"projected attributes":  {"{ProjectionType: ALL}", "{ProjectionType: ALL, NonKeyAttributes: [x]}", "JobsTable: by_time: NonKeyAttributes belong to the projection INCLUDE"},
		"projection of nothing": {"{ProjectionType: ALL}", "{ProjectionType: INCLUDE}", "JobsTable: by_time: NonKeyAttributes belong to the projection INCLUDE"},
		"attribute without use": {"[{AttributeName: hash, KeyType", "[{AttributeName: at, KeyType", `JobsTable: no key uses the attribute "hash"`},
		"expiry switched off":   {"Enabled: true}\n", "Enabled: false}\n", "CountersTable: TimeToLiveSpecification is not enabled"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if !strings.Contains(small, c.old) {
				t.Fatalf("the template of the test has no %q", c.old)
			}
			got, err := templatetest.Parse([]byte(strings.ReplaceAll(small, c.old, c.new)))
			if err == nil {
				t.Fatalf("got %+v, want an error with %q", got, c.want)
			}
			if !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %q\nwant an error with %q", err, c.want)
			}
		})
	}
}

func TestParseReportsEveryProblem(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		broken *strings.Replacer
		want   []string // parts of the error
	}{
		{strings.NewReplacer("BatchSize", "Batch", "StreamViewType", "View"), []string{"line 45: field Batch", "line 71: field View"}},
		{strings.NewReplacer("Method: get", "Method: fetch", "dynamodb:Query", "dynamodb:*"), []string{"UsageFunction: event Route", "CreateExportJobFunction: the action"}},
	} {
		_, err := templatetest.Parse([]byte(c.broken.Replace(small)))
		for _, want := range c.want {
			if err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("got %q, want an error with %q", err, want)
			}
		}
	}
}
