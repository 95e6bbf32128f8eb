package client

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"net/http"
	"net/url"
	"time"

	"sluice/pkg/api"
)

// ExportJobQuery selects export jobs, newest first. Its zero value selects all of them.
type ExportJobQuery struct {
	Limit  int    // per page, 1 to 200; 0 for the service's default, 50
	Cursor string // NextCursor of the previous page; empty for the first page
}

// CreateExportJob creates a job that writes records to a file, for exports that are too large
// for lists. It returns the job as stored. If o has no ID, the client generates a UUIDv7. If a
// job with the same id and content exists, it is returned, and created is false. The error
// matches [ErrConflict] if the id exists with different content.
func (c *Client) CreateExportJob(ctx context.Context, o api.ExportOrder) (stored api.ExportJob, created bool, err error) {
	o.ID = cmp.Or(o.ID, newID())
	return create[api.ExportJob](ctx, c, route{"create-export-job", http.MethodPost, classGeneral}, "/create_export_job", o)
}

// ListExportJobs returns one page of jobs.
func (c *Client) ListExportJobs(ctx context.Context, q ExportJobQuery) (Page[api.ExportJob], error) {
	return getPage[api.ExportJob](ctx, c, route{"list-export-job", http.MethodGet, classGeneral}, "/export_job", values("cursor", q.Cursor), q.Limit)
}

// ExportJobs iterates over the jobs of all pages. It ends after the first error, which it
// yields with a zero job.
func (c *Client) ExportJobs(ctx context.Context, q ExportJobQuery) iter.Seq2[api.ExportJob, error] {
	return records(q.Cursor, func(cursor string) (Page[api.ExportJob], error) {
		q.Cursor = cursor
		return c.ListExportJobs(ctx, q)
	})
}

// GetExportJob returns an export job. If the job has succeeded and its file still exists, the
// job has a DownloadURL, which only GetExportJob and AwaitExportJob return. The error
// matches [ErrNotFound] if there is no job with the id.
func (c *Client) GetExportJob(ctx context.Context, id string) (api.ExportJob, error) {
	return getOne[api.ExportJob](ctx, c, route{"get-export-job", http.MethodGet, classGeneral}, "/export_job/", id)
}

// CancelExportJob cancels an export job and returns it. A job that is already cancelled does
// not change. The error matches [ErrConflict] if the job has succeeded or failed, and
// [ErrNotFound] if there is no job with the id.
func (c *Client) CancelExportJob(ctx context.Context, id string) (stored api.ExportJob, err error) {
	_, err = c.post(ctx, route{"cancel-export-job", http.MethodPost, classGeneral}, "/cancel_export_job", struct {
		ID string `json:"id"`
	}{id}, &stored)
	return stored, err
}

// DeleteExportJob deletes the file of an export job that has succeeded, and returns the job. A job
// without a file does not change. The error matches [ErrConflict] if the job is queued or running,
// and [ErrNotFound] if there is no job with the id.
func (c *Client) DeleteExportJob(ctx context.Context, id string) (stored api.ExportJob, err error) {
	_, err = c.post(ctx, route{"delete-export-job", http.MethodPost, classGeneral}, "/delete_export_job", struct {
		ID string `json:"id"`
	}{id}, &stored)
	return stored, err
}

// AwaitExportJob polls an export job until it has succeeded, failed or been cancelled. If seen
// is not nil, it is called with the result of each poll. AwaitExportJob fails if a poll fails.
// Only the context limits how long it waits.
func (c *Client) AwaitExportJob(ctx context.Context, id string, seen func(api.ExportJob)) (api.ExportJob, error) {
	return await(ctx, c.GetExportJob, id, seen, func(j api.ExportJob) bool { return j.Status.Final() })
}

// The first and the longest interval between polls. Many jobs end soon, so the first is short.
const (
	minPoll = 100 * time.Millisecond
	maxPoll = 2 * time.Second
)

// await calls get until the job is final, and calls seen, if not nil, with each result.
func await[J any](ctx context.Context, get func(context.Context, string) (J, error), id string, seen func(J), final func(J) bool) (J, error) {
	for wait := minPoll; ; wait = min(2*wait, maxPoll) {
		j, err := get(ctx, id)
		if err != nil {
			var none J
			return none, err
		}
		if seen != nil {
			seen(j)
		}
		if final(j) {
			return j, nil
		}
		sleep(ctx, wait)
	}
}

// downloadRoute is the Error.Route of a failed download. The DownloadURL is not a route of the
// API and may lead to another host, so the request carries no API key.
const downloadRoute = "download"

// DownloadExport writes an export job's file to w, starting at offset. The file is compressed
// with gzip. DownloadExport returns how many bytes it wrote, even if there is an error. After a
// success, w has received everything from offset to the job's SizeBytes, but the caller must check
// the content. If the job has no file, or offset is outside the file, the error is an *Error
// with a Detail.
//
// After an interruption, or if no data arrives for Config.TryTimeout, DownloadExport continues
// at the same byte with a new link. It gives up and returns the last error if no further byte
// arrives in Config.MaxTries tries in a row or within Config.MaxElapsed. It returns an error from
// w immediately.
func (c *Client) DownloadExport(ctx context.Context, id string, offset int64, w io.Writer) (written int64, err error) {
	tries := retries{cfg: c.cfg, deadline: time.Now().Add(c.cfg.MaxElapsed)}
	for {
		j, err := c.GetExportJob(ctx, id)
		if err != nil {
			return written, err
		}
		if err := downloadable(j, offset+written); err != nil {
			return written, err
		}
		n, failure := c.fetch(ctx, j, offset+written, w, min(c.cfg.TryTimeout, time.Until(tries.deadline)))
		written += n
		if failure == nil {
			return written, nil
		}
		if n > 0 {
			tries.count, tries.deadline = 0, time.Now().Add(c.cfg.MaxElapsed)
		}
		tries.count++
		failure.Route, failure.Tries = downloadRoute, tries.count
		wait, again := tries.next(ctx, failure)
		if !again || !sleep(ctx, wait) {
			return written, failure.ended(ctx)
		}
	}
}

// downloadable returns an error if j has no file that can be read from offset.
func downloadable(j api.ExportJob, offset int64) error {
	e := &Error{Route: downloadRoute}
	switch {
	case j.Status != api.JobSucceeded:
		e.Detail = fmt.Sprintf("the export job is %s, so there is no file", j.Status)
	case j.Error != nil:
		e.Detail = *j.Error
	case j.FileDeletedAt != nil:
		e.Detail = fmt.Sprintf("the file was deleted at %s", j.FileDeletedAt)
	case j.DownloadURL == nil || j.SizeBytes == nil:
		e.Detail = "the export job has no link to a file"
	case offset < 0 || offset > *j.SizeBytes:
		e.Detail = fmt.Sprintf("the file has %d bytes, so it cannot be read from byte %d", *j.SizeBytes, offset)
	default:
		return nil
	}
	return e
}

// fetch makes one request for the file of j and writes the file to w, starting at offset.
// patience is how long fetch waits for the first byte.
func (c *Client) fetch(ctx context.Context, j api.ExportJob, offset int64, w io.Writer, patience time.Duration) (written int64, failure *Error) {
	left := *j.SizeBytes - offset
	if left == 0 {
		return 0, nil
	}
	tryCtx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	silence := time.AfterFunc(patience, func() { cancel(errors.New("no data arrived for too long")) })
	defer silence.Stop()
	req, err := http.NewRequestWithContext(tryCtx, http.MethodGet, *j.DownloadURL, nil)
	if err != nil {
		return 0, &Error{Err: err}
	}
	req.Header.Set("User-Agent", c.cfg.UserAgent)
	req.Header.Set("Accept-Encoding", "identity") // keeps net/http from decompressing the file
	if offset > 0 {
		req.Header.Set("Range", fmt.Sprintf("bytes=%d-", offset))
	}
	resp, err := c.http.Do(req)
	status := 0
	if err == nil {
		status = resp.StatusCode
		defer resp.Body.Close() //nolint:errcheck // what is needed has been read
		if failure := checkFile(resp, offset, *j.SizeBytes); failure != nil {
			return 0, failure
		}
		if resp.StatusCode == http.StatusOK { // the server does not support ranges
			_, err = io.CopyN(io.Discard, resp.Body, offset)
		}
	}
	var unwritable error // an error from w, after which no other try can succeed
	if err == nil {
		written, err = io.CopyN(writerFunc(func(p []byte) (n int, err error) {
			silence.Reset(c.cfg.TryTimeout)
			n, unwritable = w.Write(p)
			return n, unwritable
		}), resp.Body, left)
	}
	switch {
	case err == nil:
		return written, nil
	case tryCtx.Err() != nil:
		err = context.Cause(tryCtx)
	case err == io.EOF:
		err = io.ErrUnexpectedEOF
	}
	// The link gives access to the file, so errors must not contain it.
	if hidden := new(url.Error); errors.As(err, &hidden) {
		err = hidden.Err
	}
	return written, &Error{Status: status, Err: fmt.Errorf("the download was interrupted: %w", err), retryable: unwritable == nil}
}

// checkFile fails unless resp has the whole file, or the part that starts at offset.
func checkFile(resp *http.Response, offset, size int64) *Error {
	e := &Error{Status: resp.StatusCode, RetryAfter: retryAfter(resp.Header, time.Now()), retryable: true}
	switch resp.StatusCode {
	case http.StatusOK:
		return nil
	case http.StatusPartialContent:
		got, want := resp.Header.Get("Content-Range"), fmt.Sprintf("bytes %d-%d/%d", offset, size-1, size)
		if got == want {
			return nil
		}
		e.Detail = fmt.Sprintf("the server sent the range %q instead of %q", got, want)
	default:
		text, _ := io.ReadAll(io.LimitReader(resp.Body, 200)) // only for the error message
		e.Detail = fmt.Sprintf("the link returned no file: %q", text)
	}
	return e
}

type writerFunc func(p []byte) (int, error)

func (f writerFunc) Write(p []byte) (int, error) { return f(p) }
