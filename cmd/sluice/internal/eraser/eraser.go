// Package eraser implements "sluice erase": it requests an erasure, waits for the job, and finds
// and removes the export files that may still hold what was erased.
package eraser

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"

	"sluice/pkg/api"
	"sluice/pkg/client"
	"sluice/pkg/job"
)

// Result is an erasure that has succeeded. Its JSON is that of the job, with Files.
type Result struct {
	api.ErasureJob
	Files   []api.ExportJob `json:"files"` // may still hold what was erased; nil if the key may not see them
	AnyTime bool            `json:"-"`     // whether Files has all files, because the entity did not exist
}

// Run erases an entity and its events, waits for the job to end, and finds the files that are left.
// It shows its progress on stderr. If ctx is done first, the job continues in the service, and the
// error says so.
func Run(ctx context.Context, c *client.Client, id string, stderr io.Writer) (Result, error) {
	since, err := c.HeldSince(ctx, id)
	mayList := !isForbidden(err)
	if err != nil && mayList {
		return Result{}, causeOr(ctx, err)
	}
	j, err := erase(ctx, c, id, stderr)
	if err != nil || !mayList {
		return Result{ErasureJob: j}, err
	}
	r := Result{ErasureJob: j, AnyTime: since == client.Time{}}
	if r.Files, err = c.LeftFiles(ctx, id, since); err != nil {
		return r, fmt.Errorf("the entity %s and its events are erased, but export files may still hold them, and cannot be listed: %w", id, causeOr(ctx, err))
	}
	if r.Files == nil {
		r.Files = []api.ExportJob{}
	}
	return r, nil
}

func isForbidden(err error) bool {
	e, ok := errors.AsType[*client.Error](err)
	return ok && e.Status == http.StatusForbidden
}

func erase(ctx context.Context, c *client.Client, id string, stderr io.Writer) (api.ErasureJob, error) {
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

// List writes a line for each file of r.
func (r Result) List(w io.Writer) {
	switch {
	case r.Files == nil:
		fmt.Fprintln(w, "Export files may still hold what was erased. The key lacks the scope export, so this command cannot name them.")
		return
	case len(r.Files) == 0:
		fmt.Fprintln(w, "No export file on the service holds what was erased.")
		return
	case r.AnyTime:
		fmt.Fprintf(w, "There was no entity %s, so it is not known since when files may hold an earlier one, or its events. These may:\n", r.ID)
	default:
		fmt.Fprintln(w, "These export files may still hold what was erased:")
	}
	for _, f := range r.Files {
		until := "is being written"
		if f.FileExpiresAt != nil {
			until = "expires " + f.FileExpiresAt.String()
		}
		fmt.Fprintf(w, "  %s  %s, %s  made %s  %s\n", f.ID, f.Resource, f.Format, f.CreatedAt, until)
	}
}

// Ask reports whether the user wants the files to be deleted.
func Ask(in io.Reader, out io.Writer) bool {
	fmt.Fprint(out, "Delete these files? [y/N] ")
	answer, _ := bufio.NewReader(in).ReadString('\n') // no input means no
	answer = strings.ToLower(strings.TrimSpace(answer))
	return answer == "y" || answer == "yes"
}

// Delete deletes the files of r, and cancels the jobs that are still writing one.
func (r Result) Delete(ctx context.Context, c *client.Client) error {
	for i, f := range r.Files {
		var err error
		ended := f.Status.Final()
		if !ended {
			f, err = c.CancelExportJob(ctx, f.ID)
			ended = errors.Is(err, client.ErrConflict) // meanwhile
		}
		if ended {
			f, err = c.DeleteExportJob(ctx, r.Files[i].ID)
		}
		if err != nil {
			return fmt.Errorf("delete the file of export job %s: %w", r.Files[i].ID, causeOr(ctx, err))
		}
		r.Files[i] = f
	}
	return nil
}

// causeOr returns ctx's cause if ctx is done, and err otherwise.
func causeOr(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return err
}
