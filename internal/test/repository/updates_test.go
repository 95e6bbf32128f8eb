package repository_test

import (
	"fmt"

	"slices"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"

	"sluice"
)

// editions are changes to template.yaml, as pairs of an old and a new text.
var editions = map[string][]string{
	"timeout":     {"      Timeout: 48 ", "      Timeout: 50 "},
	"code of one": {"      Description: GET /usage\n", "      Description: GET /usage\n      CodeUri: s3://bucket/other\n"},
	"code":        {"    CodeUri: .\n", "    CodeUri: s3://bucket/other\n"},
	"route":       {"        Root: {", "        Start: {Type: HttpApi, Properties: {ApiId: !Ref Api, Method: ANY, Path: /start}}\n        Root: {"},
	"function":    {"  HealthFunction:\n", newFunction + "\n  HealthFunction:\n"},
	"table":       {"  CountersTable:\n", newTable + "\n  CountersTable:\n", `        AWS_ENDPOINT_URL_DYNAMODB: ""`, "        EXTRA_TABLE: !Ref ExtraTable"},
	"index":       {"        - IndexName: by_type\n", newIndex("by_first") + "        - IndexName: by_type\n"},
	"two indexes": {"        - IndexName: by_type\n", newIndex("by_first") + newIndex("by_second") + "        - IndexName: by_type\n"},
	"projection":  {typeIndex, strings.Replace(typeIndex, "ALL", "KEYS_ONLY", 1)},
}

const (
	newFunction = `  ExtraFunction:
    Type: AWS::Serverless::Function
    Properties:
      VersionDescription: !GetAtt Settings.Value
      Events:
        Route: {Type: HttpApi, Properties: {ApiId: !Ref Api, Method: ANY, Path: /extra}}
`
	newTable = `  ExtraTable:
    Type: AWS::DynamoDB::Table
    Properties:
      BillingMode: PAY_PER_REQUEST
      AttributeDefinitions: [{AttributeName: id, AttributeType: S}]
      KeySchema: [{AttributeName: id, KeyType: HASH}]
`
	typeIndex = `            - {AttributeName: type_key, KeyType: HASH}
            - {AttributeName: id, KeyType: RANGE}
          Projection:
            ProjectionType: ALL
`
)

func newIndex(name string) string {
	return "        - IndexName: " + name + "\n          KeySchema: [{AttributeName: type_key, KeyType: HASH}]\n          Projection: {ProjectionType: KEYS_ONLY}\n"
}

// edited returns template.yaml as changed by an edition.
func edited(t *testing.T, name string) string {
	t.Helper()
	text := string(sluice.Template)
	for pair := range slices.Chunk(editions[name], 2) {
		if strings.Count(text, pair[0]) != 1 {
			t.Fatalf("template.yaml does not have exactly one %q", pair[0])
		}
		text = strings.Replace(text, pair[0], pair[1], 1)
	}
	if text == string(sluice.Template) {
		t.Fatalf("there is no edition %q", name)
	}
	return text
}

// updates lists what CloudFormation does when a stack of the environment prod is updated. old and
// new are what the argument of render has after "prod".
var updates = []struct{ name, old, new, want string }{
	{"a commit without changes of code", "", "", "nothing"},
	{"code of one function", "", "@code of one", "publishes UsageFunction"},
	{"code of all functions", "", "@code", "publishes every Function"},
	{"back to the earlier code", "@code", "", "publishes every Function"},
	{"the timeout of a function", "", "@timeout", "publishes ExportStarterFunction"},
	{"a route", "", "@route", "adds DashboardFunctionStartPermission; changes Api"},
	{"a function", "", "@function", "publishes ExtraFunction; adds ExtraFunction, ExtraFunctionDeploymentGroup, ExtraFunctionRole, ExtraFunctionRoutePermission; changes Api"},
	{"a table", "", "@table", "publishes every Function; adds ExtraTable"},
	{"an index", "", "@index", "changes EntitiesTable"},
	{"an index removed", "@index", "", "changes EntitiesTable"},
	{"two indexes", "", "@two indexes", "REJECTED for 1 reasons: 2 indexes of EntitiesTable are created or deleted; changes EntitiesTable"},
	{"the projection of an index", "", "@projection", "REJECTED for 1 reasons: 2 indexes of EntitiesTable are created or deleted; changes EntitiesTable"},

	{"RecordsPerSecond", "", ",RecordsPerSecond=300", "publishes every Function; changes Settings"},
	{"ImportsPerSecond", "", ",ImportsPerSecond=300", "publishes every Function; changes Settings"},
	{"RequestsPerSecond", "", ",RequestsPerSecond=300", "publishes every Function; changes Settings"},
	{"ClientIpv6Prefix", "", ",ClientIpv6Prefix=56", "publishes every Function; changes Settings"},
	{"EventReadShards", "", ",EventReadShards=4", "publishes every Function; changes Settings"},
	{"EventShards", ",EventReadShards=4", ",EventReadShards=4,EventShards=4", "publishes every Function; changes Settings"},
	{"ClientIpHeader", "", ",ClientIpHeader=X-Client", "publishes every Function; changes Settings"},
	{"FailureMode", "", ",FailureMode=open", "publishes every Function; changes Settings"},
	{"AuthMode", "", ",AuthMode=none", "publishes every Function; changes Settings"},
	{"CorsOrigins", "", ",CorsOrigins=https://app.example.com", "changes Api"},
	{"ApiRateLimit", "", ",ApiRateLimit=500", "changes ApiApiGatewayDefaultStage"},
	{"ApiBurstLimit", "", ",ApiBurstLimit=100", "changes ApiApiGatewayDefaultStage"},
	{"DomainName", "", withDomain, "adds Certificate, Domain, DomainMapping; changes Api"},
	{"DomainName to another", withDomain, ",DomainName=api.example.org", "replaces Certificate, Domain, DomainMapping"},
	{"HostedZoneId", withDomain, withDomain + ",HostedZoneId=Z1", "adds DomainRecords; replaces Certificate; changes Domain"},
	{"CloudFrontCertificateArn, OriginSecret, OriginSecretLabel", withDomain, withEdge + ",OriginSecretLabel=a", "publishes every Function; adds Distribution, OriginRequestPolicy; changes Settings"},
	{"CloudFrontCertificateArn removed", withEdge, withDomain, "publishes every Function; changes Settings; removes Distribution, OriginRequestPolicy"},
	{"WebAclArn", withEdge, withEdge + ",WebAclArn=arn:aws:wafv2:us-east-1:123456789012:global/webacl/a/1", "changes Distribution"},
	{"OriginSecret, OriginSecretLabel", withEdge, strings.Replace(withEdge, oldSecret, oldSecret+",the-second-secret", 1) + ",OriginSecretLabel=2", "publishes every Function; changes Distribution, Settings"},
	{"OriginSecret", withEdge, strings.Replace(withEdge, oldSecret, "the-second-secret", 1), "leaves stale every Function; changes Distribution"},
	{"OriginSecretLabel", "", ",OriginSecretLabel=2", "publishes every Function; changes Settings"},
	{"Architecture", "", ",Architecture=x86_64", "leaves stale every Function"},
	{"Architecture with a build", "", "@code,Architecture=x86_64", "publishes every Function"},
	{"DeploymentPreference", "", ",DeploymentPreference=AllAtOnce", "changes every DeploymentGroup"},
	{"DeletionProtection", "", ",DeletionProtection=false", "changes every Table"},
	{"MaxReadUnits", "", ",MaxReadUnits=50000", "changes every Table"},
	{"MaxWriteUnits", "", ",MaxWriteUnits=50000", "changes every Table"},
	{"EventRetentionDays", "", ",EventRetentionDays=30", "publishes every Function; changes Settings"},
	{"ExportJobsPerWorkspace", "", ",ExportJobsPerWorkspace=5", "publishes every Function; changes Settings"},
	{"ExportFileDays", "", ",ExportFileDays=5", "publishes every Function; changes ExportFilesBucket, Settings"},
	{"ExportWorkerConcurrency", "", ",ExportWorkerConcurrency=5", "changes ExportWorkerFunction"},
	{"PermissionsBoundaryArn", "", ",PermissionsBoundaryArn=" + boundary, "changes every Role"},
	{"KmsKeyArn", "", ",KmsKeyArn=arn:aws:kms:us-east-1:123456789012:key/1", "publishes every Function; changes every Table but CountersTable, AccessLogs, AlarmTopic, ErasureDeadLetterQueue, ExportDeadLetterQueue, ExportFilesBucket, FunctionLogs, Settings"},
	{"Tracing", "", ",Tracing=Active", "publishes every Function; changes every Role but DeploymentRole, Settings"},
	{"LogRetentionDays", "", ",LogRetentionDays=30", "changes AccessLogs, FunctionLogs"},
	{"AlarmEmail", "", ",AlarmEmail=ops@example.com", "adds AlarmEmailSubscription"},
	{"MonthlyBudget", ",AlarmEmail=ops@example.com", ",AlarmEmail=ops@example.com,MonthlyBudget=100", "adds Budget"},
	{"Alarms", "", ",Alarms=all", "adds several Alarms; changes Dashboard"},
	{"Metrics", "", ",Metrics=none", "publishes every Function; changes Settings"},
	{"AlarmServerErrorPercent", "", ",AlarmServerErrorPercent=5", "changes ServerErrorsAlarm"},
	{"AlarmLatencyMilliseconds", "", ",AlarmLatencyMilliseconds=5", "changes LatencyAlarm"},
	{"AlarmGatewayRefusalsPerMinute", "", ",AlarmGatewayRefusalsPerMinute=5", "changes GatewayRefusalsAlarm"},
	{"AlarmRefusalsPerMinute", ",Alarms=all", ",Alarms=all,AlarmRefusalsPerMinute=5", "changes RefusalsAlarm"},
	{"AlarmWriteUnitsPerHour", ",Alarms=all", ",Alarms=all,AlarmWriteUnitsPerHour=5", "changes WriteUnitsAlarm"},
	{"AlarmReadUnitsPerHour", ",Alarms=all", ",Alarms=all,AlarmReadUnitsPerHour=5", "changes ReadUnitsAlarm"},
	{"AlarmJobSeconds", "", ",AlarmJobSeconds=600", "changes OldestJobAlarm"},
}

const (
	oldSecret  = "the-first-secret"
	withDomain = ",DomainName=api.example.com"
	withEdge   = withDomain + ",CloudFrontCertificateArn=arn:aws:acm:us-east-1:123456789012:certificate/1,OriginSecret=" + oldSecret
)

// Every parameter can be changed, alone or as the documentation says, and no update replaces or
// removes a resource that holds records.
func TestUpdates(t *testing.T) {
	t.Parallel()
	var doc struct{ Parameters map[string]any }
	if err := yaml.Unmarshal(sluice.Template, &doc); err != nil {
		t.Fatal(err)
	}
	var arguments []string
	for _, u := range updates {
		arguments = append(arguments, "prod"+u.old, "prod"+u.new)
		for name := range strings.FieldsSeq(u.name) {
			delete(doc.Parameters, strings.TrimSuffix(name, ","))
		}
	}
	for name := range doc.Parameters {
		t.Errorf("no update changes the parameter %s", name)
	}
	rendered := render(t, arguments...)
	for _, u := range updates {
		old, new := rendered["prod"+u.old], rendered["prod"+u.new]
		for _, reason := range append(old.Refused, new.Refused...) {
			t.Fatalf("%s: the rules refuse the parameters: %s", u.name, reason)
		}
		o := outcomeOf(t, old.Resolved.Resources, new.Resolved.Resources)
		got := fmt.Sprint(o)
		t.Logf("%-57s %s", u.name, got)
		if got != u.want {
			t.Errorf("%s: %s, want: %s", u.name, got, u.want)
		}
		for _, id := range slices.Concat(o.replaced, o.removed) {
			if strings.HasSuffix(id, "Table") || strings.HasPrefix(id, "ExportFilesBucket") {
				t.Errorf("%s replaces or removes %s", u.name, id)
			}
		}
	}
}
