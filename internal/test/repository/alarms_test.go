package repository_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"sluice/internal/test/cloudwatch"
)

// parseAlarms reads the alarms and the metric filters of a rendered template.
func parseAlarms(t *testing.T, r rendered) (alarms map[string]*cloudwatch.Alarm, filters []cloudwatch.Filter) {
	t.Helper()
	alarms = make(map[string]*cloudwatch.Alarm)
	for id, resource := range r.ofType("AWS::CloudWatch::Alarm") {
		a, err := cloudwatch.ParseAlarm(resource.Properties)
		if err != nil {
			t.Errorf("%s: %v", id, err)
		}
		alarms[id] = a
	}
	for id, resource := range r.ofType("AWS::Logs::MetricFilter") {
		f, err := cloudwatch.ParseFilter(resource.Properties)
		if err != nil {
			t.Errorf("%s: %v", id, err)
		}
		filters = append(filters, f)
	}
	if t.Failed() {
		t.FailNow()
	}
	return alarms, filters
}

// Every alarm fires in exactly the scenarios in which it must fire, and recovers when the
// cause ends.
func TestAlarms(t *testing.T) {
	t.Parallel()
	alarms, filters := parseAlarms(t, render(t)["prod"])
	all := scenarios()
	same(t, "template.yaml", slices.Collect(maps.Keys(alarms)), "the test", slices.Collect(maps.Keys(all)))
	for id, a := range alarms {
		fires := func(want bool) bool {
			return slices.ContainsFunc(all[id], func(s scenario) bool { return s.fires == want })
		}
		if !fires(true) || !fires(false) {
			t.Errorf("%s needs a scenario in which it fires, and one in which it does not", id)
		}
		for _, s := range all[id] {
			t.Run(id+"/"+s.name, func(t *testing.T) {
				t.Parallel()
				w := &world{t: t, data: make(cloudwatch.Data), filters: filters}
				s.feed(w)
				until := time.Duration(w.until) * time.Minute
				if w.until == 0 {
					until = w.data.End() + afterwards
				}
				states, err := a.Run(w.data, until)
				if err != nil {
					t.Fatal(err)
				}
				checkStates(t, a, states, s)
			})
		}
	}
}

// checkStates checks that an alarm reported the states that a scenario requires, and that
// it recovered.
func checkStates(t *testing.T, a *cloudwatch.Alarm, states []cloudwatch.State, s scenario) {
	t.Helper()
	fired, before := -1, cloudwatch.InsufficientData
	for minute, state := range states {
		if state != before && state != cloudwatch.OK && a.Reports[state] && fired < 0 {
			fired = minute
		}
		before = state
	}
	if (fired >= 0) != s.fires {
		t.Errorf("fired in minute %d, want it to fire: %v", fired, s.fires)
	}
	if s.fires && (before == cloudwatch.OK) == s.stays {
		t.Errorf("the state is %s at the end, want it to have recovered: %v", before, !s.stays)
	}
}

// An alarm that triggers a rollback watches only metrics of the functions' logs. It
// ignores the responses that API Gateway itself creates, and the access log.
func TestAlarmsThatRollBackWatchTheFunctions(t *testing.T) {
	t.Parallel()
	r := render(t)["prod"]
	_, filters := parseAlarms(t, r)
	for _, f := range filters {
		if f.LogGroup != "FunctionLogs" {
			t.Errorf("%s is counted in %s", f.Metric.Name, f.LogGroup)
		}
	}
	var rollBack []string
	for id, group := range r.ofType("AWS::CodeDeploy::DeploymentGroup") {
		var of []string
		list, _ := valueAt(group.Properties, "AlarmConfiguration", "Alarms").([]any)
		for _, a := range list {
			of = append(of, fmt.Sprint(valueAt(a, "Name", "Ref")))
		}
		if slices.Sort(of); rollBack != nil && !slices.Equal(of, rollBack) {
			t.Errorf("%s rolls back on %v, other groups on %v", id, of, rollBack)
		}
		rollBack = of
	}
	if len(rollBack) == 0 {
		t.Fatal("no alarm rolls a deployment back")
	}
	for _, id := range rollBack {
		text, err := json.Marshal(r.Resolved.Resources[id].Properties)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range regexp.MustCompile(`"Namespace":"([^"]*)"`).FindAllSubmatch(text, -1) {
			if namespace := string(m[1]); namespace != "Sluice" && namespace != "Sluice/sluice-prod" {
				t.Errorf("%s watches a metric of %s", id, namespace)
			}
		}
	}
}

// notInBudget lists the tables and indexes that are not in the budget alarms for write units
// and read units. An alarm can have at most 10 metrics. These tables and indexes are left out,
// because most requests do not use them and no request consumes many of their read or write
// units.
var notInBudget = map[string][]string{
	"Write": {"TableName=ErasureJobsTable", "TableName=KeysTable", "TableName=LimitsTable", "GlobalSecondaryIndexName=by_status,TableName=ExportJobsTable", "GlobalSecondaryIndexName=by_position,TableName=ExportJobsTable"},
	"Read":  {"TableName=ErasureJobsTable", "TableName=ExportJobsTable", "GlobalSecondaryIndexName=by_status,TableName=ExportJobsTable", "GlobalSecondaryIndexName=by_position,TableName=ExportJobsTable"},
}

// Every table and index is in an alarm for throttled calls. The tables and indexes that
// are not in notInBudget are also in the budget alarms.
func TestAlarmsWatchEveryTable(t *testing.T) {
	t.Parallel()
	r := render(t)["prod"]
	budget := make(map[string][]string) // "Read" or "Write" → name and dimensions of each metric
	for _, table := range parse(t) {
		dimensions := []string{"TableName=" + table.LogicalID}
		for _, index := range table.Indexes {
			dimensions = append(dimensions, "GlobalSecondaryIndexName="+string(index.Name)+",TableName="+table.LogicalID)
		}
		var throttled []string
		for _, kind := range []string{"Read", "Write"} {
			for _, d := range dimensions {
				throttled = append(throttled, kind+"ThrottleEvents "+d)
				if !slices.Contains(notInBudget[kind], d) {
					budget[kind] = append(budget[kind], "Consumed"+kind+"CapacityUnits "+d)
				}
			}
		}
		id := strings.TrimSuffix(table.LogicalID, "Table") + "ThrottledAlarm"
		same(t, table.LogicalID, throttled, id, watched(r.Resolved.Resources[id]))
	}
	for kind, metrics := range budget {
		same(t, "the tables", metrics, kind+"UnitsAlarm", watched(r.Resolved.Resources[kind+"UnitsAlarm"]))
	}
}

// watched returns the metrics in the expression of an alarm, each as its name and
// dimensions.
func watched(alarm resource) (all []string) {
	queries, _ := alarm.Properties["Metrics"].([]any)
	var terms []string
	for _, q := range queries {
		expression, _ := valueAt(q, "Expression").(string)
		terms = append(terms, strings.FieldsFunc(expression, func(c rune) bool { return c == ' ' || c == '+' })...)
	}
	for _, q := range queries {
		if !slices.Contains(terms, fmt.Sprint(valueAt(q, "Id"))) {
			continue
		}
		var pairs []string
		list, _ := valueAt(q, "MetricStat", "Metric", "Dimensions").([]any)
		for _, d := range list {
			value := valueAt(d, "Value")
			if reflect.TypeOf(value).Kind() == reflect.Map {
				value = valueAt(value, "Ref")
			}
			pairs = append(pairs, fmt.Sprintf("%v=%v", valueAt(d, "Name"), value))
		}
		slices.Sort(pairs)
		all = append(all, fmt.Sprintf("%v %s", valueAt(q, "MetricStat", "Metric", "MetricName"), strings.Join(pairs, ",")))
	}
	return all
}
