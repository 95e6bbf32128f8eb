package templatetest_test

import (
	"reflect"
	"strings"
	"testing"

	"sluice/internal/test/templatetest"
)

// small is a template with one example of everything that Parse reads.
const small = `
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
      StreamSpecification: {StreamViewType: NEW_IMAGE}
  CountersTable:
    Type: AWS::DynamoDB::Table
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

func TestParseRejects(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		old, new string // text in the constant small, and its replacement
		want     string // part of the error
	}{
		"condition on table":         {"    DeletionPolicy: Retain", "    Condition: Sometimes", "JobsTable: a AWS::DynamoDB::Table must not depend on a condition"},
		"condition on function":      {"    Metadata: {BuildMethod: makefile}", "    Condition: Sometimes", "UsageFunction: a AWS::Serverless::Function must not depend"},
		"reference to nothing":       {"!Ref CountersTable", "!Ref CounterTable", "UsageFunction: the variable COUNTERS_TABLE names a table, but is not the !Ref of a table"},
		"table variable as text":     {"!Ref CountersTable", "counters", "the variable COUNTERS_TABLE names a table"},
		"table variable of a bucket": {"!Ref JobsTable", "!Ref Files", "CreateExportJobFunction: the variable JOBS_TABLE names a table"},
		"other event":                {"Rest: {Type: HttpApi", "Rest: {Type: Api", `event Rest: events of type "Api" are not supported`},
		"path is an intrinsic":       {"Path: /usage}", "Path: !Sub /usage}", `!Sub "/usage" is not a string`},
		"stream of no table":         {"!GetAtt JobsTable.StreamArn", "!GetAtt Files.StreamArn", "WorkerFunction: Stream is not !GetAtt of the StreamArn of a table"},
		"stream by its table":        {"!GetAtt JobsTable.StreamArn", "!GetAtt JobsTable.Arn", "Stream is not !GetAtt of the StreamArn"},

		"managed policy":             {"Policies: [{Statement", "Policies: [AWSLambdaExecute, {Statement", "cannot unmarshal !!str `AWSLamb"},
		"denying statement":          {"Effect: Allow, Action: dynamodb", "Effect: Deny, Action: dynamodb", "a statement has only the Effect Allow"},
		"statement with a condition": {"Effect: Allow, Action: dynamodb", "Condition: {}, Effect: Allow, Action: dynamodb", "not a scalar"},
		"statement with a Sid":       {"Effect: Allow, Action: dynamodb", "Sid: x, Effect: Allow, Action: dynamodb", "a statement has only the Effect Allow"},
		"statement without action":   {"Action: dynamodb:Query, ", "", "a statement has only the Effect Allow, an Action"},
		"statement with NotAction":   {"Action: dynamodb:Query, ", "NotAction: dynamodb:Query, ", "a statement has only the Effect Allow, an Action"},
		"wildcard action":            {"dynamodb:Query", "dynamodb:*", `the action "dynamodb:*" has a wildcard`},
		"any resource":               {`!Sub "${Files.Arn}/*"`, `"*"`, `the resource !!str "*" is not the Arn of a resource`},
		"any index":                  {"/index/by_time", "/index/*", `"/index/*" after the Arn of JobsTable is a wildcard`},
		"objects by prefix":          {"${Files.Arn}/*", "${Files.Arn}*", `"*" after the Arn of Files is a wildcard`},
		"other attribute":            {"!GetAtt JobsTable.Arn", "!GetAtt JobsTable.StreamArn", "is not the Arn of a resource of the template"},
		"resource of another stack":  {"!GetAtt JobsTable.Arn", "arn:aws:dynamodb:us-east-1:1:table/t", "is not the Arn of a resource of the template"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if !strings.Contains(small, c.old) {
				t.Fatalf("the template of the test has no %q", c.old)
			}
			got, err := templatetest.Parse([]byte(strings.ReplaceAll(small, c.old, c.new)))
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %+v, %v\nwant an error with %q", got, err, c.want)
			}
		})
	}
}
