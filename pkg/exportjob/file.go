package exportjob

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"path"
	"strings"
	"time"

	"sluice/pkg/api"
	"sluice/pkg/job"
	"sluice/pkg/record"
)

// File is the file of a job and the upload that creates it.
type File struct {
	Key    string   // unique across workspaces; always two path segments, even if the workspace's name contains slashes or dots
	Name   string   // name under which a browser saves the file; chosen by the client, or a default such as entities-2026-11-22.ndjson.gz with the UTC date of the job's creation
	Upload string   // id of the upload; "" before it starts
	Parts  []string // ETags of the parts, in order
	Size   int64    // total size of the parts in bytes
}

// NewFile returns a job's file, without an upload.
func NewFile(j job.Job, o api.ExportOrder) File {
	return File{
		Key:  strings.ReplaceAll(url.PathEscape(j.Workspace), ".", "%2E") + fmt.Sprintf("/%s-%s.%s.gz", o.Resource, j.ID, o.Format),
		Name: fmt.Sprintf("%s-%s.%s.gz", o.Resource.Plural(), j.CreatedAt.Time().Format(time.DateOnly), o.Format),
	}
}

// Unpacked returns the media type of the file that a browser saves. If f.Name does not end with
// .gz, unpacked is true: the browser should decompress the file before saving it.
func (f File) Unpacked() (mediaType string, unpacked bool) {
	switch path.Ext(f.Name) {
	case ".csv":
		return "text/csv; charset=utf-8", true
	case ".ndjson":
		return "application/x-ndjson", true
	}
	return "application/gzip", false
}

// checkFileName returns an error if a client may not choose this name for the file.
func checkFileName(o api.ExportOrder, name string) error {
	if record.CheckID(name) == nil && strings.HasSuffix(strings.TrimSuffix(name, ".gz"), "."+string(o.Format)) {
		return nil
	}
	return fmt.Errorf("must be 1 to 128 of the characters A-Z a-z 0-9 . _ : - and end with .%s.gz, or with .%[1]s for a file that the browser decompresses", o.Format)
}

func fileOf(j job.Job, d details, parts []string) File {
	f := NewFile(j, d.ExportOrder)
	f.Upload, f.Parts = d.Upload, parts
	if d.SizeBytes != nil {
		f.Size = *d.SizeBytes
	}
	return f
}

// Files stores export files, which are uploaded in parts. It is safe for concurrent use.
//
// Put and Complete return ErrUpload if the upload no longer exists or its parts differ from
// File.Parts. The file must then be uploaded again from the beginning.
type Files interface {
	// Start starts an upload and returns its id.
	Start(ctx context.Context, f File) (upload string, err error)

	// Put uploads part number n, counted from 1, and replaces any earlier part with that number.
	// The ETag identifies the content.
	Put(ctx context.Context, f File, n int, part []byte) (etag string, err error)

	// Complete atomically creates the file from its parts. It may be repeated.
	Complete(ctx context.Context, f File) error

	// Abort removes the upload, if it exists, and its parts. It may be repeated.
	Abort(ctx context.Context, f File) error

	Deleter
}

// Deleter deletes export files.
type Deleter interface {
	// Delete removes the file if it exists. It may be repeated.
	Delete(ctx context.Context, f File) error
}

// ErrUpload means that an upload no longer exists or that its parts differ from File.Parts.
var ErrUpload = errors.New("the upload does not exist or has other parts than the job")

type Links interface {
	// Link returns a URL from which anybody can download the file for a limited time. A URL that
	// begins with '/' is a path on this server. The error may be ErrNoFile; links to S3 are not tried.
	Link(ctx context.Context, f File) (string, error)
}

// Downloads opens the files of links that lead to this server.
type Downloads interface {
	// Open returns the file and the headers that describe it. It returns ErrLink if the link has
	// expired or was not created by the same store, and a *record.Error with code NotFound if the
	// file has expired.
	Open(link *url.URL) (*os.File, http.Header, error)
}

// ErrNoFile means that the file does not exist.
var ErrNoFile = errors.New("the export file does not exist")

// ErrLink means that a link cannot be used.
var ErrLink = errors.New("the link has expired, or was not created by this server since it started; get the export job again for a new link")
