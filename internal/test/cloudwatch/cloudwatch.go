// Package cloudwatch finds the metrics that a log line changes through the metric filters of
// template.yaml or the embedded metric format. It supports only the filter syntax that the
// template uses, and fails the test for any other syntax.
package cloudwatch

import (
	"encoding/json"
	"fmt"
	"go/constant"
	"go/token"
	"go/types"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"

	"sluice"
)

type Metric struct {
	Namespace, Name string
	Dimensions      string // Name=Value pairs, sorted and separated by commas
}

// MetricOf takes the dimensions as Name=Value pairs, in any order.
func MetricOf(namespace, name string, pairs ...string) Metric {
	slices.Sort(pairs)
	return Metric{Namespace: namespace, Name: name, Dimensions: strings.Join(pairs, ",")}
}

// Filter adds 1 to its metric for each matching line.
type Filter struct {
	LogGroup string // logical id
	Metric   Metric
	pattern  string
}

func Filters(t testing.TB, stack string) (filters []Filter) {
	t.Helper()
	var doc struct {
		Resources map[string]struct {
			Type       string    `yaml:"Type"`
			Properties yaml.Node `yaml:"Properties"`
		} `yaml:"Resources"`
	}
	if err := yaml.Unmarshal(sluice.Template, &doc); err != nil {
		t.Fatal(err)
	}
	for id, r := range doc.Resources {
		if r.Type != "AWS::Logs::MetricFilter" {
			continue
		}
		var p struct {
			LogGroup   string           `yaml:"LogGroupName"`
			Pattern    string           `yaml:"FilterPattern"`
			Transforms []map[string]any `yaml:"MetricTransformations"`
		}
		if err := r.Properties.Decode(&p); err != nil {
			t.Fatalf("%s: %v", id, err)
		}
		if len(p.Transforms) != 1 || p.Transforms[0]["MetricValue"] != "1" || p.Transforms[0]["Dimensions"] != nil {
			t.Fatalf("%s does not count lines: %v", id, p.Transforms)
		}
		namespace := strings.ReplaceAll(fmt.Sprint(p.Transforms[0]["MetricNamespace"]), "${AWS::StackName}", stack)
		filters = append(filters, Filter{p.LogGroup, MetricOf(namespace, fmt.Sprint(p.Transforms[0]["MetricName"])), p.Pattern})
	}
	return filters
}

// Metrics returns the metrics that a log line changes, and how much the line adds to each.
func Metrics(t testing.TB, filters []Filter, logGroup, line string) map[Metric]float64 {
	t.Helper()
	var event map[string]any
	if json.Unmarshal([]byte(line), &event) != nil {
		return nil // not a JSON object, so CloudWatch finds no metric in it
	}
	values := embedded(t, line, event)
	for _, f := range filters {
		if f.LogGroup == logGroup && f.matches(t, event) {
			values[f.Metric]++
		}
	}
	return values
}

// comparison matches a comparison in a pattern, such as $.record.status = "error".
var comparison = regexp.MustCompile(`\$\.([\w.]+) (=|>=|<) ("[^"]*"|\d+)`)

// matches replaces each comparison in the pattern with its result and evaluates the pattern as
// a Go expression. Source: CloudWatch Logs User Guide, "Filter pattern syntax".
func (f Filter) matches(t testing.TB, event map[string]any) bool {
	t.Helper()
	results := comparison.ReplaceAllStringFunc(f.pattern, func(text string) string {
		m := comparison.FindStringSubmatch(text)
		return strconv.FormatBool(holds(event, m[1], m[2], m[3]))
	})
	body, ok := strings.CutPrefix(strings.TrimSuffix(results, "}"), "{")
	value := Evaluate(t, body)
	if !ok || value.Kind() != constant.Bool {
		t.Fatalf("the pattern %s is not supported", f.pattern)
	}
	return constant.BoolVal(value)
}

// holds reports whether the member at a path satisfies a comparison with a number or a quoted
// string, in which * stands for any text. A member of any other type satisfies no comparison.
func holds(event map[string]any, path, operator, operand string) bool {
	var at any = event
	for name := range strings.SplitSeq(path, ".") {
		members, _ := at.(map[string]any)
		at = members[name]
	}
	if text, err := strconv.Unquote(operand); err == nil {
		got, ok := at.(string)
		wildcard := "^" + strings.ReplaceAll(regexp.QuoteMeta(text), `\*`, ".*") + "$"
		return ok && operator == "=" && regexp.MustCompile(wildcard).MatchString(got)
	}
	got, ok := at.(float64)
	want, err := strconv.ParseFloat(operand, 64)
	if !ok || err != nil {
		return false
	}
	switch operator {
	case "<":
		return got < want
	case ">=":
		return got >= want
	}
	return got == want
}

// Evaluate returns the value of a constant Go expression.
func Evaluate(t testing.TB, expression string) constant.Value {
	t.Helper()
	v, err := types.Eval(token.NewFileSet(), nil, token.NoPos, expression)
	if err != nil || v.Value == nil {
		t.Fatalf("%s cannot be evaluated: %v", expression, err)
	}
	return v.Value
}

// embedded returns the metrics of a line in the embedded metric format. Source: CloudWatch
// User Guide, "Specification: Embedded metric format".
func embedded(t testing.TB, line string, event map[string]any) map[Metric]float64 {
	t.Helper()
	var emf struct {
		AWS struct {
			CloudWatchMetrics []struct {
				Namespace  string
				Dimensions [][]string
				Metrics    []struct{ Name string }
			}
		} `json:"_aws"`
	}
	if err := json.Unmarshal([]byte(line), &emf); err != nil {
		t.Fatalf("%v\n%s", err, line)
	}
	values := make(map[Metric]float64)
	for _, d := range emf.AWS.CloudWatchMetrics {
		for _, names := range d.Dimensions {
			var pairs []string
			for _, name := range names {
				value, ok := event[name].(string)
				if !ok {
					t.Fatalf("the dimension %s is %v\n%s", name, event[name], line)
				}
				pairs = append(pairs, name+"="+value)
			}
			for _, m := range d.Metrics {
				value, ok := event[m.Name].(float64)
				if !ok {
					t.Fatalf("the metric %s is %v\n%s", m.Name, event[m.Name], line)
				}
				values[MetricOf(d.Namespace, m.Name, pairs...)] = value
			}
		}
	}
	return values
}
