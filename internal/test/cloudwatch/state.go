package cloudwatch

// State is the state of an alarm.
type State string

// The states.
const (
	OK               State = "OK"
	InAlarm          State = "ALARM"
	InsufficientData State = "INSUFFICIENT_DATA"
)

// Point is what a period contributes to the state of an alarm.
type Point byte

// The points.
const (
	Within    Point = '0' // within the threshold
	Breaching Point = 'X'
	Missing   Point = '-' // there is no value
)

// The values of an alarm's TreatMissingData.
const (
	treatMissing      = "missing"
	treatIgnore       = "ignore"
	treatBreaching    = "breaching"
	treatNotBreaching = "notBreaching"
)

// Next returns the state that follows current. points are those of the
// evaluation range, the newest first; evaluated is EvaluationPeriods and toAlarm
// DatapointsToAlarm.
//
// As many of the newest points as are evaluated decide, not counting missing ones
// while older ones can take their place. TreatMissingData decides only for those
// that then are still missing.
//
// Source: CloudWatch User Guide, "How alarm state is evaluated when data is
// missing" and "Avoiding premature transitions to alarm state".
func Next(points []Point, evaluated, toAlarm int, missing string, current State) State {
	var values []Point // that are not missing
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

// oldest returns how old the oldest point of a kind is: 1 for the newest.
func oldest(points []Point, kind Point) (age int) {
	for i, p := range points {
		if p == kind {
			age = i + 1
		}
	}
	return age
}
