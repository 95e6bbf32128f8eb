// Package jobstream runs the jobs that arrive on the DynamoDB stream of a jobs table.
package jobstream

import (
	"context"
	"fmt"
	"time"

	"github.com/aws/aws-lambda-go/events"
)

// Margin is the time between the end of a run's context and the function's timeout. In
// this time, the run can finish its current work and save its progress.
const Margin = 30 * time.Second

// Handler returns the Lambda handler of a stream. The handler calls run for the job of each
// record, one job after the other. If a call returns an error, Lambda delivers the records
// again.
func Handler(run func(ctx context.Context, workspace, id string) error) func(context.Context, events.DynamoDBEvent) error {
	return func(ctx context.Context, ev events.DynamoDBEvent) error {
		if deadline, ok := ctx.Deadline(); ok {
			var cancel context.CancelFunc
			ctx, cancel = context.WithDeadline(ctx, deadline.Add(-Margin))
			defer cancel()
		}
		for _, r := range ev.Records {
			keys := r.Change.Keys
			if keys["workspace"].DataType() != events.DataTypeString || keys["id"].DataType() != events.DataTypeString {
				return fmt.Errorf("record %s does not come from a jobs table", r.EventID)
			}
			if err := run(ctx, keys["workspace"].String(), keys["id"].String()); err != nil {
				return err
			}
		}
		return nil
	}
}
