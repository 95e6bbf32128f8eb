package cloudwatch

// State is the state of an alarm.
type State string

// The states of an alarm.
const (
	OK               State = "OK"
	InAlarm          State = "ALARM"
	InsufficientData State = "INSUFFICIENT_DATA"
)

// Point is the result of one period.
type Point byte

// The results of a period.
const (
	Within    Point = '0' // within the threshold
	Breaching Point = 'X'
	Missing   Point = '-' // the period has no value
)

// The values of TreatMissingData.
const (
	treatMissing      = "missing"
	treatIgnore       = "ignore"
	treatBreaching    = "breaching"
	treatNotBreaching = "notBreaching"
)

// Next returns the next state of an alarm. The parameter current is the previous state. The
// parameter points contains the points of the evaluation range, newest first. The parameters
// evaluated, toAlarm and missing are the properties EvaluationPeriods, DatapointsToAlarm and
// TreatMissingData of the alarm.
//
// Next uses the newest points that have a value, up to EvaluationPeriods points.
// TreatMissingData applies only if fewer than EvaluationPeriods points have a value.
//
// Source: CloudWatch User Guide, "How alarm state is evaluated when data is missing" and
// "Avoiding premature transitions to alarm state".
func Next(points []Point, evaluated, toAlarm int, missing string, current State) State {
	var values []Point // the points that are not missing
	for _, p := range points {
		if p != Missing && len(values) < evaluated {
			values = append(values, p)
		}
	}
	breaching := 0
	for _, p := range values {
		if p == Breaching {
			breaching++
		}
	}
	filled := evaluated - len(values)
	if missing == treatBreaching {
		breaching += filled
	}
	allBreach := len(values) > 0 && breaching == len(values)
	switch {
	case breaching >= toAlarm:
		return InAlarm
	case filled == 0 || missing == treatNotBreaching || missing == treatBreaching:
		return OK
	case len(values) > 0 && !allBreach:
		return OK
	case missing == treatIgnore:
		return current
	case len(values) == 0:
		return InsufficientData
	case oldest(points, Breaching) >= toAlarm:
		return InAlarm
	}
	return current
}

// oldest returns the age of the oldest point of a kind, in periods. The newest point
// has age 1.
func oldest(points []Point, kind Point) (age int) {
	for i, p := range points {
		if p == kind {
			age = i + 1
		}
	}
	return age
}
