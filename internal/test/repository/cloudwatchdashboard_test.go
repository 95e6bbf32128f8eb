package repository_test

import (
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// checkDashboard checks that the CloudWatch dashboard is valid JSON, that its widgets do not
// overlap, that it shows every alarm, and that its custom metrics exist. It also checks that the
// widgets for consumed units show every table and index that the budget alarms count.
func checkDashboard(t *testing.T, r rendered) {
	t.Helper()
	body, _ := valueAt(r.Resolved.Resources["Dashboard"].Properties, "DashboardBody", "Fn::Sub").(string)
	var dashboard struct {
		Widgets []struct {
			Type                string
			X, Y, Width, Height int
			Properties          struct {
				Title   string
				Alarms  []string
				Metrics [][]any
				Query   string
			}
		}
	}
	if err := json.Unmarshal([]byte(body), &dashboard); err != nil {
		t.Fatalf("the dashboard is not JSON: %v\n%s", err, body)
	}
	var shown, alarms []string
	plotted := make(map[string][]string) // title → metrics
	for id := range r.ofType("AWS::CloudWatch::Alarm") {
		alarms = append(alarms, "${"+id+".Arn}")
	}
	own := ownMetrics(t, r)
	cells := make(map[[2]int]bool)
	for _, w := range dashboard.Widgets {
		shown = append(shown, w.Properties.Alarms...)
		plotted[w.Properties.Title] = expand(w.Properties.Metrics)
		for x := range w.Width {
			for y := range w.Height {
				cell := [2]int{w.X + x, w.Y + y}
				if cells[cell] || cell[0] >= 24 {
					t.Errorf("a widget at %d, %d overlaps another or the edge", w.X, w.Y)
				}
				cells[cell] = true
			}
		}
		namespace := ""
		for _, m := range w.Properties.Metrics {
			if first, ok := m[0].(string); ok && first != "." && first != "..." {
				namespace = first
			}
			if len(m) > 1 && strings.HasPrefix(namespace, "Sluice") && m[0] != "..." && !slices.Contains(own, fmt.Sprint(m[1])) {
				t.Errorf("the dashboard shows %v, which nothing measures", m[1])
			}
		}
	}
	same(t, "the stack", alarms, "the dashboard", shown)
	for _, kind := range []string{"Read", "Write"} {
		counted := watched(r.Resolved.Resources[kind+"UnitsAlarm"])
		if len(counted) == 0 {
			t.Errorf("%sUnitsAlarm counts no metric, so this test reads the wrong thing", kind)
		}
		title := kind + " units a minute"
		for _, metric := range counted {
			if !slices.Contains(plotted[title], metric) {
				t.Errorf("the widget %q does not show %s, which %sUnitsAlarm counts", title, metric, kind)
			}
		}
	}
	for id, alarm := range r.ofType("AWS::CloudWatch::Alarm") {
		text, err := json.Marshal(alarm.Properties)
		if err != nil {
			t.Fatal(err)
		}
		if strings.HasPrefix(fmt.Sprint(alarm.Properties["Namespace"]), "Sluice") && !slices.Contains(own, fmt.Sprint(alarm.Properties["MetricName"])) {
			t.Errorf("%s watches a metric that nothing measures: %s", id, text)
		}
	}
}

// expand returns the metrics of a widget in the form that watched returns. Each metric is an
// array. In it, "." stands for the element at the same index of the previous array. "..." stands
// for the first elements of the previous array. Their number is such that both arrays are
// equally long.
func expand(metrics [][]any) (all []string) {
	var row []string
	for _, m := range metrics {
		var texts []string // m without options, such as a statistic
		for _, element := range m {
			if text, ok := element.(string); ok {
				texts = append(texts, text)
			}
		}
		before := row
		row = nil
		for _, text := range texts {
			switch {
			case text == "...":
				row = append(row, before[:max(0, len(before)-len(texts)+1)]...)
			case text == "." && len(row) < len(before):
				row = append(row, before[len(row)])
			default:
				row = append(row, text)
			}
		}
		if len(row) < 2 || len(row)%2 != 0 {
			continue // the row does not consist of a namespace, a name and pairs
		}
		var pairs []string
		for pair := range slices.Chunk(row[2:], 2) {
			pairs = append(pairs, pair[0]+"="+strings.Trim(pair[1], "${}"))
		}
		slices.Sort(pairs)
		all = append(all, row[1]+" "+strings.Join(pairs, ","))
	}
	return all
}

// ownMetrics returns the names of the custom metrics. It finds the metrics of the functions'
// log lines in the source code, and the metrics of the metric filters in the template.
func ownMetrics(t *testing.T, r rendered) (names []string) {
	t.Helper()
	for _, m := range regexp.MustCompile(`count\("(\w+)"|add\("(\w+)"|ratelimit\.Policy\w+: +"(\w+)"`).FindAllStringSubmatch(read(t, "pkg/httpapi/log.go"), -1) {
		names = append(names, m[1]+m[2]+m[3])
	}
	monitor := read(t, "functions/internal/exportmonitor/exportmonitor.go")
	names = append(names, regexp.MustCompile(`metric = "(\w+)"`).FindStringSubmatch(monitor)[1])
	if len(names) < 8 {
		t.Fatalf("log.go has only the metrics %v, so this test reads the wrong thing", names)
	}
	for _, filter := range r.ofType("AWS::Logs::MetricFilter") {
		names = append(names, fmt.Sprint(valueAt(filter.Properties, "MetricTransformations", 0, "MetricName")))
	}
	return names
}
