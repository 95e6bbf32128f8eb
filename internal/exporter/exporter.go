// Package exporter gets records out of a service into a file: it creates an export
// job, waits for it, downloads its file and checks it.
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
	"sync/atomic"
	"time"

	"sluice/internal/journal"
	"sluice/internal/progress"
	"sluice/pkg/client"
	"sluice/pkg/entity"
	"sluice/pkg/event"
	"sluice/pkg/exportjob"
	"sluice/pkg/record"
	"sluice/pkg/recordfile"
)

// cancelTimeout bounds the cancellation of a job after an interrupt.
const cancelTimeout = 5 * time.Second

// Options say what to export, and where to.
type Options struct {
	URL    string              // of the service
	Order  client.NewExportJob // what to export; Run sets its ID
	Path   string              // of the file, which appears when all is done; "-" for Stdout
	Force  bool                // replace a file at Path
	Stdout io.Writer
	Unpack bool // write the file without compression

	Waiting func() string // returns what the client waits for, in words; "" while the service responds
}

// task is what an export is of, as its journal identifies it.
type task struct {
	URL            string              `json:"url"`
	Order          client.NewExportJob `json:"order"`
	Since          *record.Time        `json:"since,omitempty"` // of RunSince
	IncludeDeleted bool                `json:"include_deleted,omitempty"`
}

// exporter is one run of an export.
type exporter struct {
	Options
	client  *client.Client
	journal *journal.Journal // its ID is that of the job
	resumed bool             // an earlier run began the journal
	created bool             // the service may have the job
	part    string           // path of what was downloaded so far
	stderr  io.Writer
}

// Run exports to a file, or to o.Stdout, and returns the export job. The file appears
// at o.Path only when it is complete and checked. Until then the downloaded part is in
// a file beside it, and a journal has the id of the job, so that the same call
// continues after an error. An export to o.Stdout cannot continue, so Run cancels the
// job if ctx is done. Run shows its progress on stderr.
func Run(ctx context.Context, o Options, c *client.Client, stderr io.Writer) (j exportjob.Job, err error) {
	path, remove, err := o.workPath()
	if err != nil {
		return j, err
	}
	defer remove()
	ex := &exporter{Options: o, client: c, part: path + ".part", stderr: stderr}
	if ex.journal, err = journal.Open(path, "export", task{URL: o.URL, Order: o.Order}, nil); err != nil {
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
	case o.Path != "-" && rejected(err):
		err = fmt.Errorf("%w\nOnce the service accepts it, the same command continues with the export job %s", err, ex.journal.ID)
	case o.Path != "-":
		err = fmt.Errorf("%w\nThe same command continues with the export job %s", err, ex.journal.ID)
	case ctx.Err() != nil:
		err = errors.Join(err, ex.cancel(context.WithoutCancel(ctx)))
	}
	return j, err
}

// workPath returns the path of the journal, with which the paths of the other files
// begin that an export writes. remove removes them if the export is to o.Stdout.
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

// rejected reports whether the service rejected a call for good, for example because
// of the key, and so did nothing.
func rejected(err error) bool {
	var e *client.Error
	return errors.As(err, &e) && 300 <= e.Status && e.Status < 500 && !e.Retryable()
}

// cancel cancels the job if it exists and has not ended.
func (ex *exporter) cancel(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, cancelTimeout)
	defer cancel()
	_, err := ex.client.CancelExportJob(ctx, ex.journal.ID)
	if err == nil || errors.Is(err, client.ErrNotFound) || errors.Is(err, client.ErrConflict) {
		return nil
	}
	return fmt.Errorf("the export job %s could not be canceled: %w", ex.journal.ID, err)
}

// begin begins the export anew, with nothing downloaded.
func (ex *exporter) begin() error {
	ex.resumed, ex.created = false, false
	if err := os.Remove(ex.part); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return ex.journal.Begin()
}

// run waits for the job, downloads what is missing of its file and delivers it.
func (ex *exporter) run(ctx context.Context) (exportjob.Job, error) {
	j, err := ex.await(ctx)
	if err != nil {
		return j, err
	}
	part, err := os.OpenFile(ex.part, os.O_RDWR|os.O_CREATE|os.O_APPEND, 0o600)
	if err != nil {
		return j, err
	}
	defer part.Close()                                      //nolint:errcheck // download has synced it
	defer context.AfterFunc(ctx, func() { part.Close() })() //nolint:errcheck // it ends what reads a large file
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

// await creates the job, or finds the one of an earlier run, and waits for its
// file. A job of an earlier run that has no file is replaced by a new one.
func (ex *exporter) await(ctx context.Context) (exportjob.Job, error) {
	for {
		ex.Order.ID = ex.journal.ID
		if _, _, err := ex.client.CreateExportJob(ctx, ex.Order); err != nil {
			ex.created = ex.created || !rejected(err)
			return exportjob.Job{}, err
		}
		ex.created = true
		var latest atomic.Pointer[exportjob.Job]
		latest.Store(new(exportjob.Job))
		stop := progress.Start(ex.stderr, progress.Noun{One: "record", Many: "records"}, func() progress.State {
			s := jobState(latest.Load())
			s.Waiting = ex.Waiting()
			return s
		})
		j, err := ex.client.AwaitExportJob(ctx, ex.Order.ID, func(j exportjob.Job) { latest.Store(&j) })
		stop()
		switch {
		case err != nil:
			return exportjob.Job{}, err
		case j.Status == exportjob.Succeeded && j.DownloadURL != nil && j.SizeBytes != nil:
			return j, nil
		case !ex.resumed:
			return exportjob.Job{}, fmt.Errorf("the export job %s", ending(j))
		}
		fmt.Fprintf(ex.stderr, "The export job of the earlier run %s; beginning a new one.\n", ending(j))
		if err := ex.begin(); err != nil {
			return exportjob.Job{}, err
		}
	}
}

// ending says how a job without a file ended.
func ending(j exportjob.Job) string {
	text := fmt.Sprintf("%s has %s", j.ID, j.Status)
	if j.Status == exportjob.Cancelled {
		text = fmt.Sprintf("%s was canceled", j.ID)
	}
	if j.Error != nil {
		text += ": " + *j.Error
	}
	return text
}

// jobState returns how far a job is.
func jobState(j *exportjob.Job) progress.State {
	s := progress.State{Done: j.RecordsWritten, Part: -1, Details: string(j.Status)}
	if j.RecordsExpected != nil && *j.RecordsExpected > 0 {
		s.Part = min(float64(j.RecordsWritten)/float64(*j.RecordsExpected), 1)
	}
	return s
}

// download appends to part what it lacks of the file of j.
func (ex *exporter) download(ctx context.Context, j exportjob.Job, part *os.File) error {
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

// check returns an error, and empties part, if it is not what j wrote: if a checksum
// is wrong, something is not a record, or their number is not that of j.
func check(ctx context.Context, j exportjob.Job, part *os.File) error {
	records, err := countRecords(j, part)
	if err == nil && records != j.RecordsWritten {
		err = fmt.Errorf("it has %d records, the job wrote %d", records, j.RecordsWritten)
	}
	if err != nil && ctx.Err() == nil { // the next run downloads all of it again
		err = errors.Join(fmt.Errorf("the file is not what the job wrote: %w", err), part.Truncate(0))
	}
	return err
}

// countRecords reads all records in part.
func countRecords(j exportjob.Job, part *os.File) (records int64, err error) {
	if _, err := part.Seek(0, io.SeekStart); err != nil {
		return 0, err
	}
	columns := entity.Columns()
	if j.Resource == exportjob.Event {
		columns = event.Columns()
	}
	file, err := recordfile.NewReader(part, j.Format, columns)
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

// decompress writes to w what a gzip file has.
func decompress(w io.Writer, file io.Reader) error {
	in, err := gzip.NewReader(file)
	if err == nil {
		_, err = io.Copy(w, in)
	}
	return err
}

// deliver moves part to the path of the export, or writes it there. convert writes
// part in another form; nil to keep it as it is.
func (ex *exporter) deliver(part *os.File, convert func(w io.Writer, part io.Reader) error) error {
	if convert == nil && ex.Path != "-" {
		return ex.place(part.Name())
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
	defer os.Remove(converted.Name()) //nolint:errcheck // it was renamed, or is not complete
	if err = convert(converted, part); err == nil {
		err = converted.Sync()
	}
	if err := errors.Join(err, converted.Close()); err != nil {
		return err
	}
	if err := ex.place(converted.Name()); err != nil {
		return err
	}
	return os.Remove(part.Name())
}

// place moves a finished file to the path of the export. Without Force it does not
// replace a file that appeared there during the export.
func (ex *exporter) place(file string) error {
	if ex.Force {
		return os.Rename(file, ex.Path)
	}
	// Rename replaces what is there, so an empty file reserves the name first.
	reserved, err := os.OpenFile(ex.Path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if errors.Is(err, fs.ErrExist) {
		return fmt.Errorf("%s appeared during the export; --force replaces it", ex.Path)
	}
	if err != nil {
		return err
	}
	if err = errors.Join(reserved.Close(), os.Rename(file, ex.Path)); err != nil {
		err = errors.Join(err, os.Remove(ex.Path))
	}
	return err
}
