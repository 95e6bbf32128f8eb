package client_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"sluice/pkg/api"
	"sluice/pkg/client"
	"sluice/pkg/job"
)

const fileOf = "0123456789"

// exporting is a service with one export job. Each function in serve responds to one request
// for the file; the last function also responds to all later requests.
type exporting struct {
	t        *testing.T
	job      string // JSON; %d stands for the link number
	serve    []roundTrip
	links    int
	requests []string // link number and Range header of each request for the file
}

const succeeded = `{"id":"j","status":"succeeded","records_written":1,"size_bytes":10,"download_url":"http://files/j?signature=hidden%d"}`

func (e *exporting) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.URL.Host == "service" {
		e.links++
		return respond(200, strings.Replace(e.job, "%d", fmt.Sprint(e.links), 1)), nil
	}
	if r.Header.Get("Authorization") != "" || r.Header.Get("Accept-Encoding") != "identity" {
		e.t.Errorf("the request for the link has the headers %v", r.Header)
	}
	e.requests = append(e.requests, strings.TrimSpace(strings.TrimPrefix(r.URL.RawQuery, "signature=hidden")+" "+r.Header.Get("Range")))
	return e.serve[min(len(e.requests), len(e.serve))-1](r)
}

// ranged responds with at most n bytes from the beginning of the requested range.
func ranged(n int) roundTrip {
	return func(r *http.Request) (*http.Response, error) {
		from := 0
		fmt.Sscanf(r.Header.Get("Range"), "bytes=%d-", &from) //nolint:errcheck // without a Range header, it stays 0
		text := fileOf[from:]
		body := cutOff{strings.NewReader(text[:min(n, len(text))])}
		if from == 0 {
			return &http.Response{StatusCode: 200, Header: make(http.Header), Body: body}, nil
		}
		return &http.Response{StatusCode: 206, Header: http.Header{"Content-Range": {fmt.Sprintf("bytes %d-9/10", from)}}, Body: body}, nil
	}
}

func fixed(status int, body string, header ...string) roundTrip {
	return func(*http.Request) (*http.Response, error) { return respond(status, body, header...), nil }
}

// download must run in a synctest bubble.
func download(t *testing.T, e *exporting, offset int64, w io.Writer) (int64, error) {
	t.Helper()
	e.t = t
	if e.job == "" {
		e.job = succeeded
	}
	c, err := client.New("http://service", client.Config{Key: "slc_0_secret", Transport: e})
	if err != nil {
		t.Fatal(err)
	}
	return c.DownloadExport(t.Context(), "j", offset, w)
}

// Each continuation uses a new link.
func TestAnInterruptedDownloadContinues(t *testing.T) {
	t.Parallel()
	hung := func(r *http.Request) (*http.Response, error) {
		resp, _ := ranged(10)(r)
		resp.Body = struct {
			io.Reader
			io.Closer
		}{io.MultiReader(strings.NewReader(fileOf[:2]), hangingBody{r.Context()}), resp.Body}
		return resp, nil
	}
	for name, tt := range map[string]struct {
		serve    []roundTrip
		offset   int64
		requests string
	}{
		"from the end":             {nil, 10, "[]"},
		"the server stops sending": {[]roundTrip{hung, ranged(10)}, 0, "[1 2 bytes=2-]"},
		"more bytes than the job":  {[]roundTrip{fixed(200, fileOf+"x")}, 0, "[1]"},
	} {
		synctest.Test(t, func(t *testing.T) {
			e := &exporting{serve: tt.serve}
			got := bytes.NewBufferString(fileOf[:tt.offset])
			n, err := download(t, e, tt.offset, got)
			if err != nil || n != 10-tt.offset || got.String() != fileOf || fmt.Sprint(e.requests) != tt.requests {
				t.Errorf("%s: %d bytes, %q, error %v, requests %v; want requests %s", name, n, got, err, e.requests, tt.requests)
			}
		})
	}
}

// full is a writer that fails after this many bytes.
type full int

func (f *full) Write(p []byte) (int, error) {
	n := min(len(p), int(*f))
	if *f -= full(n); n < len(p) {
		return n, errors.New("the disk is full")
	}
	return n, nil
}

// The error must not contain the link.
func TestADownloadGivesUp(t *testing.T) {
	t.Parallel()
	room := full(4)
	for name, tt := range map[string]struct {
		job      string
		serve    roundTrip
		offset   int64
		w        io.Writer
		requests int
		written  int64
		says     string
	}{
		"a long wait":      {serve: fixed(503, "", "Retry-After", "3600"), requests: 1, says: "asks to wait 1h"},
		"hangs":            {serve: hang, requests: 4, says: "no data arrived for too long"},
		"unreachable":      {serve: func(*http.Request) (*http.Response, error) { return nil, io.ErrUnexpectedEOF }, requests: client.DefaultMaxTries, says: "the download was interrupted: unexpected EOF"},
		"a short file":     {serve: fixed(200, fileOf[:9]), requests: client.DefaultMaxTries, written: 9, says: "status 416"},
		"a full disk":      {serve: ranged(10), w: &room, requests: 1, written: 4, says: "the disk is full"},
		"before the start": {offset: -1, says: "the file has 10 bytes"},
		"without a link":   {job: `{"id":"j","status":"succeeded","size_bytes":10}`, says: "has no link to a file"},
		"without a size":   {job: `{"id":"j","status":"succeeded","download_url":"http://files/j"}`, says: "has no link to a file"},
		"an invalid link":  {job: `{"id":"j","status":"succeeded","size_bytes":10,"download_url":"::"}`, says: "missing protocol scheme"},
	} {
		synctest.Test(t, func(t *testing.T) {
			e := &exporting{job: tt.job, serve: []roundTrip{tt.serve}}
			if name == "a short file" {
				e.serve = append(e.serve, fixed(416, ""))
			}
			if tt.w == nil {
				tt.w = io.Discard
			}
			start := time.Now()
			n, err := download(t, e, tt.offset, tt.w)
			var failure *client.Error
			if !errors.As(err, &failure) || !strings.Contains(err.Error(), tt.says) || n != tt.written || len(e.requests) != tt.requests {
				t.Errorf("%s: %d bytes in %d requests, error %v; want %d in %d, error %s", name, n, len(e.requests), err, tt.written, tt.requests, tt.says)
			}
			if text := fmt.Sprint(err); strings.Contains(text, "hidden") || strings.Contains(text, "secret") {
				t.Errorf("%s: %s", name, text)
			}
			if elapsed := time.Since(start); elapsed > client.DefaultMaxElapsed {
				t.Errorf("%s: the download took %s", name, elapsed)
			}
		})
	}
}

func TestAwaitingAJobShowsItsStatesAndEndsWithTheContext(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		states := []string{"queued", "running", "failed"}
		asked := 0
		c, err := client.New("http://service", client.Config{Transport: roundTrip(func(*http.Request) (*http.Response, error) {
			asked++
			return respond(200, `{"id":"j","status":"`+states[min(asked, len(states))-1]+`"}`), nil
		})})
		if err != nil {
			t.Fatal(err)
		}
		var seen []job.Status
		j, err := c.AwaitExportJob(t.Context(), "j", func(j api.ExportJob) { seen = append(seen, j.Status) })
		if err != nil || j.Status != job.Failed || fmt.Sprint(seen) != "[queued running failed]" {
			t.Errorf("%+v, %v after %v", j, err, seen)
		}
		states = states[:2]
		ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
		defer cancel()
		if _, err := c.AwaitExportJob(ctx, "j", nil); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("a job that never ends: error %v", err)
		}
	})
}
