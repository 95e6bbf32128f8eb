// Package exporter exports records from a service to a file. Run creates an export job, waits
// for it, and downloads and verifies its file. RunSince reads changes without an export job.
package exporter

import (
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"time"

	"sluice/cmd/sluice/internal/journal"
	"sluice/cmd/sluice/internal/progress"
	"sluice/pkg/api"
	"sluice/pkg/client"
	"sluice/pkg/importfile"
	"sluice/pkg/job"
	"sluice/pkg/record"
)

// cancelTimeout limits how long Run tries to cancel a job after an interrupt.
const cancelTimeout = 5 * time.Second

type Options struct {
	Order  api.ExportOrder // Run sets the ID
	Path   string          // output file, which appears only when it is complete; "-" for Stdout
	Force  bool            // replace an existing file at Path
	Stdout io.Writer
	Unpack bool // decompress the file

	Now     func() time.Time // clock for RunSince; time.Now by default
	Waiting func() string    // what the client is waiting for; "" while the service is responding
}

// work identifies an export in its journal.
type work struct {
	Order          api.ExportOrder `json:"order"`
	Since          *record.Time    `json:"since,omitempty"` // start time for RunSince; nil for Run
	IncludeDeleted bool            `json:"include_deleted,omitempty"`
}

func newTask(ctx context.Context, c *client.Client, w work) (journal.Task, error) {
	source, err := c.Source(ctx)
	return journal.Task{Command: "export", Source: source, Work: w, Remedy: "name another file"}, err
}

type exporter struct {
	Options
	client  *client.Client
	journal *journal.Journal // its ID is also the ID of the export job
	resumed bool             // whether an earlier run began the journal
	created bool             // whether the service may have created the job
	part    string           // path of the partial download
	stderr  io.Writer
}

// Run exports to a file or to o.Stdout, and returns the export job. The file appears at o.Path
// only when it is complete and verified. Until then, the partial download and a journal with
// the job's id are in other files in the same directory. After an error, another call with the
// same options continues the export. An export to o.Stdout cannot be continued, so Run cancels
// its job if ctx is done. Run shows its progress on stderr.
func Run(ctx context.Context, o Options, c *client.Client, stderr io.Writer) (j api.ExportJob, err error) {
	path, remove, err := o.workPath()
	if err != nil {
		return j, err
	}
	defer remove()
	ex := &exporter{Options: o, client: c, part: path + ".part", stderr: stderr}
	t, err := newTask(ctx, c, work{Order: o.Order})
	if err != nil {
		return j, err
	}
	if ex.journal, err = journal.Open(path, t, nil); err != nil {
		return j, err
	}
	defer func() { err = errors.Join(err, ex.journal.Close()) }()
	ex.created = true
	if ex.resumed = ex.journal.ID != ""; !ex.resumed {
		if err := ex.begin(); err != nil {
			return j, err
		}
	}
	j, err = ex.run(ctx)
	if err != nil && ctx.Err() != nil {
		err = context.Cause(ctx)
	}
	switch {
	case err == nil:
		err = ex.journal.Remove()
	case !ex.created:
		err = errors.Join(err, ex.journal.Remove())
	case o.Path != "-":
		err = journal.Continues(err, "with the export job "+ex.journal.ID)
	case ctx.Err() != nil:
		err = errors.Join(err, ex.cancel(context.WithoutCancel(ctx)))
	}
	return j, err
}

// workPath returns the path of the journal, which is also a prefix of all other temporary
// paths. For an export to o.Stdout, remove deletes all these files; otherwise it does nothing.
func (o Options) workPath() (path string, remove func(), err error) {
	const suffix = ".sluice-export"
	if o.Path != "-" {
		return o.Path + suffix, func() {}, nil
	}
	dir, err := os.MkdirTemp("", "sluice-export-")
	if err != nil {
		return "", nil, err
	}
	return filepath.Join(dir, "stdout"+suffix), func() { os.RemoveAll(dir) }, nil //nolint:errcheck // a temporary directory
}

// cancel cancels the job if it exists and has not ended.
func (ex *exporter) cancel(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, cancelTimeout)
	defer cancel()
	_, err := ex.client.CancelExportJob(ctx, ex.journal.ID)
	if err == nil || errors.Is(err, client.ErrNotFound) || errors.Is(err, client.ErrConflict) {
		return nil
	}
	return fmt.Errorf("the export job %s could not be cancelled: %w", ex.journal.ID, err)
}

// begin starts a new export and discards any partial download.
func (ex *exporter) begin() error {
	ex.resumed, ex.created = false, false
	if err := os.Remove(ex.part); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return ex.journal.Begin()
}

// run waits for the job, downloads the rest of its file and delivers the file.
func (ex *exporter) run(ctx context.Context) (api.ExportJob, error) {
	j, err := ex.await(ctx)
	if err != nil {
		return j, err
	}
	part, err := os.OpenFile(ex.part, os.O_RDWR|os.O_CREATE|os.O_APPEND, 0o600)
	if err != nil {
		return j, err
	}
	defer part.Close()                                      //nolint:errcheck // download has synced the file
	defer context.AfterFunc(ctx, func() { part.Close() })() //nolint:errcheck // stops reading a large file when ctx is done
	if err = ex.download(ctx, j, part); err == nil {
		err = check(ctx, j, part)
	}
	if err == nil {
		var convert func(w io.Writer, part io.Reader) error
		if ex.Unpack {
			convert = decompress
		}
		err = ex.deliver(part, convert)
	}
	return j, err
}

// await creates the export job, unless an earlier run did, and waits for it to end. If the
// earlier run's job ended without a file, await creates a new one.
func (ex *exporter) await(ctx context.Context) (api.ExportJob, error) {
	for {
		ex.Order.ID = ex.journal.ID
		if _, _, err := ex.client.CreateExportJob(ctx, ex.Order); err != nil {
			e, ok := errors.AsType[*client.Error](err)
			ex.created = ex.created || !ok || !e.Rejected() // a rejected call creates no job
			return api.ExportJob{}, err
		}
		ex.created = true
		var latest atomic.Pointer[api.ExportJob]
		latest.Store(new(api.ExportJob))
		stop := progress.Start(ex.stderr, progress.Noun{One: "record", Many: "records"}, func() progress.State {
			s := jobState(latest.Load())
			s.Waiting = ex.Waiting()
			return s
		})
		j, err := ex.client.AwaitExportJob(ctx, ex.Order.ID, func(j api.ExportJob) { latest.Store(&j) })
		stop()
		switch {
		case err != nil:
			return api.ExportJob{}, err
		case j.Status == job.Succeeded && j.DownloadURL != nil && j.SizeBytes != nil:
			return j, nil
		case !ex.resumed:
			return api.ExportJob{}, fmt.Errorf("the export job %s", describeEnd(j))
		}
		fmt.Fprintf(ex.stderr, "The earlier export job %s. Beginning a new one.\n", strings.TrimSuffix(describeEnd(j), "."))
		if err := ex.begin(); err != nil {
			return api.ExportJob{}, err
		}
	}
}

// describeEnd says how a job ended without producing a file.
func describeEnd(j api.ExportJob) string {
	text := fmt.Sprintf("%s has %s", j.ID, j.Status)
	if j.Status == job.Cancelled {
		text = fmt.Sprintf("%s was cancelled", j.ID)
	}
	if j.FileDeletedAt != nil {
		text += fmt.Sprintf(", but its file was deleted at %s", j.FileDeletedAt)
	}
	if j.Error != nil {
		text += ": " + *j.Error
	}
	return text
}

func jobState(j *api.ExportJob) progress.State {
	s := progress.State{Done: j.RecordsWritten, Part: -1, Details: string(j.Status)}
	if j.RecordsExpected != nil && *j.RecordsExpected > 0 {
		s.Part = min(float64(j.RecordsWritten)/float64(*j.RecordsExpected), 1)
	}
	return s
}

// download appends the missing bytes to the partial file.
func (ex *exporter) download(ctx context.Context, j api.ExportJob, part *os.File) error {
	have, err := part.Seek(0, io.SeekEnd)
	if err != nil {
		return err
	}
	if have > 0 {
		fmt.Fprintf(ex.stderr, "Continuing after byte %d of %d.\n", have, *j.SizeBytes)
	}
	stop := progress.Start(ex.stderr, progress.Noun{One: "KB", Many: "KB"}, func() progress.State {
		var n int64
		if info, err := part.Stat(); err == nil {
			n = info.Size()
		}
		return progress.State{Done: n >> 10, Part: float64(n) / float64(max(*j.SizeBytes, 1)), Details: "downloaded", Waiting: ex.Waiting()}
	})
	defer stop()
	if _, err := ex.client.DownloadExport(ctx, j.ID, have, part); err != nil {
		return err
	}
	return part.Sync()
}

// check verifies that the download is the file that the job wrote: every checksum is right,
// every record is valid, and there are j.RecordsWritten records. If not, check empties the
// partial file, unless ctx is done.
func check(ctx context.Context, j api.ExportJob, part *os.File) error {
	records, err := countRecords(j, part)
	if err == nil && records != j.RecordsWritten {
		err = fmt.Errorf("it has %d records, the job wrote %d", records, j.RecordsWritten)
	}
	if err != nil && ctx.Err() == nil {
		// Make the next run download the whole file again.
		err = errors.Join(fmt.Errorf("the file differs from the one that the job wrote: %w", err), part.Truncate(0))
	}
	return err
}

func countRecords(j api.ExportJob, part *os.File) (records int64, err error) {
	if _, err := part.Seek(0, io.SeekStart); err != nil {
		return 0, err
	}
	d := importfile.Description{Resource: j.Resource, Format: j.Format}
	file, err := importfile.Open(part, d, importfile.Options{ID: func(int64) string { return "" }})
	if err != nil {
		return 0, err
	}
	for {
		rec, err := file.Read()
		switch {
		case err == io.EOF:
			return records, nil
		case err != nil:
			return records, err
		case rec.Err != nil:
			return records, fmt.Errorf("line %d: %w", rec.Line, rec.Err)
		}
		records++
	}
}

func decompress(w io.Writer, file io.Reader) error {
	in, err := gzip.NewReader(file)
	if err == nil {
		_, err = io.Copy(w, in)
	}
	return err
}

// deliver moves the download to ex.Path, or writes it to ex.Stdout. If convert is not nil, it
// converts the download first.
func (ex *exporter) deliver(part *os.File, convert func(w io.Writer, part io.Reader) error) error {
	if convert == nil && ex.Path != "-" {
		return ex.publish(part.Name())
	}
	if convert == nil {
		convert = func(w io.Writer, part io.Reader) error {
			_, err := io.Copy(w, part)
			return err
		}
	}
	if _, err := part.Seek(0, io.SeekStart); err != nil {
		return err
	}
	if ex.Path == "-" {
		return convert(ex.Stdout, part)
	}
	converted, err := os.OpenFile(ex.Path+".sluice-export.converted", os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	defer os.Remove(converted.Name()) //nolint:errcheck // the file was moved, or is incomplete
	if err = convert(converted, part); err == nil {
		err = converted.Sync()
	}
	if err := errors.Join(err, converted.Close()); err != nil {
		return err
	}
	if err := ex.publish(converted.Name()); err != nil {
		return err
	}
	return os.Remove(part.Name())
}

// publish moves a complete file to ex.Path. Without Force, it does not replace a file that was
// created there during the export.
func (ex *exporter) publish(file string) error {
	if ex.Force {
		return os.Rename(file, ex.Path)
	}
	err := moveNew(file, ex.Path, os.Link)
	if errors.Is(err, fs.ErrExist) {
		return fmt.Errorf("%s appeared during the export; --force replaces it", ex.Path)
	}
	return err
}

// moveNew moves a file to path. If a file is already there, it returns an error that matches
// fs.ErrExist. link is os.Link, except in tests.
func moveNew(file, path string, link func(oldname, newname string) error) error {
	switch err := link(file, path); {
	case err == nil:
		return os.Remove(file)
	case errors.Is(err, fs.ErrExist):
		return err
	}
	// Some file systems do not support links, and os.Rename would replace an existing file. So
	// first create an empty file at the path, which fails if a file is already there. If the
	// process is killed before the rename, the empty file remains.
	reserved, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	if err = errors.Join(reserved.Close(), os.Rename(file, path)); err != nil {
		err = errors.Join(err, os.Remove(path))
	}
	return err
}
