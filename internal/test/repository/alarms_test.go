package repository_test

import (
	"fmt"
	"go/constant"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"sluice/internal/test/cloudwatch"
)

// alarm compares an expression with a threshold; its metrics are summed over each minute.
type alarm struct {
	metrics    map[string]cloudwatch.Metric // by id in the expression
	expression string
	comparison string // Go operator, such as >=
	threshold  string
	evaluated  int // how many minutes the alarm looks back
	toAlarm    int // how many of those minutes must breach the threshold to set off the alarm
}

// identifier matches the id of a metric in an expression.
var identifier = regexp.MustCompile(`\b[a-z]\w*`)

// metricsOf returns the metrics of an alarm by id, and the alarm's expression. An alarm on a
// single metric has the expression "metric".
func metricsOf(t *testing.T, id string, r resource) (metrics map[string]cloudwatch.Metric, expression string) {
	t.Helper()
	metrics, expression = make(map[string]cloudwatch.Metric), "metric"
	if r.Properties["Metrics"] == nil {
		metrics["metric"] = metricAt(r.Properties)
	}
	for _, query := range oneOrMore(r.Properties["Metrics"]) {
		if stat := valueAt(query, "MetricStat"); stat != nil {
			metrics[fmt.Sprint(valueAt(query, "Id"))] = metricAt(valueAt(stat, "Metric"))
		} else {
			expression = fmt.Sprint(valueAt(query, "Expression"))
		}
	}
	used := identifier.FindAllString(expression, -1)
	slices.Sort(used)
	same(t, "the expression of "+id, slices.Compact(used), "its metrics", slices.Collect(maps.Keys(metrics)))
	if most := 10; len(metrics) > most {
		t.Errorf("%s has %d metrics, CloudWatch takes at most %d", id, len(metrics), most)
	}
	return metrics, expression
}

// metricAt returns the metric that CloudFormation properties describe. In its dimensions, a Ref
// becomes the logical id of the resource, and a GetAtt becomes Id.Attribute.
func metricAt(properties any) cloudwatch.Metric {
	var pairs []string
	for _, d := range oneOrMore(valueAt(properties, "Dimensions")) {
		value := valueAt(d, "Value")
		if of := valueAt(value, "Ref"); of != nil {
			value = of
		} else if path := valueAt(value, "Fn::GetAtt"); path != nil {
			value = fmt.Sprintf("%v.%v", valueAt(path, 0), valueAt(path, 1))
		}
		pairs = append(pairs, fmt.Sprintf("%v=%v", valueAt(d, "Name"), value))
	}
	return cloudwatch.MetricOf(fmt.Sprint(valueAt(properties, "Namespace")), fmt.Sprint(valueAt(properties, "MetricName")), pairs...)
}

// parseAlarm reads an alarm that rolls a deployment back. Such an alarm must treat missing data
// as not breaching, because a missing sum counts as 0.
func parseAlarm(t *testing.T, id string, r resource) alarm {
	t.Helper()
	p := r.Properties
	number := func(name string) int {
		n, err := strconv.Atoi(fmt.Sprint(p[name]))
		if err != nil {
			t.Errorf("%s: %s is %v", id, name, p[name])
		}
		return n
	}
	a := alarm{threshold: fmt.Sprint(p["Threshold"]), evaluated: number("EvaluationPeriods"), toAlarm: number("DatapointsToAlarm")}
	a.metrics, a.expression = metricsOf(t, id, r)
	a.comparison = map[any]string{"GreaterThanThreshold": ">", "GreaterThanOrEqualToThreshold": ">="}[p["ComparisonOperator"]]
	if a.comparison == "" || p["TreatMissingData"] != "notBreaching" || number("Threshold") < 0 {
		t.Fatalf("%s cannot be evaluated: %v", id, p)
	}
	for _, of := range append(oneOrMore(p["Metrics"]), map[string]any{"MetricStat": map[string]any{"Stat": p["Statistic"], "Period": p["Period"]}}) {
		if stat, _ := valueAt(of, "MetricStat").(map[string]any); stat["Stat"] != nil && (stat["Stat"] != "Sum" || fmt.Sprint(stat["Period"]) != "60") {
			t.Fatalf("%s has a metric that is not the sum of a minute: %v", id, stat)
		}
	}
	return a
}

// conditional matches the IF function of metric math.
var conditional = regexp.MustCompile(`^IF\((.*), (.*), (.*)\)$`)

// breaches reports whether the sums of one minute breach the threshold. Source: CloudWatch User
// Guide, "Using metric math".
func (a alarm) breaches(t *testing.T, sums map[cloudwatch.Metric]float64) bool {
	t.Helper()
	expression := identifier.ReplaceAllStringFunc(a.expression, func(id string) string {
		return strconv.FormatFloat(sums[a.metrics[id]], 'f', 1, 64)
	})
	if m := conditional.FindStringSubmatch(expression); m != nil {
		expression = m[3]
		if constant.BoolVal(cloudwatch.Evaluate(t, m[1])) {
			expression = m[2]
		}
	}
	return constant.BoolVal(cloudwatch.Evaluate(t, expression+a.comparison+a.threshold))
}

// entry is a line that functions log n times in each minute from begin to end-1.
type entry struct {
	begin, end, n int
	line          string
}

// request returns the log line of a request that adds 1 to each metric.
// TestLogLinesMoveTheMetrics in package functions_test checks the lines that the functions log.
func request(status int, metrics ...string) string {
	var values, defined string
	for _, name := range metrics {
		values += fmt.Sprintf(`,"%s":1`, name)
		defined += fmt.Sprintf(`,{"Name":"%s"}`, name)
	}
	return fmt.Sprintf(`{"msg":"request","status":%d,"Service":"sluice-prod"%s,"_aws":{"CloudWatchMetrics":[{"Namespace":"Sluice","Dimensions":[["Service"]],"Metrics":[%s]}]}}`,
		status, values, strings.TrimPrefix(defined, ","))
}

// platform returns a line that Lambda itself logs about an invocation.
func platform(event, status string) string {
	return fmt.Sprintf(`{"type":"platform.%s","record":{"requestId":"r","metrics":{"durationMs":10000.0},"status":"%s"}}`, event, status)
}

// scenario is an excerpt from the functions' log that must, or must not, set off an alarm.
type scenario struct {
	name  string
	fires bool
	log   []entry
}

var rollBackScenarios = map[string][]scenario{
	"ServerErrorsAlarm": {
		{"one request in fifty fails for three minutes", true, []entry{{0, 60, 490, request(200, "Allowed")}, {20, 23, 10, request(500, "Allowed")}}},
		{"all five requests fail, every other minute", true, []entry{{20, 21, 5, request(503)}, {22, 23, 5, request(503)}, {24, 25, 5, request(503)}}},
		{"one request in a hundred fails", false, []entry{{0, 60, 990, request(200, "Allowed")}, {0, 60, 10, request(500, "Allowed")}}},
		{"four failures a minute, with no other requests", false, []entry{{0, 60, 4, request(500, "Allowed")}}},
		{"requests fail for two minutes", false, []entry{{20, 22, 100, request(500, "Allowed")}}},
		{"errors of clients", false, []entry{{0, 60, 100, request(429, "Refused")}, {0, 60, 100, request(404, "Allowed")}}},
	},
	"FunctionFailuresAlarm": {
		{"invocations time out", true, []entry{{20, 30, 3, platform("report", "timeout")}}},
		{"two crashes in five minutes", true, []entry{{20, 21, 1, platform("report", "failure")}, {24, 25, 1, platform("report", "failure")}}},
		{"instances do not start", true, []entry{{20, 22, 1, platform("initReport", "error")}}},
		{"one crash", false, []entry{{20, 21, 1, platform("runtimeDone", "failure")}, {20, 21, 1, platform("report", "failure")}}},
		{"two crashes in six minutes", false, []entry{{20, 21, 1, platform("report", "failure")}, {25, 26, 1, platform("report", "failure")}}},
		{"requests and reports of success", false, []entry{{0, 60, 100, request(500, "Allowed")}, {0, 60, 100, platform("report", "success")}}},
	},
	"ChargeFailuresAlarm": {
		{"the counters cannot be reached", true, []entry{{20, 22, 5, request(503, "ChargeFailures")}}},
		{"the counters cannot be reached, with FailureMode open", true, []entry{{20, 30, 100, request(200, "Allowed", "ChargeFailures", "FailedOpen")}}},
		{"four failures a minute", false, []entry{{0, 60, 4, request(503, "ChargeFailures")}}},
		{"failures for one minute", false, []entry{{20, 21, 100, request(503, "ChargeFailures")}}},
		{"other failures", false, []entry{{0, 60, 100, request(503, "Allowed")}}},
	},
}

// Each alarm goes off only in the scenarios in which it must, and recovers when the cause ends.
// The alarms watch only what the functions log, because a client may be able to cause 5xx
// responses from API Gateway itself, or to write to the access log.
func TestAlarmsThatRollBack(t *testing.T) {
	t.Parallel()
	r := render(t)["prod"]
	filters := cloudwatch.Filters(t, r.Stack)
	for _, f := range filters {
		if f.LogGroup != "FunctionLogs" {
			t.Errorf("%s is counted in %s", f.Metric.Name, f.LogGroup)
		}
	}
	for id, group := range r.ofType("AWS::CodeDeploy::DeploymentGroup") {
		var alarms []string
		for _, a := range oneOrMore(valueAt(group.Properties, "AlarmConfiguration", "Alarms")) {
			alarms = append(alarms, fmt.Sprint(valueAt(a, "Name", "Ref")))
		}
		same(t, id, alarms, "the test", slices.Collect(maps.Keys(rollBackScenarios)))
	}
	for id, scenarios := range rollBackScenarios {
		a := parseAlarm(t, id, r.Resolved.Resources[id])
		for _, m := range a.metrics {
			if m.Namespace != "Sluice" && m.Namespace != "Sluice/"+r.Stack {
				t.Errorf("%s watches %v", id, m)
			}
		}
		for _, s := range scenarios {
			t.Run(id+"/"+s.name, func(t *testing.T) {
				fired, on := a.run(t, filters, s.log)
				if fired != s.fires || on {
					t.Errorf("it fired: %v, want %v; it was on half an hour later: %v", fired, s.fires, on)
				}
			})
		}
	}
}

// run reports whether the alarm was on at the end of any minute of the log, and whether it was
// still on half an hour later.
func (a alarm) run(t *testing.T, filters []cloudwatch.Filter, log []entry) (fired, on bool) {
	t.Helper()
	var minutes []map[cloudwatch.Metric]float64
	for _, e := range log {
		for len(minutes) < e.end+30 {
			minutes = append(minutes, make(map[cloudwatch.Metric]float64))
		}
		for m, value := range cloudwatch.Metrics(t, filters, "FunctionLogs", e.line) {
			for minute := e.begin; minute < e.end; minute++ {
				minutes[minute][m] += value * float64(e.n)
			}
		}
	}
	breaching := make([]bool, len(minutes))
	for i, sums := range minutes {
		breaching[i] = a.breaches(t, sums)
		n := 0
		for _, b := range breaching[max(0, i+1-a.evaluated) : i+1] {
			if b {
				n++
			}
		}
		on = n >= a.toAlarm
		fired = fired || on
	}
	return fired, on
}

// inBudget lists the tables that the budget alarms count, with their indexes except those of
// attributes, each of which takes at most twice the units of its table. No request takes many
// units of another table, and an alarm can have at most 10 metrics.
var inBudget = []string{"CountersTable", "EntitiesTable", "EventsTable"}

// byAttribute is the prefix of a dimension that names the index of an attribute.
const byAttribute = "GlobalSecondaryIndexName=by_attribute_"

// With Alarms=all, every alarm watches something that is published, whatever Metrics is. Exactly one watches the throttled reads of each table and index, and
// exactly one watches the throttled writes. The budget alarms watch the tables in inBudget.
func TestAlarmsWatchEveryTable(t *testing.T) {
	t.Parallel()
	r := render(t, everything)[everything]
	checkAlarms(t, r)
	for metrics, refusals := range map[string]bool{"all": true, "service": true, "none": false} {
		stack := everything + ",Metrics=" + metrics
		r := render(t, stack)[stack]
		checkAlarms(t, r)
		if _, ok := r.Resolved.Resources["RefusalsAlarm"]; ok != refusals {
			t.Errorf("with Metrics=%s, there is a RefusalsAlarm: %v", metrics, ok)
		}
	}
	var meant, throttled []string
	budget := make(map[string][]string) // "Read" or "Write" → name and dimensions of each metric
	for _, table := range parse(t) {
		dimensions := []string{"TableName=" + table.LogicalID}
		for _, index := range table.GlobalSecondaryIndexes {
			dimensions = append(dimensions, "GlobalSecondaryIndexName="+string(index.IndexName)+",TableName="+table.LogicalID)
		}
		for _, kind := range []string{"Read", "Write"} {
			for _, d := range dimensions {
				meant = append(meant, kind+"ThrottleEvents "+d)
				if slices.Contains(inBudget, table.LogicalID) && !strings.Contains(d, byAttribute) {
					budget[kind] = append(budget[kind], "Consumed"+kind+"CapacityUnits "+d)
				}
			}
		}
	}
	for id := range r.ofType("AWS::CloudWatch::Alarm") {
		if strings.HasSuffix(id, "ThrottledAlarm") {
			throttled = append(throttled, watched(t, r, id)...)
		}
	}
	same(t, "the tables", meant, "the alarms for throttled calls", throttled)
	for kind, metrics := range budget {
		same(t, "the tables", metrics, kind+"UnitsAlarm", watched(t, r, kind+"UnitsAlarm"))
	}
}

// By default, an alarm watches for throttled writes to the counters, the records and the
// time-ordered indexes, because walks rely on indexes that are nearly up to date
// (docs/incremental-sync.md). It omits the indexes of attributes: if one is throttled, so is its
// table.
func TestTheDefaultAlarmsNoticeThrottledWrites(t *testing.T) {
	t.Parallel()
	var meant []string
	for _, table := range parse(t) {
		if slices.Contains(inBudget, table.LogicalID) {
			meant = append(meant, "WriteThrottleEvents TableName="+table.LogicalID)
			for _, index := range table.GlobalSecondaryIndexes {
				if d := "GlobalSecondaryIndexName=" + string(index.IndexName); !strings.HasPrefix(d, byAttribute) {
					meant = append(meant, "WriteThrottleEvents "+d+",TableName="+table.LogicalID)
				}
			}
		}
	}
	same(t, "the tables", meant, "WritesThrottledAlarm", watched(t, render(t)["prod"], "WritesThrottledAlarm"))
}

// watched returns the name and dimensions of each metric of an alarm.
func watched(t *testing.T, r rendered, alarm string) (all []string) {
	t.Helper()
	metrics, _ := metricsOf(t, alarm, r.Resolved.Resources[alarm])
	for _, m := range metrics {
		all = append(all, m.Name+" "+m.Dimensions)
	}
	return all
}
