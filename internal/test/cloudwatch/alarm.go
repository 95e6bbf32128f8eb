package cloudwatch

import (
	"cmp"
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Quotas of CloudWatch alarms.
const (
	mostMetrics    = 10 // maximum number of metrics of a metric math alarm
	mostEvaluation = 24 * time.Hour
)

// extraPoints is the number of additional periods that CloudWatch reads, in case some
// periods have no data. The User Guide gives no rule. In its examples, CloudWatch reads 5
// periods to evaluate 3.
const extraPoints = 2

// Alarm is a metric alarm.
type Alarm struct {
	metrics    []input
	expression ast.Expr // nil for an alarm on a single metric
	period     time.Duration
	comparison string
	threshold  float64
	evaluated  int    // EvaluationPeriods
	toAlarm    int    // DatapointsToAlarm
	missing    string // TreatMissingData; treatIgnore if a metric is in the namespace AWS/DynamoDB

	// Reports contains the states for which the alarm has actions.
	Reports map[State]bool
}

// input is a metric of an alarm.
type input struct {
	id     string
	metric Metric
	stat   string
}

// ParseAlarm parses the properties of an AWS::CloudWatch::Alarm. Parameters and conditions
// must be resolved. A reference to another resource becomes text: {"Ref": "CountersTable"}
// becomes CountersTable, and {"Fn::GetAtt": ["Queue", "Name"]} becomes Queue.Name.
func ParseAlarm(properties map[string]any) (*Alarm, error) {
	p := reader{properties: properties}
	a := &Alarm{
		comparison: p.text("ComparisonOperator"),
		threshold:  p.number("Threshold"),
		evaluated:  int(p.number("EvaluationPeriods")),
		missing:    cmp.Or(p.text("TreatMissingData"), treatMissing),
		Reports:    make(map[State]bool),
	}
	a.toAlarm = a.evaluated
	if properties["DatapointsToAlarm"] != nil {
		a.toAlarm = int(p.number("DatapointsToAlarm"))
	}
	for name, state := range map[string]State{"AlarmActions": InAlarm, "OKActions": OK, "InsufficientDataActions": InsufficientData} {
		actions, _ := properties[name].([]any)
		a.Reports[state] = len(actions) > 0
	}
	if properties["Metrics"] == nil {
		a.period = time.Duration(p.number("Period")) * time.Second
		a.metrics = []input{{id: "metric", metric: p.metric(), stat: p.text("Statistic")}}
	} else {
		a.parseMetrics(&p)
	}
	for _, unsupported := range []string{"ExtendedStatistic", "EvaluateLowSampleCountPercentile", "ThresholdMetricId"} {
		if properties[unsupported] != nil {
			p.fail("%s is not supported", unsupported)
		}
	}
	a.check(&p)
	if slices.ContainsFunc(a.metrics, func(in input) bool { return in.metric.Namespace == "AWS/DynamoDB" }) {
		// Source: CloudWatch User Guide, "Alarms that evaluate metrics in the AWS/DynamoDB
		// namespace always ignore missing data even if you choose a different option."
		a.missing = treatIgnore
	}
	return a, errors.Join(p.errs...)
}

// parseMetrics parses the metrics and the expression of a metric math alarm.
func (a *Alarm) parseMetrics(p *reader) {
	queries, _ := p.properties["Metrics"].([]any)
	for _, q := range queries {
		query, _ := q.(map[string]any)
		of := reader{properties: query}
		if returned := query["ReturnData"] != false; returned {
			e, err := parser.ParseExpr(of.text("Expression"))
			if err != nil || a.expression != nil {
				p.fail("exactly one query must return data, with a valid expression; found %q: %v", of.text("Expression"), err)
			}
			a.expression = e
			continue
		}
		stat, _ := query["MetricStat"].(map[string]any)
		of = reader{properties: stat}
		metric, _ := stat["Metric"].(map[string]any)
		in := input{id: fmt.Sprint(query["Id"]), stat: of.text("Stat"), metric: (&reader{properties: metric}).metric()}
		period := time.Duration(of.number("Period")) * time.Second
		if a.period != 0 && a.period != period {
			p.fail("the metrics have different periods")
		}
		a.period = period
		a.metrics = append(a.metrics, in)
		p.errs = append(p.errs, of.errs...)
	}
	if a.expression == nil {
		p.fail("no query returns data")
	}
}

// check reports properties that CloudWatch would reject or that this package does not
// support.
func (a *Alarm) check(p *reader) {
	if len(a.metrics) == 0 || len(a.metrics) > mostMetrics {
		p.fail("the alarm has %d metrics, want 1 to %d", len(a.metrics), mostMetrics)
	}
	if a.period < time.Minute || a.period%time.Minute != 0 {
		p.fail("the period %v is not a whole number of minutes", a.period)
	}
	if a.evaluated < 1 || a.toAlarm < 1 || a.toAlarm > a.evaluated || time.Duration(a.evaluated)*a.period > mostEvaluation {
		p.fail("%d of %d periods of %v cannot be evaluated", a.toAlarm, a.evaluated, a.period)
	}
	if !slices.Contains([]string{treatMissing, treatIgnore, treatBreaching, treatNotBreaching}, a.missing) {
		p.fail("TreatMissingData is %q", a.missing)
	}
	if _, err := a.breaches(0); err != nil {
		p.errs = append(p.errs, err)
	}
	for _, in := range a.metrics {
		if err := checkStatistic(in.stat); err != nil {
			p.errs = append(p.errs, err)
		}
	}
	if len(p.errs) == 0 {
		if _, err := a.point(nil, 0, 0); err != nil {
			p.errs = append(p.errs, err)
		}
	}
}

// breaches reports whether a value breaches the threshold.
func (a *Alarm) breaches(n float64) (bool, error) {
	switch a.comparison {
	case "GreaterThanThreshold":
		return n > a.threshold, nil
	case "GreaterThanOrEqualToThreshold":
		return n >= a.threshold, nil
	}
	return false, fmt.Errorf("the comparison %q is not supported", a.comparison)
}

// point returns the result of one period. The parameter end is the end of the period, and the
// parameter now is the current time. Data that arrives after the current time is ignored.
func (a *Alarm) point(d Data, end, now time.Duration) (Point, error) {
	points := make(map[string]value)
	for _, in := range a.metrics {
		n, ok := d.statistic(in.metric, in.stat, end-a.period, end, now)
		points[in.id] = value{n: n, series: true, missing: !ok}
	}
	v := points[a.metrics[0].id]
	if a.expression != nil {
		var err error
		if v, err = evalMath(a.expression, points); err != nil {
			return Missing, err
		}
	}
	if v.missing {
		return Missing, nil
	}
	if breaching, err := a.breaches(v.n); breaching || err != nil {
		return Breaching, err
	}
	return Within, nil
}

// Run evaluates the alarm at the end of each minute until the given time, as
// CloudWatch does. It returns the state at the end of each minute. A new alarm starts
// in the state INSUFFICIENT_DATA.
func (a *Alarm) Run(d Data, until time.Duration) (states []State, err error) {
	state := InsufficientData
	for now := time.Minute; now <= until; now += time.Minute {
		points := make([]Point, a.evaluated+extraPoints)
		for i := range points {
			if points[i], err = a.point(d, now-time.Duration(i)*a.period, now); err != nil {
				return nil, err
			}
		}
		state = Next(points, a.evaluated, a.toAlarm, a.missing, state)
		states = append(states, state)
	}
	return states, nil
}

// reader reads properties and collects errors.
type reader struct {
	properties map[string]any
	errs       []error
}

func (r *reader) fail(format string, args ...any) {
	r.errs = append(r.errs, fmt.Errorf(format, args...))
}

// text returns a property as text, or "" if it is missing.
func (r *reader) text(name string) string { return text(r.properties[name]) }

func text(v any) string {
	switch v := v.(type) {
	case nil:
		return ""
	case map[string]any:
		if ref, ok := v["Ref"].(string); ok {
			return ref
		}
		if path, ok := v["Fn::GetAtt"].([]any); ok {
			var names []string
			for _, name := range path {
				names = append(names, fmt.Sprint(name))
			}
			return strings.Join(names, ".")
		}
	}
	return fmt.Sprint(v)
}

func (r *reader) number(name string) float64 {
	n, err := strconv.ParseFloat(r.text(name), 64)
	if err != nil {
		r.fail("%s is %q, not a number", name, r.text(name))
	}
	return n
}

func (r *reader) metric() Metric {
	m := Metric{Namespace: r.text("Namespace"), Name: r.text("MetricName")}
	var pairs []string
	list, _ := r.properties["Dimensions"].([]any)
	for _, d := range list {
		dimension, _ := d.(map[string]any)
		pairs = append(pairs, text(dimension["Name"])+"="+text(dimension["Value"]))
	}
	slices.Sort(pairs)
	m.Dimensions = strings.Join(pairs, ",")
	return m
}
