package repository_test

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"

	"sluice/internal/template"
	"sluice/internal/test/cloudwatch"
	"sluice/pkg/httpapi"
)

// published lists the AWS metrics that the template uses, by namespace and dimension names.
// Sources: "Working with metrics for HTTP APIs" (API Gateway), "DynamoDB metrics and
// dimensions", "Types of metrics for Lambda functions", "Available CloudWatch metrics for
// Amazon SQS".
var published = map[string]string{
	"AWS/ApiGateway ApiId":                            "4xx 5xx Count IntegrationLatency Latency",
	"AWS/DynamoDB TableName":                          "ConsumedReadCapacityUnits ConsumedWriteCapacityUnits ReadThrottleEvents WriteThrottleEvents",
	"AWS/DynamoDB GlobalSecondaryIndexName,TableName": "ConsumedReadCapacityUnits ConsumedWriteCapacityUnits ReadThrottleEvents WriteThrottleEvents",
	"AWS/Lambda ":                                     "ConcurrentExecutions Throttles", // of the whole account
	"AWS/Lambda FunctionName":                         "Errors IteratorAge",
	"AWS/SQS QueueName":                               "ApproximateNumberOfMessagesVisible",
}

// typeOf maps each dimension to the type of the resource that it names.
var typeOf = map[string]string{
	"ApiId":        "AWS::ApiGatewayV2::Api",
	"FunctionName": "AWS::Lambda::Function",
	"QueueName":    "AWS::SQS::Queue",
	"TableName":    "AWS::DynamoDB::Table",
}

// checkMetric checks that the code or AWS publishes a metric with exactly these dimensions, and
// that the dimensions name resources of the right types.
func checkMetric(t *testing.T, r rendered, where string, m cloudwatch.Metric) {
	t.Helper()
	if strings.HasPrefix(m.Namespace, "Sluice") {
		if !slices.Contains(ownMetrics(t, r), m) {
			t.Errorf("%s has %v, which nothing measures", where, m)
		}
		return
	}
	var names []string
	dimensions := make(map[string]string)
	for _, pair := range strings.FieldsFunc(m.Dimensions, func(c rune) bool { return c == ',' }) {
		name, value, _ := strings.Cut(pair, "=")
		names = append(names, name)
		dimensions[name] = value
	}
	if !slices.Contains(strings.Fields(published[m.Namespace+" "+strings.Join(names, ",")]), m.Name) {
		t.Errorf("%s has %v, which AWS does not measure", where, m)
	}
	for name, value := range dimensions {
		if name == "GlobalSecondaryIndexName" {
			if !slices.ContainsFunc(parse(t), func(table template.Table) bool {
				return table.LogicalID == dimensions["TableName"] && slices.ContainsFunc(table.GlobalSecondaryIndexes, func(i template.Index) bool { return string(i.IndexName) == value })
			}) {
				t.Errorf("%s has %v, and there is no such index", where, m)
			}
			continue
		}
		id, isName := value, true
		if name == "QueueName" { // !Ref of a queue is its URL, not its name
			id, isName = strings.CutSuffix(value, ".QueueName")
		}
		if want := typeOf[name]; want == "" || !isName || r.Resolved.Resources[id].Type != want {
			t.Errorf("%s has %v, but %s is not the name of a %s", where, m, value, want)
		}
	}
}

// ownMetrics returns the metrics that the functions of a stack publish, as found in the source code,
// and those of the metric filters. TestLogLinesMoveTheMetrics in package functions_test checks that log lines contain
// the metrics with these dimensions.
func ownMetrics(t *testing.T, r rendered) (metrics []cloudwatch.Metric) {
	t.Helper()
	service := "Service=" + r.Stack
	for _, path := range []string{"pkg/httpapi/log.go", "pkg/httpapi/clockfault.go", "functions/internal/jobs/monitor.go"} {
		source := read(t, path)
		if valueAt(r.Resolved.Resources["ListEntityFunction"].Properties, "Environment", "Variables", "METRICS") == "none" { // only failures
			before, rest, _ := strings.Cut(source, "\nfunc decisions(")
			_, after, _ := strings.Cut(rest, "\n}\n")
			source = before + after
		}
		found := regexp.MustCompile(`(?:count\(|metric\.\w+\(|ratelimit\.Rule\w+: +)"(\w+)"`).FindAllStringSubmatch(source, -1)
		if len(found) == 0 {
			t.Fatalf("%s has no metrics, so this test reads the wrong thing", path)
		}
		for _, m := range found {
			metrics = append(metrics, cloudwatch.MetricOf("Sluice", m[1], service))
		}
	}
	for _, f := range cloudwatch.Filters(t, r.Stack) {
		metrics = append(metrics, f.Metric)
	}
	return metrics
}

// checkAlarms checks that every alarm watches metrics that exist, and reports to the topic.
func checkAlarms(t *testing.T, r rendered) {
	t.Helper()
	for id, a := range r.ofType("AWS::CloudWatch::Alarm") {
		metrics, expression := metricsOf(t, id, a)
		for _, m := range metrics {
			checkMetric(t, r, id, m)
			// While data is missing, an alarm on DynamoDB metrics keeps its state, unless its
			// expression has a value for every minute.
			if m.Namespace == "AWS/DynamoDB" && !strings.HasPrefix(expression, "TIME_SERIES(0) + ") {
				t.Errorf("%s would never recover from %s", id, expression)
			}
		}
		p, topic := a.Properties, fmt.Sprint([]any{ref("AlarmTopic")})
		treat := "notBreaching"
		if p["InsufficientDataActions"] != nil {
			treat = "missing"
		}
		if fmt.Sprint(p["AlarmActions"]) != topic || fmt.Sprint(p["OKActions"]) != topic || p["TreatMissingData"] != treat {
			t.Errorf("%s does not report to the topic when it goes off and recovers, or treats missing data as %v, want %s", id, p["TreatMissingData"], treat)
		}
		if p["AlarmDescription"] == nil || p["Threshold"] == nil || p["EvaluationPeriods"] == nil {
			t.Errorf("%s lacks a property: %v", id, p)
		}
	}
}

// GET /usage names the saved query that says who is refused.
func TestTheSavedQueryOfRefusalsHasItsName(t *testing.T) {
	t.Parallel()
	for name, r := range render(t) {
		query := valueAt(r.Resolved.Resources["RefusedQuery"].Properties, "Name")
		service := valueAt(r.Resolved.Resources["UsageFunction"].Properties, "Environment", "Variables", "SERVICE_NAME")
		if want := fmt.Sprint(service) + "/" + httpapi.RefusedQuery; query != want {
			t.Errorf("%s: the query is %v, want %s", name, query, want)
		}
	}
}
