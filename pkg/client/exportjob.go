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

	"sluice/pkg/exportjob"
)

// NewExportJob is an export job to create: a request for a file of records that are
// too many for lists.
type NewExportJob struct {
	ID          string             `json:"id"` // "" for a UUIDv7 of the client
	Resource    exportjob.Resource `json:"resource"`
	Format      exportjob.Format   `json:"format"`
	Filters     exportjob.Filters  `json:"filters"`               // the zero value chooses all records
	CSVFormulas exportjob.Formulas `json:"csv_formulas,omitzero"` // the service's default if it is ""
}

// ExportJobQuery selects export jobs, newest first. Its zero value selects all.
type ExportJobQuery struct {
	Limit  int    // most jobs of a page, 1 to 200; the service's default if it is 0
	Cursor string // where to begin: NextCursor of an earlier page; "" for the first
}

// CreateExportJob creates an export job. If the service has a job of this id with the
// same content, it returns that and false; with other content,
// errors.Is(err, ErrConflict).
func (c *Client) CreateExportJob(ctx context.Context, j NewExportJob) (stored exportjob.Job, created bool, err error) {
	j.ID = cmp.Or(j.ID, newID())
	return create[exportjob.Job](ctx, c, route{"create-export-job", http.MethodPost, general}, "/create_export_job", j)
}

// ListExportJobs returns one page of export jobs, newest first.
func (c *Client) ListExportJobs(ctx context.Context, q ExportJobQuery) (Page[exportjob.Job], error) {
	return getPage[exportjob.Job](ctx, c, route{"list-export-job", http.MethodGet, general}, "/export_job", values("cursor", q.Cursor), q.Limit)
}

// ExportJobs returns an iterator over all export jobs, which gets them page by page. An
// error is the last element.
func (c *Client) ExportJobs(ctx context.Context, q ExportJobQuery) iter.Seq2[exportjob.Job, error] {
	return records(q.Cursor, func(cursor string) (Page[exportjob.Job], error) {
		q.Cursor = cursor
		return c.ListExportJobs(ctx, q)
	})
}

// GetExportJob returns one export job. If none has the id, errors.Is(err, ErrNotFound).
// Only this method returns the DownloadURL of a job that succeeded.
func (c *Client) GetExportJob(ctx context.Context, id string) (exportjob.Job, error) {
	return getOne[exportjob.Job](ctx, c, route{"get-export-job", http.MethodGet, general}, "/export_job/", id)
}

// CancelExportJob cancels an export job. If it has succeeded or failed,
// errors.Is(err, ErrConflict); if it is cancelled already, it stays so.
func (c *Client) CancelExportJob(ctx context.Context, id string) (stored exportjob.Job, err error) {
	_, err = c.post(ctx, route{"cancel-export-job", http.MethodPost, general}, "/cancel_export_job", struct {
		ID string `json:"id"`
	}{id}, &stored)
	return stored, err
}

// AwaitExportJob polls an export job until it succeeded, failed or was cancelled, and
// returns it. It calls seen, if that is not nil, with each state. Only the context
// bounds it.
func (c *Client) AwaitExportJob(ctx context.Context, id string, seen func(exportjob.Job)) (exportjob.Job, error) {
	return await(ctx, c.GetExportJob, id, seen, func(j exportjob.Job) bool { return j.Status.Final() })
}

// How often await asks: soon at first, for short jobs, then rarely.
const (
	minPoll = 100 * time.Millisecond
	maxPoll = 2 * time.Second
)

// await polls a job by get until it is final, and returns it. It calls seen, if that is
// not nil, with each state.
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

// downloadRoute is what errors of downloads name. It is not a route of the service:
// links may lead to another host, which is sent no key.
const downloadRoute = "download"

// DownloadExport writes the file of an export job, which is compressed with gzip, to
// w, from byte offset on. It returns how many bytes it wrote, even if it fails. If
// the error is nil, w has the whole file: as many bytes as the job says. The caller
// must check their content. If the job has no file, or none that long, the error is
// an *Error with a Detail.
//
// A download that breaks off, or that is silent for Config.TryTimeout, continues
// where it stopped, with a new link. It fails with the last error after
// Config.MaxTries tries in a row, or Config.MaxElapsed, without a further byte. An
// error of w ends it at once.
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

// downloadable says why there is no file of j from a byte on.
func downloadable(j exportjob.Job, offset int64) error {
	e := &Error{Route: downloadRoute}
	switch {
	case j.Status != exportjob.Succeeded:
		e.Detail = fmt.Sprintf("the export job is %s, so there is no file", j.Status)
	case j.Error != nil:
		e.Detail = *j.Error
	case j.DownloadURL == nil || j.SizeBytes == nil:
		e.Detail = "the export job names no file"
	case offset < 0 || offset > *j.SizeBytes:
		e.Detail = fmt.Sprintf("the file has %d bytes, so it cannot be read from byte %d on", *j.SizeBytes, offset)
	default:
		return nil
	}
	return e
}

// fetch follows the link of j once, for the bytes from offset on. The first of
// them must come within patience.
func (c *Client) fetch(ctx context.Context, j exportjob.Job, offset int64, w io.Writer, patience time.Duration) (written int64, failure *Error) {
	left := *j.SizeBytes - offset
	if left == 0 {
		return 0, nil
	}
	tryCtx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	silence := time.AfterFunc(patience, func() { cancel(errors.New("nothing came for too long")) })
	defer silence.Stop()
	req, err := http.NewRequestWithContext(tryCtx, http.MethodGet, *j.DownloadURL, nil)
	if err != nil {
		return 0, &Error{Err: err}
	}
	req.Header.Set("User-Agent", c.cfg.UserAgent)
	req.Header.Set("Accept-Encoding", "identity") // the bytes of the file, not what they unpack to
	if offset > 0 {
		req.Header.Set("Range", fmt.Sprintf("bytes=%d-", offset))
	}
	resp, err := c.http.Do(req)
	if err == nil {
		defer resp.Body.Close() //nolint:errcheck // read as far as it is wanted
		if failure := checkFile(resp, offset, *j.SizeBytes); failure != nil {
			return 0, failure
		}
		if resp.StatusCode == http.StatusOK { // the server does not support ranges
			_, err = io.CopyN(io.Discard, resp.Body, offset)
		}
	}
	var unwritable error // of w: no further try can succeed
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
	// Whoever has the link can read the file, so no error shows it.
	if hidden := new(url.Error); errors.As(err, &hidden) {
		err = hidden.Err
	}
	return written, &Error{Err: fmt.Errorf("the file broke off: %w", err), retryable: unwritable == nil}
}

// checkFile returns an error unless resp has a file of that size from offset on, or
// all of it.
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
		e.Detail = fmt.Sprintf("it sent %q, not %q", got, want)
	default:
		text, _ := io.ReadAll(io.LimitReader(resp.Body, 200)) // for people
		e.Detail = fmt.Sprintf("the link gave no file: %q", text)
	}
	return e
}

type writerFunc func(p []byte) (int, error)

func (f writerFunc) Write(p []byte) (int, error) { return f(p) }
