package repository_test

import (
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"

	"sluice/internal/test/cloudwatch"
)

// checkDashboard checks that the dashboard is valid JSON, shows every alarm, shows only metrics
// that exist, and has no overlapping widgets. The widgets of consumed units must show every metric
// of the budget alarms.
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
	cells := make(map[[2]int]bool)
	for _, w := range dashboard.Widgets {
		shown = append(shown, w.Properties.Alarms...)
		for x := range w.Width {
			for y := range w.Height {
				cell := [2]int{w.X + x, w.Y + y}
				if cells[cell] || cell[0] >= 24 {
					t.Errorf("a widget at %d, %d overlaps another or the edge", w.X, w.Y)
				}
				cells[cell] = true
			}
		}
		metrics := expand(w.Properties.Metrics)
		for _, m := range metrics {
			checkMetric(t, r, w.Properties.Title, m)
			plotted[w.Properties.Title] = append(plotted[w.Properties.Title], m.Name+" "+m.Dimensions)
		}
		for _, search := range searchCall.FindAllStringSubmatch(fmt.Sprint(w.Properties.Metrics), -1) {
			if search[1] != "Sluice,Service,Route" || search[2] != r.Stack {
				t.Errorf("%s searches for %s of %s", w.Properties.Title, search[1], search[2])
			}
			checkMetric(t, r, w.Properties.Title, cloudwatch.MetricOf("Sluice", search[3], "Service="+r.Stack))
			metrics = append(metrics, cloudwatch.Metric{})
		}
		if len(metrics) == 0 && w.Type == "metric" {
			t.Errorf("no metric of the widget %q was found, so this test reads the wrong thing", w.Properties.Title)
		}
	}
	same(t, "the stack", alarms, "the dashboard", shown)
	for _, kind := range []string{"Read", "Write"} {
		if r.Resolved.Resources[kind+"UnitsAlarm"].Type == "" {
			continue
		}
		counted := watched(t, r, kind+"UnitsAlarm")
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
}

// searchCall matches an expression that plots a metric for each route.
var searchCall = regexp.MustCompile(`SEARCH\('\{(.*?)\} Service="(.*?)" MetricName="(.*?)"'`)

// expand returns the metrics of a widget. Each is written as an array, in which "." stands for
// the element at the same index of the previous array. "..." repeats the start of the previous
// array, so that both arrays have the same length.
func expand(metrics [][]any) (all []cloudwatch.Metric) {
	var row []string
	for _, m := range metrics {
		var texts []string // the elements except options, such as a statistic
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
			continue // not a metric, because a metric has a namespace, a name and pairs
		}
		var pairs []string
		for pair := range slices.Chunk(row[2:], 2) {
			pairs = append(pairs, pair[0]+"="+strings.Trim(pair[1], "${}"))
		}
		all = append(all, cloudwatch.MetricOf(row[0], row[1], pairs...))
	}
	return all
}
