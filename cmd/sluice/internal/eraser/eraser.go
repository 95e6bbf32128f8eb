// Package eraser implements "sluice erase": it requests an erasure and waits for the job.
package eraser

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"

	"sluice/pkg/api"
	"sluice/pkg/client"
	"sluice/pkg/job"
)

// Run erases an entity and its events, and waits for the job to end. It shows its progress on
// stderr. If ctx is done first, the job continues in the service, and the error says so.
func Run(ctx context.Context, c *client.Client, id string, stderr io.Writer) (api.ErasureJob, error) {
	requested, err := c.EraseEntity(ctx, id)
	if err != nil {
		return api.ErasureJob{}, causeOr(ctx, err)
	}
	fmt.Fprintf(stderr, "The entity %s is deleted. Waiting for the job that erases its events.\n", id)
	var shown int64
	j, err := c.AwaitErasureJob(ctx, requested.ID, func(j api.ErasureJob) {
		if j.EventsErased >= shown+10_000 {
			shown = j.EventsErased
			fmt.Fprintf(stderr, "%d events are erased so far.\n", shown)
		}
	})
	switch {
	case err != nil:
		err, when := causeOr(ctx, err), "the"
		if e, ok := errors.AsType[*client.Error](err); ok && e.Rejected() {
			when = "once the service accepts the request, the"
		}
		return api.ErasureJob{}, fmt.Errorf("%w\nThe erasure continues in the service; %s same command also erases later events and waits for the job", err, when)
	case j.Status == job.Failed:
		reason := "the service gave no reason"
		return j, fmt.Errorf("the erasure of %s failed: %s", id, *cmp.Or(j.Error, &reason))
	}
	return j, nil
}

// causeOr returns ctx's cause if ctx is done, and err otherwise.
func causeOr(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return err
}
