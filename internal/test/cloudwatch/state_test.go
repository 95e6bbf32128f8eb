package cloudwatch_test

import (
	"slices"
	"strings"
	"testing"

	"sluice/internal/test/cloudwatch"
)

// These are the tables of the CloudWatch User Guide, "How alarm state is evaluated
// when data is missing". The newest point is the last one.
func TestNextFollowsTheUserGuide(t *testing.T) {
	t.Parallel()
	const current = cloudwatch.State("current")
	const (
		ok, alarm, insufficient = cloudwatch.OK, cloudwatch.InAlarm, cloudwatch.InsufficientData
		evaluated               = 3
	)
	for _, c := range []struct {
		points                                   string
		toAlarm                                  int
		missing, ignore, breaching, notBreaching cloudwatch.State
	}{
		{"0-X-X", 3, ok, ok, ok, ok},
		{"0----", 3, ok, ok, ok, ok},
		{"-----", 3, insufficient, current, alarm, ok},
		{"0XX-X", 3, alarm, alarm, alarm, alarm},
		{"--X--", 3, alarm, current, alarm, ok},

		{"0-X-X", 2, alarm, alarm, alarm, alarm},
		{"00X0X", 2, alarm, alarm, alarm, alarm},
		{"0-X--", 2, ok, ok, alarm, ok},
		{"----0", 2, ok, ok, alarm, ok},
		{"---X-", 2, alarm, current, alarm, ok},
	} {
		points := []cloudwatch.Point(c.points)
		slices.Reverse(points)
		for treat, want := range map[string]cloudwatch.State{"missing": c.missing, "ignore": c.ignore, "breaching": c.breaching, "notBreaching": c.notBreaching} {
			if got := cloudwatch.Next(points, evaluated, c.toAlarm, treat, current); got != want {
				t.Errorf("%s, %d of %d, %s: %s, want %s", strings.Join(strings.Split(c.points, ""), " "), c.toAlarm, evaluated, treat, got, want)
			}
		}
	}
	// "Avoiding premature transitions" requires OK, because the next point may be within the
	// threshold.
	if got := cloudwatch.Next([]cloudwatch.Point("X----"), evaluated, 3, "missing", ok); got != ok {
		t.Errorf("- - - - X: %s, want %s", got, ok)
	}
}
