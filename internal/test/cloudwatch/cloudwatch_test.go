package cloudwatch_test

import (
	"maps"
	"strings"
	"testing"
	"time"

	"sluice/internal/test/cloudwatch"
)

var (
	errorsMetric = cloudwatch.Metric{Namespace: "Test", Name: "Errors", Dimensions: "Service=s"}
	countMetric  = cloudwatch.Metric{Namespace: "Test", Name: "Count", Dimensions: "Service=s"}
)

// alarm returns a metric math alarm on the metrics Errors (e) and Count (c), with the
// given changes.
func alarm(expression string, changes map[string]any) map[string]any {
	query := func(id string, m cloudwatch.Metric) any {
		return map[string]any{"Id": id, "ReturnData": false, "MetricStat": map[string]any{
			"Period": 60.0, "Stat": "Sum", "Metric": map[string]any{
				"Namespace": m.Namespace, "MetricName": m.Name, "Dimensions": []any{map[string]any{"Name": "Service", "Value": map[string]any{"Ref": "s"}}}},
		}}
	}
	properties := map[string]any{
		"Metrics":            []any{map[string]any{"Id": "result", "Expression": expression}, query("e", errorsMetric), query("c", countMetric)},
		"ComparisonOperator": "GreaterThanThreshold", "Threshold": "1", "EvaluationPeriods": 1.0, "TreatMissingData": "missing",
	}
	maps.Copy(properties, changes)
	return properties
}

// Each expression is evaluated in three separate minutes: one with errors and requests, one
// with only requests, and one without data.
func TestMath(t *testing.T) {
	t.Parallel()
	const ok, inAlarm, none = cloudwatch.OK, cloudwatch.InAlarm, cloudwatch.InsufficientData
	for expression, want := range map[string][3]cloudwatch.State{
		"e":                             {inAlarm, none, none},
		"e + c":                         {inAlarm, inAlarm, none},
		"c - e":                         {inAlarm, inAlarm, none},
		"e - c":                         {ok, ok, none},
		"100 * e / c":                   {inAlarm, ok, none},
		"e / (c - 10)":                  {none, none, none},
		"TIME_SERIES(0) + e":            {inAlarm, ok, ok},
		"TIME_SERIES(2)":                {inAlarm, inAlarm, inAlarm},
		"IF(e >= 5, 2, 0)":              {inAlarm, none, none},
		"IF(c >= 5, e, 0)":              {inAlarm, ok, none},
		"IF(c > 10, 2, TIME_SERIES(0))": {ok, ok, none},
	} {
		a, err := cloudwatch.ParseAlarm(alarm(expression, nil))
		if err != nil {
			t.Errorf("%s: %v", expression, err)
			continue
		}
		for minute, state := range want {
			// If a minute has no data, an alarm uses earlier data. To prevent this, the test
			// gives the alarm only the data of this minute.
			d := make(cloudwatch.Data)
			if minute == 0 {
				d.Add(errorsMetric, cloudwatch.Datum{Value: 1, Count: 5})
			}
			if minute < 2 {
				d.Add(countMetric, cloudwatch.Datum{Value: 10, Count: 1})
			}
			states, err := a.Run(d, time.Minute)
			if err != nil || states[0] != state {
				t.Errorf("%s, minute %d: %v, error %v, want %s", expression, minute, states, err, state)
			}
		}
	}
}

func TestParseAlarmRefuses(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		properties map[string]any
		want       string
	}{
		"an unknown metric":        {alarm("x", nil), `no metric "x"`},
		"an unknown function":      {alarm("FILL(e, 0)", nil), "not supported"},
		"a broken expression":      {alarm("e +", nil), "expression"},
		"more than a day":          {alarm("e", map[string]any{"EvaluationPeriods": 1441.0}), "cannot be evaluated"},
		"more points than periods": {alarm("e", map[string]any{"DatapointsToAlarm": 2.0}), "cannot be evaluated"},
		"an unknown treatment":     {alarm("e", map[string]any{"TreatMissingData": "maybe"}), "TreatMissingData"},
		"an unknown comparison":    {alarm("e", map[string]any{"ComparisonOperator": "LessThanThreshold"}), "comparison"},
		"no threshold":             {alarm("e", map[string]any{"Threshold": nil}), "Threshold"},
		"no metrics":               {alarm("e", map[string]any{"Metrics": []any{}}), "0 metrics"},
		"a low sample rule":        {alarm("e", map[string]any{"EvaluateLowSampleCountPercentile": "ignore"}), "not supported"},
	} {
		if _, err := cloudwatch.ParseAlarm(c.properties); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: error %v, want %q", name, err, c.want)
		}
	}
}

// A value belongs to the period of its timestamp, but an alarm sees the value only after it
// has arrived. If the alarm no longer evaluates that period by then, the value has no effect.
func TestRunSeesWhatHasArrived(t *testing.T) {
	t.Parallel()
	a, err := cloudwatch.ParseAlarm(map[string]any{
		"Namespace": "Test", "MetricName": "Errors", "Statistic": "Sum", "Period": 60.0, "EvaluationPeriods": 1.0,
		"ComparisonOperator": "GreaterThanOrEqualToThreshold", "Threshold": 1.0, "TreatMissingData": "notBreaching",
	})
	if err != nil {
		t.Fatal(err)
	}
	m := cloudwatch.Metric{Namespace: "Test", Name: "Errors"}
	for _, c := range []struct {
		arrives time.Duration
		fires   bool
	}{{0, true}, {time.Minute, true}, {10 * time.Minute, false}} {
		d := make(cloudwatch.Data)
		d.Add(m, cloudwatch.Datum{At: 90 * time.Second, Arrives: 90*time.Second + c.arrives, Value: 1, Count: 1})
		states, err := a.Run(d, 20*time.Minute)
		if err != nil {
			t.Fatal(err)
		}
		fired := false
		for _, s := range states {
			fired = fired || s == cloudwatch.InAlarm
		}
		if fired != c.fires || states[len(states)-1] != cloudwatch.OK {
			t.Errorf("a value that is %v late: %v", c.arrives, states)
		}
	}
}

// An alarm on DynamoDB metrics keeps its state while data is missing.
func TestDynamoDBAlarmsIgnoreMissingData(t *testing.T) {
	t.Parallel()
	a, err := cloudwatch.ParseAlarm(map[string]any{
		"Namespace": "AWS/DynamoDB", "MetricName": "ReadThrottleEvents", "Statistic": "Sum", "Period": 60.0, "EvaluationPeriods": 1.0,
		"ComparisonOperator": "GreaterThanThreshold", "Threshold": 0.0, "TreatMissingData": "notBreaching",
	})
	if err != nil {
		t.Fatal(err)
	}
	d := make(cloudwatch.Data)
	d.Add(cloudwatch.Metric{Namespace: "AWS/DynamoDB", Name: "ReadThrottleEvents"}, cloudwatch.Datum{Value: 1, Count: 1})
	states, err := a.Run(d, time.Hour)
	if err != nil || states[len(states)-1] != cloudwatch.InAlarm {
		t.Errorf("after an hour without data: %v, error %v", states[len(states)-1], err)
	}
}

func TestStatistics(t *testing.T) {
	t.Parallel()
	d := make(cloudwatch.Data)
	d.Add(errorsMetric, cloudwatch.Datum{Value: 1, Count: 98})
	d.Add(errorsMetric, cloudwatch.Datum{Value: 7, Count: 1})
	d.Add(errorsMetric, cloudwatch.Datum{Value: 3, Count: 1})
	for stat, want := range map[string]float64{"Sum": 108, "Minimum": 1, "Maximum": 7, "p98": 1, "p99": 3, "p99.9": 7, "p100": 7} {
		for _, c := range []struct {
			threshold float64
			state     cloudwatch.State
		}{{want, cloudwatch.InAlarm}, {want + 0.01, cloudwatch.OK}} {
			a, err := cloudwatch.ParseAlarm(map[string]any{
				"Namespace": "Test", "MetricName": "Errors", "Statistic": stat, "Period": 60.0, "EvaluationPeriods": 1.0,
				"Dimensions":         []any{map[string]any{"Name": "Service", "Value": "s"}},
				"ComparisonOperator": "GreaterThanOrEqualToThreshold", "Threshold": c.threshold,
			})
			if err != nil {
				t.Fatal(err)
			}
			if states, err := a.Run(d, time.Minute); err != nil || states[0] != c.state {
				t.Errorf("%s with the threshold %v: %v, error %v, want %s", stat, c.threshold, states, err, c.state)
			}
		}
	}
}
