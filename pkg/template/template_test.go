package template_test

import (
	"fmt"
	"reflect"
	"strings"
	"testing"

	"sluice"
	"sluice/pkg/template"
)

// small is a template with one of everything that Parse reads.
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
        Other: {Type: HttpApi, Properties: {ApiId: {Ref: Api}, Method: ANY, Path: "/usage/{proxy+}"}}
  CreateExportJobFunction:
    Type: AWS::Serverless::Function
    Properties:
      Policies: [{Statement: [{Effect: Allow, Action: [s3:GetObject], Resource: !Sub "${Files.Arn}/*"}, {Effect: Allow, Action: dynamodb:Query, Resource: [!Sub "${JobsTable.Arn}/index/by_time", !GetAtt JobsTable.Arn]}]}]
      Environment:
        Variables:
          JOBS_TABLE: {Ref: JobsTable}
          BUCKET: !GetAtt Files.Arn
          REGION: !Ref AWS::Region
          LEVEL: 3
      Events:
        Rest: {Type: HttpApi, Properties: {ApiId: !Ref Api}}
        Hourly: {Type: Schedule, Properties: {Schedule: rate(1 hour)}}
  WorkerFunction:
    Type: AWS::Serverless::Function
    Properties:
      Events:
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
	got, err := template.Parse([]byte(small))
	if err != nil {
		t.Fatal(err)
	}
	want := &template.Template{
		Functions: []template.Function{
			{
				LogicalID: "CreateExportJobFunction",
				Name:      "create-export-job",
				Routes:    []template.Route{template.Default},
				Tables:    map[string]string{"COUNTERS_TABLE": "CountersTable", "JOBS_TABLE": "JobsTable"},
				Grants: []template.Grant{
					{Action: "dynamodb:Query", Resource: "JobsTable"},
					{Action: "dynamodb:Query", Resource: "JobsTable/index/by_time"},
					{Action: "s3:GetObject", Resource: "Files/*"},
				},
			},
			{
				LogicalID: "UsageFunction",
				Name:      "usage",
				Routes:    []template.Route{{Method: "ANY", Path: "/usage/{proxy+}"}, {Method: "GET", Path: "/usage"}},
				Tables:    map[string]string{"COUNTERS_TABLE": "CountersTable"},
			},
			{
				LogicalID: "WorkerFunction",
				Name:      "worker",
				Streams:   []template.Stream{{Table: "JobsTable", Patterns: []string{`{"eventName": ["INSERT"]}`}}},
				Tables:    map[string]string{"COUNTERS_TABLE": "CountersTable"},
			},
		},
		Tables: []template.Table{
			{
				LogicalID:    "CountersTable",
				Hash:         "pk",
				Attributes:   map[string]string{"pk": "S"},
				TTLAttribute: "expires_at",
			},
			{
				LogicalID:  "JobsTable",
				Hash:       "pk",
				Range:      "at",
				Attributes: map[string]string{"pk": "S", "at": "N", "hash": "B"},
				Indexes: []template.Index{
					{Name: "by_hash", Hash: "hash", Projection: "KEYS_ONLY"},
					{Name: "by_time", Hash: "at", Range: "pk", Projection: "ALL"},
				},
				StreamView: "NEW_IMAGE",
			},
		},
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got  %+v\nwant %+v", got, want)
	}

	if table, ok := got.Table("JobsTable"); !ok || table.LogicalID != "JobsTable" {
		t.Errorf("Table(JobsTable) = %+v, %t", table, ok)
	}
	if table, ok := got.Table("Jobs"); ok {
		t.Errorf("Table(Jobs) = %+v, want none", table)
	}
}

func TestRouteKey(t *testing.T) {
	t.Parallel()
	if got := (template.Route{Method: "GET", Path: "/entity/{id}"}).Key(); got != "GET /entity/{id}" {
		t.Errorf("got %q", got)
	}
	if got := template.Default.Key(); got != "$default" {
		t.Errorf("got %q", got)
	}
}

func TestParseRefuses(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		old, new string // what is changed in small
		want     string // part of the error
	}{
		"empty template":         {small, "", "it is empty"},
		"only a comment":         {small, "# nothing\n", "parse template: "},
		"broken YAML":            {small, "Resources: [", "parse template: yaml:"},
		"a list":                 {small, "- Resources", "template: is not a mapping"},
		"two documents":          {"Transform:", "---\nTransform:", "more than one YAML document"},
		"no resources":           {small, "Transform: x", "line 1: template: has no Resources"},
		"tagged resources":       {"Resources:", "Resources: !Transform", "template.Resources: is not a mapping"},
		"resource without type":  {"{Type: AWS::S3::Bucket, Condition: Whatever}", "{}", "template.Resources.Files: has no Type"},
		"resource is a list":     {"{Type: AWS::S3::Bucket, Condition: Whatever}", "[]", "template.Resources.Files: is not a mapping"},
		"resource twice":         {"  JobsTable:\n", "  CountersTable:\n", "template.Resources.CountersTable: appears twice"},
		"other kind of table":    {"AWS::S3::Bucket", "AWS::Serverless::SimpleTable", "type AWS::Serverless::SimpleTable are not understood"},
		"global table":           {"AWS::S3::Bucket", "AWS::DynamoDB::GlobalTable", "type AWS::DynamoDB::GlobalTable are not understood"},
		"other kind of API":      {"{Type: AWS::Serverless::HttpApi}", "{Type: AWS::Serverless::Api}", "type AWS::Serverless::Api are not understood"},
		"condition on table":     {"    DeletionPolicy: Retain", "    Condition: Sometimes", "JobsTable.Condition: is not understood"},
		"condition on function":  {"    Metadata: {BuildMethod: makefile}", "    Condition: Sometimes", "UsageFunction.Condition: is not understood"},
		"global for other types": {"Globals:\n", "Globals:\n  HttpApi: {}\n", "template.Globals.HttpApi: is not understood"},

		"function without the suffix": {"UsageFunction:", "Usage:", "CamelCase"},
		"function in lower case":      {"UsageFunction:", "usageFunction:", "CamelCase"},
		"function without a name":     {"UsageFunction:", "Function:", "CamelCase"},
		"reference to nothing":        {"!Ref CountersTable", "!Ref CounterTable", `Globals.Function.Environment.Variables.COUNTERS_TABLE: refers to "CounterTable"`},
		"table variable without one":  {"!Ref CountersTable", "counters", "COUNTERS_TABLE: an environment variable that names a table is a !Ref to a AWS::DynamoDB::Table"},
		"table variable of a bucket":  {"{Ref: JobsTable}", "!Ref Files", "JOBS_TABLE: an environment variable that names a table"},
		"unknown environment":         {"      Variables:\n        COUNTERS", "      Names:\n        COUNTERS", "Environment.Names: is not understood"},
		"other event":                 {"Rest: {Type: HttpApi", "Rest: {Type: Api", `Events.Rest: events of the type "Api" are not understood`},
		"event without properties":    {"{Type: HttpApi, Properties: {ApiId: !Ref Api}}", "{Type: HttpApi}", "Events.Rest: has no Properties"},
		"event of an implicit API":    {"Properties: {ApiId: !Ref Api}", "Properties: {}", "Events.Rest.Properties: has no ApiId"},
		"event of another resource":   {"Properties: {ApiId: !Ref Api}", "Properties: {ApiId: !Ref Files}", "ApiId: is a !Ref to a AWS::Serverless::HttpApi"},
		"event with more":             {"Properties: {ApiId: !Ref Api}", "Properties: {ApiId: !Ref Api, Auth: {}}", "Properties.Auth: is not understood"},
		"path without method":         {"Method: get, ", "", "Events.Route.Properties: has no Method"},
		"method without path":         {", Path: /usage}", "}", "Events.Route.Properties: has no Path"},
		"unknown method":              {"Method: get", "Method: fetch", `Method: "FETCH" is none of ANY, DELETE`},
		"method is an intrinsic":      {"Method: get", "Method: !Ref RecordsPerSecond", "Method: is not text written out"},
		"path without slash":          {"Path: /usage}", "Path: usage}", `Path: "usage" does not start with a slash`},
		"route twice":                 {`Method: ANY, Path: "/usage/{proxy+}"`, "Method: GET, Path: /usage", `the route "GET /usage" belongs to UsageFunction already`},
		"default route twice":         {", Method: get, Path: /usage", "", `the route "$default" belongs to UsageFunction already`},

		"stream of no table":        {"!GetAtt JobsTable.StreamArn", "!GetAtt Files.StreamArn", "Stream: is a !GetAtt of the StreamArn of a AWS::DynamoDB::Table"},
		"stream by its table":       {"!GetAtt JobsTable.StreamArn", "!GetAtt JobsTable.Arn", "Stream: is a !GetAtt of the StreamArn"},
		"stream written out":        {"!GetAtt JobsTable.StreamArn", "arn:aws:dynamodb", "Stream: is a !GetAtt of the StreamArn"},
		"stream of a table without": {"!GetAtt JobsTable.StreamArn", "!GetAtt CountersTable.StreamArn", "reads the stream of CountersTable, which has no StreamSpecification"},
		"stream event with more":    {"BatchSize: 1", "Enabled: false", "Properties.Enabled: is not understood"},
		"filter of something else":  {"{Pattern:", "{Patterns:", "Filters[0].Patterns: is not understood"},
		"filter that is not JSON":   {`["INSERT"]}'`, `["INSERT"'`, "Pattern: is not JSON"},
		"stream view":               {"StreamViewType: NEW_IMAGE", "StreamViewType: ALL", `StreamViewType: "ALL" is none of KEYS_ONLY`},

		"managed policy":            {"Policies: [{Statement", "Policies: [AWSLambdaExecute, {Statement", "Policies[0]: is not a mapping"},
		"policy by a template":      {"Policies: [{Statement", "Policies: [{DynamoDBCrudPolicy: {}}, {Statement", "DynamoDBCrudPolicy: is not understood"},
		"denying statement":         {"Effect: Allow, Action: dynamodb", "Effect: Deny, Action: dynamodb", "Statement[1].Effect: is Allow"},
		"statement with more":       {"Effect: Allow, Action: dynamodb", "Condition: {}, Effect: Allow, Action: dynamodb", "Statement[1].Condition: is not understood"},
		"statement without action":  {"Action: dynamodb:Query, ", "", "Statement[1]: has no Action"},
		"wildcard action":           {"dynamodb:Query", "dynamodb:*", `Action: "dynamodb:*" is a wildcard`},
		"any resource":              {`!Sub "${Files.Arn}/*"`, `"*"`, "Resource: is not the Arn of a resource of this template"},
		"any index":                 {"/index/by_time", "/index/*", `"/index/*" is a wildcard`},
		"objects by prefix":         {"${Files.Arn}/*", "${Files.Arn}*", `"*" is a wildcard`},
		"other attribute":           {"!GetAtt JobsTable.Arn", "!GetAtt JobsTable.StreamArn", "Resource[1]: is not the Arn"},
		"resource of another stack": {"!GetAtt JobsTable.Arn", "arn:aws:dynamodb:us-east-1:1:table/t", "Resource[1]: is not the Arn"},

		"table name":               {"    Properties:\n      BillingMode", "    Properties:\n      TableName: x\n      BillingMode", "JobsTable.Properties.TableName: is not understood"},
		"local secondary index":    {"GlobalSecondaryIndexes", "LocalSecondaryIndexes", "LocalSecondaryIndexes: is not understood"},
		"table without properties": {"{Type: AWS::S3::Bucket, Condition: Whatever}", "{Type: AWS::DynamoDB::Table}", "template.Resources.Files: has no Properties"},
		"provisioned":              {"PAY_PER_REQUEST", "PROVISIONED", "BillingMode: is PAY_PER_REQUEST"},
		"no billing mode":          {"      BillingMode: PAY_PER_REQUEST\n", "", "has no BillingMode"},
		"attributes not a list":    {"[{AttributeName: pk, AttributeType: S}]", "{pk: S}", "AttributeDefinitions: is not a list"},
		"attribute type":           {"AttributeType: N", "AttributeType: SS", `AttributeDefinitions[1].AttributeType: "SS" is none of S, N, B`},
		"attribute twice":          {"AttributeName: at, AttributeType", "AttributeName: pk, AttributeType", `the attribute "pk" is defined already`},
		"attribute without name":   {"{AttributeName: pk, AttributeType: S}", `{AttributeName: "", AttributeType: S}`, "AttributeName: is not text written out"},
		"attribute without use":    {"[{AttributeName: hash, KeyType", "[{AttributeName: at, KeyType", `AttributeDefinitions: no key uses the attribute "hash"`},
		"attribute without type":   {"[{AttributeName: hash, KeyType", "[{AttributeName: hush, KeyType", `AttributeDefinitions does not define "hush"`},
		"no key":                   {"      KeySchema: [{AttributeName: pk, KeyType: HASH}]\n", "", "has no KeySchema"},
		"empty key":                {"KeySchema: [{AttributeName: hash, KeyType: HASH}]", "KeySchema: []", "KeySchema: the key has no attribute of the type HASH"},
		"range without hash":       {"KeySchema: [{AttributeName: pk, KeyType: HASH}]", "KeySchema: [{AttributeName: pk, KeyType: RANGE}]", "KeySchema: the key has no attribute of the type HASH"},
		"two hashes":               {"{AttributeName: at, KeyType: RANGE}", "{AttributeName: at, KeyType: HASH}", "KeySchema[1]: a key has one attribute"},
		"index twice":              {"IndexName: by_hash", "IndexName: by_time", `the index "by_time" is defined already`},
		"index without name":       {"        - IndexName: by_hash\n          KeySchema", "        - KeySchema", "GlobalSecondaryIndexes[1]: has no IndexName"},
		"index without projection": {"          Projection: {ProjectionType: ALL}\n", "", "GlobalSecondaryIndexes[0]: has no Projection"},
		"projection of some":       {"ProjectionType: ALL", "ProjectionType: INCLUDE", `"INCLUDE" is neither ALL nor KEYS_ONLY`},
		"projected attributes":     {"{ProjectionType: ALL}", "{ProjectionType: ALL, NonKeyAttributes: [x]}", "NonKeyAttributes: is not understood"},
		"expiry switched off":      {"Enabled: true}\n", "Enabled: false}\n", "TimeToLiveSpecification.Enabled: is true"},
		"expiry by parameter":      {"AttributeName: expires_at", "AttributeName: !Ref RecordsPerSecond", "TimeToLiveSpecification.AttributeName: is not text written out"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if !strings.Contains(small, c.old) {
				t.Fatalf("the template of the test has no %q", c.old)
			}
			got, err := template.Parse([]byte(strings.ReplaceAll(small, c.old, c.new)))
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
	broken := strings.NewReplacer("Method: get", "Method: fetch", "AttributeType: N", "AttributeType: X").Replace(small)
	_, err := template.Parse([]byte(broken))
	if err == nil || strings.Count(err.Error(), "\n") != 1 || !strings.Contains(err.Error(), "line ") {
		t.Errorf("got %q, want two lines with line numbers", err)
	}
}

func FuzzParse(f *testing.F) {
	f.Add([]byte(small))
	f.Add([]byte("# nothing\n"))
	f.Add([]byte("Resources: &a {<<: *a}"))
	f.Fuzz(func(t *testing.T, b []byte) {
		got, err := template.Parse(b)
		if (got == nil) == (err == nil) {
			t.Errorf("got %+v and %v", got, err)
		}
	})
}

func ExampleParse() {
	t, err := template.Parse(sluice.Template)
	if err != nil {
		panic(err)
	}
	for _, f := range t.Functions {
		if f.Name == "list-entity" {
			fmt.Println(f.Routes[0].Key(), f.Tables["ENTITIES_TABLE"])
		}
	}
	// Output: GET /entity EntitiesTable
}
