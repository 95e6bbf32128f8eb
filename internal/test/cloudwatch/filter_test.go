package cloudwatch_test

import (
	"maps"
	"testing"

	"sluice/internal/test/cloudwatch"
)

func filter(pattern string) map[string]any {
	return map[string]any{
		"LogGroupName": map[string]any{"Ref": "Logs"}, "FilterPattern": pattern,
		"MetricTransformations": []any{map[string]any{"MetricNamespace": "Test", "MetricName": "Matches", "MetricValue": "1"}},
	}
}

func TestFilter(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		pattern, line string
		want          bool
	}{
		{`{ $.msg = "request" }`, `{"msg":"request"}`, true},
		{`{ $.msg = "request" }`, `{"msg":"requests"}`, false},
		{`{ $.msg = "request" }`, `{"other":"request"}`, false},
		{`{ $.msg = "request" }`, `msg=request`, false},
		{`{ $.msg = "request" }`, `"request"`, false},
		{`{ $.status >= 500 }`, `{"status":500}`, true},
		{`{ $.status >= 500 }`, `{"status":499}`, false},
		{`{ $.status >= 500 }`, `{"status":"500"}`, false},
		{`{ $.status >= 500 }`, `{}`, false},
		{`{ $.reason = "*" }`, `{"reason":"any \" text"}`, true},
		{`{ $.reason = "*" }`, `{"reason":1}`, false},
		{`{ $.type = "platform.*" && ($.record.status = "error" || $.record.status = "timeout") }`, `{"type":"platform.report","record":{"status":"timeout"}}`, true},
		{`{ $.type = "platform.*" && ($.record.status = "error" || $.record.status = "timeout") }`, `{"type":"platform.report","record":{"status":"success"}}`, false},
		{`{ $.type = "platform.*" && ($.record.status = "error" || $.record.status = "timeout") }`, `{"type":"platform.start","record":"error"}`, false},
		{`{ $.type = "platform.*" && ($.record.status = "error" || $.record.status = "timeout") }`, `{"type":"x","record":{"status":"error"}}`, false},
	} {
		f, err := cloudwatch.ParseFilter(filter(c.pattern))
		if err != nil {
			t.Errorf("%s: %v", c.pattern, err)
			continue
		}
		if f.LogGroup != "Logs" || f.Metric != (cloudwatch.Metric{Namespace: "Test", Name: "Matches"}) {
			t.Errorf("the filter is %+v", f)
		}
		if got := f.Matches(c.line); got != c.want {
			t.Errorf("%s matches %s: %v, want %v", c.pattern, c.line, got, c.want)
		}
	}
}

func TestParseFilterRefuses(t *testing.T) {
	t.Parallel()
	for _, pattern := range []string{"ERROR", "{ $.a IS NULL }", `{ $.a > "text" }`, `{ $.a }`, `{ $.a = $.b }`, ""} {
		if f, err := cloudwatch.ParseFilter(filter(pattern)); err == nil {
			t.Errorf("%q is %+v, want an error", pattern, f)
		}
	}
	summed := filter("{ $.a = 1 }")
	summed["MetricTransformations"].([]any)[0].(map[string]any)["MetricValue"] = "$.a"
	if _, err := cloudwatch.ParseFilter(summed); err == nil {
		t.Error("a filter that sums is not refused")
	}
}

func TestEmbedded(t *testing.T) {
	t.Parallel()
	got, err := cloudwatch.Embedded(`{"Service":"s","Route":"r","Allowed":1,"_aws":{"Timestamp":1,"CloudWatchMetrics":[
		{"Namespace":"Sluice","Dimensions":[["Service"],["Service","Route"]],"Metrics":[{"Name":"Allowed","Unit":"Count"}]}]}}`)
	want := map[cloudwatch.Metric]float64{
		{Namespace: "Sluice", Name: "Allowed", Dimensions: "Service=s"}:         1,
		{Namespace: "Sluice", Name: "Allowed", Dimensions: "Route=r,Service=s"}: 1,
	}
	if err != nil || !maps.Equal(got, want) {
		t.Errorf("got %v, error %v, want %v", got, err, want)
	}
	for _, line := range []string{"text", "{}", `{"a":1}`} {
		if got, err := cloudwatch.Embedded(line); len(got) > 0 || err != nil {
			t.Errorf("%s has %v, error %v", line, got, err)
		}
	}
	if _, err := cloudwatch.Embedded(`{"_aws":{"CloudWatchMetrics":[{"Namespace":"Sluice","Dimensions":[["Service"]],"Metrics":[]}]}}`); err == nil {
		t.Error("no error for a dimension without a value")
	}
}
