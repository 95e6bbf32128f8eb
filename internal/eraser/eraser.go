// Package eraser is the work of "sluice erase": it requests an erasure and waits for its
// job.
package eraser

import (
	"cmp"
	"context"
	"fmt"
	"io"

	"sluice/pkg/client"
	"sluice/pkg/erasurejob"
)

// Run erases an entity and its events and waits until that is done. It writes to stderr
// what it waits for. If ctx is done before, the job goes on in the service, and the error
// says so.
func Run(ctx context.Context, c *client.Client, id string, stderr io.Writer) (erasurejob.Job, error) {
	requested, err := c.EraseEntity(ctx, id)
	if err != nil {
		return erasurejob.Job{}, interrupted(ctx, err)
	}
	fmt.Fprintf(stderr, "The entity %s is deleted. Its events are being erased, which takes 11 seconds or more.\n", id)
	var shown int64
	j, err := c.AwaitErasureJob(ctx, requested.ID, func(j erasurejob.Job) {
		if j.EventsErased >= shown+10_000 {
			shown = j.EventsErased
			fmt.Fprintf(stderr, "%d events are erased so far.\n", shown)
		}
	})
	switch {
	case err != nil:
		return erasurejob.Job{}, fmt.Errorf("%w\nThe erasure goes on in the service; the same command extends it and waits for it", interrupted(ctx, err))
	case j.Status == erasurejob.Failed:
		reason := "it gave no reason"
		return j, fmt.Errorf("the erasure of %s failed: %s", id, *cmp.Or(j.Error, &reason))
	}
	return j, nil
}

// interrupted returns the cause of the end of ctx in place of err, if ctx is done.
func interrupted(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return err
}
