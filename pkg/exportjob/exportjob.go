// Package exportjob exports all records of one kind to a file, because lists return only small
// pages. It defines what requests do to export jobs, and the work of one run. Package api has the
// JSON that clients see, and package job manages the life of a job.
//
// A file is a single gzip member (RFC 1952), uploaded in parts. A job stores the ETags of its
// parts, their checksum and the cursor of the page that follows them, from which the next run
// continues. So the file has every record exactly once, even if runs fail.
package exportjob

import (
	"time"

	"sluice/pkg/api"
	"sluice/pkg/job"
	"sluice/pkg/record"
)

var Kind = job.Kind{Name: "export", Keep: 180 * 24 * time.Hour, Quota: 10}

// details holds what lists show and what is needed after the job has ended.
type details struct {
	api.ExportOrder
	RecordsWritten  int64        `json:"records_written,omitzero"`
	RecordsExpected *int64       `json:"records_expected,omitzero"`
	SizeBytes       *int64       `json:"size_bytes,omitzero"`
	FileExpiresAt   *record.Time `json:"file_expires_at,omitzero"` // set when the job has succeeded
	FileDeletedAt   *record.Time `json:"file_deleted_at,omitzero"` // when a request deleted the file
	Upload          string       `json:"upload,omitzero"`          // id of the upload in Files; "" before it starts
}

// checkpoint says where the next run continues.
type checkpoint struct {
	Parts   []string      `json:"parts,omitempty"`  // ETags of the upload's parts, in order
	Records int64         `json:"records,omitzero"` // how many records are in the parts
	Sum     checksum      `json:"sum,omitzero"`     // checksum of the parts' uncompressed content
	Cursor  record.Cursor `json:"cursor,omitzero"`  // the parts contain the job's records before this page
	Written bool          `json:"written,omitzero"` // whether the parts contain all of the job's records
	Survey  survey        `json:"survey,omitzero"`  // only for a CSV file
}

// survey is the checkpoint of the search for attribute names, which become columns.
type survey struct {
	Names   []string      `json:"names,omitempty"`  // found so far, in byte order
	Cursor  record.Cursor `json:"cursor,omitzero"`  // of the first page that has not been read
	Records int64         `json:"records,omitzero"` // how many of the job's records have been read so far
	Done    bool          `json:"done,omitzero"`
}
