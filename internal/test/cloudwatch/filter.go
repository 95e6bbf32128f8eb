package cloudwatch

import (
	"encoding/json"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// Filter is a metric filter that counts log events.
type Filter struct {
	LogGroup string // logical id of the log group
	Metric   Metric
	pattern  ast.Expr
}

// ParseFilter parses the properties of an AWS::Logs::MetricFilter. A reference to another
// resource becomes text, as in ParseAlarm. The filter must count events and have no dimensions.
func ParseFilter(properties map[string]any) (Filter, error) {
	p := reader{properties: properties}
	f := Filter{LogGroup: p.text("LogGroupName")}
	transformations, _ := properties["MetricTransformations"].([]any)
	if len(transformations) != 1 {
		return Filter{}, fmt.Errorf("the filter has %d transformations, want 1", len(transformations))
	}
	t, _ := transformations[0].(map[string]any)
	of := reader{properties: t}
	if of.text("MetricValue") != "1" || t["Dimensions"] != nil {
		return Filter{}, fmt.Errorf("a filter with the transformation %v is not supported", t)
	}
	f.Metric = Metric{Namespace: of.text("MetricNamespace"), Name: of.text("MetricName")}
	var err error
	if f.pattern, err = parsePattern(p.text("FilterPattern")); err != nil {
		return Filter{}, err
	}
	_, err = match(f.pattern, nil) // fails if the pattern is not supported
	return f, err
}

var (
	selector = regexp.MustCompile(`\$\.([\w.]+)`)
	equals   = regexp.MustCompile(`([^<>!=])=([^=])`)
)

// parsePattern parses a filter pattern for JSON events. It converts the pattern to a Go
// expression. For example, { $.a = "b" && $.c.d >= 1 } becomes
// event["a"] == "b" && event["c.d"] >= 1.
func parsePattern(text string) (ast.Expr, error) {
	body, open := strings.CutPrefix(strings.TrimSpace(text), "{")
	body, closed := strings.CutSuffix(body, "}")
	if !open || !closed {
		return nil, fmt.Errorf("the pattern %q is not for JSON", text)
	}
	e, err := parser.ParseExpr(equals.ReplaceAllString(selector.ReplaceAllString(body, `event["$1"]`), "$1==$2"))
	if err != nil {
		return nil, fmt.Errorf("the pattern %q: %w", text, err)
	}
	return e, nil
}

// Matches reports whether the filter counts a log event. It does not count an event
// that is not a JSON object.
func (f Filter) Matches(line string) bool {
	var event map[string]any
	if err := json.Unmarshal([]byte(line), &event); err != nil {
		return false
	}
	ok, _ := match(f.pattern, event) // ParseFilter has checked the pattern
	return ok
}

// match reports whether an event matches a pattern.
func match(e ast.Expr, event map[string]any) (bool, error) {
	switch e := e.(type) {
	case *ast.ParenExpr:
		return match(e.X, event)
	case *ast.BinaryExpr:
		if e.Op != token.LAND && e.Op != token.LOR {
			return compare(e, event)
		}
		x, err := match(e.X, event)
		if err != nil {
			return false, err
		}
		y, err := match(e.Y, event)
		if e.Op == token.LAND {
			return x && y, err
		}
		return x || y, err
	}
	return false, fmt.Errorf("a pattern with %T is not supported", e)
}

// compare reports whether a comparison is true for an event. A comparison of a number with
// text is false.
func compare(e *ast.BinaryExpr, event map[string]any) (bool, error) {
	got := property(e.X, event)
	literal, ok := e.Y.(*ast.BasicLit)
	if !ok {
		return false, fmt.Errorf("a comparison with %T is not supported", e.Y)
	}
	if literal.Kind == token.STRING && e.Op == token.EQL {
		pattern, err := strconv.Unquote(literal.Value)
		if err != nil {
			return false, err
		}
		wildcard := "^" + strings.ReplaceAll(regexp.QuoteMeta(pattern), `\*`, ".*") + "$"
		text, ok := got.(string)
		return ok && regexp.MustCompile(wildcard).MatchString(text), nil
	}
	want, err := strconv.ParseFloat(literal.Value, 64)
	if err != nil {
		return false, fmt.Errorf("a comparison with %s is not supported", literal.Value)
	}
	n, ok := got.(float64)
	result, err := binary(scalar(n), e.Op, scalar(want))
	return ok && result.n != 0, err
}

// property returns the value that a selector selects, or nil if the event has no such
// property.
func property(e ast.Expr, event map[string]any) any {
	index, ok := e.(*ast.IndexExpr)
	if !ok {
		return nil
	}
	literal, _ := index.Index.(*ast.BasicLit)
	path, err := strconv.Unquote(literal.Value)
	if err != nil {
		return nil
	}
	var at any = event
	for name := range strings.SplitSeq(path, ".") {
		members, _ := at.(map[string]any)
		at = members[name]
	}
	return at
}

// Embedded returns the metrics that a log event defines in the embedded metric
// format. The map is empty if the event defines no metrics.
func Embedded(line string) (map[Metric]float64, error) {
	var event map[string]any
	var emf struct {
		AWS struct {
			CloudWatchMetrics []struct {
				Namespace  string
				Dimensions [][]string
				Metrics    []struct{ Name string }
			}
		} `json:"_aws"`
	}
	if json.Unmarshal([]byte(line), &event) != nil || event["_aws"] == nil {
		return nil, nil //nolint:nilerr // the line is not an event in the embedded metric format
	}
	if err := json.Unmarshal([]byte(line), &emf); err != nil {
		return nil, err
	}
	values := make(map[Metric]float64)
	for _, d := range emf.AWS.CloudWatchMetrics {
		for _, names := range d.Dimensions {
			var pairs []string
			for _, name := range names {
				of, ok := event[name].(string)
				if !ok {
					return nil, fmt.Errorf("the dimension %s is %v", name, event[name])
				}
				pairs = append(pairs, name+"="+of)
			}
			slices.Sort(pairs)
			for _, m := range d.Metrics {
				n, ok := event[m.Name].(float64)
				if !ok {
					return nil, fmt.Errorf("the metric %s is %v", m.Name, event[m.Name])
				}
				values[Metric{Namespace: d.Namespace, Name: m.Name, Dimensions: strings.Join(pairs, ",")}] = n
			}
		}
	}
	return values, nil
}
