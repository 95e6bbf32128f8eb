// Package exporter gets records out of a service into a file: it creates an export
// job, waits for it, downloads its file and checks it.
package exporter

import (
	"bufio"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"sync/atomic"
	"time"

	"github.com/google/uuid"

	"sluice/internal/journal"
	"sluice/internal/progress"
	"sluice/pkg/client"
	"sluice/pkg/entity"
	"sluice/pkg/event"
	"sluice/pkg/exportjob"
	"sluice/pkg/recordfile"
)

// cancelTimeout bounds the cancellation of a job after an interrupt.
const cancelTimeout = 5 * time.Second

// Options say what to export, and where to.
type Options struct {
	URL    string              // of the service
	Order  client.NewExportJob // what to export; its ID is not used
	Path   string              // of the file, which is replaced when all is done; "-" for Stdout
	Stdout io.Writer
	Unpack bool // write the file without compression
}

// Result is the result of an export.
type Result struct {
	Job       string             `json:"job"`
	Resource  exportjob.Resource `json:"resource"`
	Format    exportjob.Format   `json:"format"`
	File      string             `json:"file"`
	Records   int64              `json:"records"`
	SizeBytes int64              `json:"size_bytes"` // compressed
	Seconds   float64            `json:"seconds"`    // of this run
}

// Noun returns what the records of a resource are called.
func Noun(r exportjob.Resource) string {
	if r == exportjob.Entity {
		return "entities"
	}
	return "events"
}

// task is what an export is of, as its journal identifies it.
type task struct {
	URL   string              `json:"url"`
	Order client.NewExportJob `json:"order"`
}

// exporter is one run of an export.
type exporter struct {
	Options
	client  *client.Client
	journal *journal.Journal // nil for standard output
	resumed bool             // an earlier run created the job
	part    string           // path of what was downloaded so far
	stderr  io.Writer
}

// Run exports to a file, or to o.Stdout. Until the file is complete and checked,
// what was downloaded is in a file beside it, and a journal remembers the job, so
// that the same call continues after an error. Without a file Run cancels the job
// if ctx is done. It shows on stderr how far it is.
func Run(ctx context.Context, o Options, c *client.Client, stderr io.Writer) (Result, error) {
	began := time.Now()
	ex := &exporter{Options: o, client: c, stderr: stderr}
	run := ex.toFile
	if o.Path == "-" {
		run = ex.toStdout
	}
	j, err := run(ctx)
	if err != nil {
		return Result{}, err
	}
	return Result{
		Job: j.ID, Resource: j.Resource, Format: j.Format, File: o.Path,
		Records: j.RecordsWritten, SizeBytes: *j.SizeBytes, Seconds: time.Since(began).Seconds(),
	}, nil
}

// toFile exports to a file, with a journal.
func (ex *exporter) toFile(ctx context.Context) (j exportjob.Job, err error) {
	path := ex.Path + ".sluice-export"
	ex.part = path + ".part"
	if ex.journal, err = journal.Open(path, "export", task{ex.URL, ex.Order}, nil); err != nil {
		return j, err
	}
	defer func() { err = errors.Join(err, ex.journal.Close()) }()
	if ex.resumed = ex.journal.ID != ""; !ex.resumed {
		if err := ex.begin(); err != nil {
			return j, err
		}
	}
	ex.Order.ID = ex.journal.ID
	if j, err = ex.run(ctx); err != nil {
		return j, fmt.Errorf("%w\nThe same command continues with the export job %s", err, ex.Order.ID)
	}
	return j, errors.Join(ex.removePart(), ex.journal.Remove())
}

// begin begins the journal, of a new job, of which nothing was downloaded.
func (ex *exporter) begin() error {
	if err := ex.removePart(); err != nil {
		return err
	}
	return ex.journal.Begin()
}

func (ex *exporter) removePart() error {
	if err := os.Remove(ex.part); err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	return nil
}

// toStdout exports to Stdout, and cancels the job if ctx is done.
func (ex *exporter) toStdout(ctx context.Context) (j exportjob.Job, err error) {
	dir, err := os.MkdirTemp("", "sluice-export-")
	if err != nil {
		return j, err
	}
	defer os.RemoveAll(dir) //nolint:errcheck // a temporary directory
	ex.part = filepath.Join(dir, "part")
	id, err := uuid.NewV7()
	if err != nil {
		return j, err
	}
	ex.Order.ID = id.String()
	if j, err = ex.run(ctx); ctx.Err() == nil {
		return j, err
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), cancelTimeout)
	defer cancel()
	if _, failure := ex.client.CancelExportJob(ctx, id.String()); failure != nil && !errors.Is(failure, client.ErrNotFound) && !errors.Is(failure, client.ErrConflict) {
		err = fmt.Errorf("%w\nThe export job %s could not be canceled: %w", err, id, failure)
	}
	return j, err
}

// run waits for the job, downloads what is missing of its file and delivers it.
func (ex *exporter) run(ctx context.Context) (exportjob.Job, error) {
	j, err := ex.await(ctx)
	if err != nil {
		return j, err
	}
	part, err := os.OpenFile(ex.part, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return j, err
	}
	defer part.Close() //nolint:errcheck // download has synced it
	if err := ex.download(ctx, j, part); err != nil {
		return j, err
	}
	return j, ex.deliver(ctx, j, part)
}

// await creates the job, or finds the one of an earlier run, and waits for its
// file. A job of an earlier run that has no file is replaced by a new one.
func (ex *exporter) await(ctx context.Context) (exportjob.Job, error) {
	for {
		if _, _, err := ex.client.CreateExportJob(ctx, ex.Order); err != nil {
			return exportjob.Job{}, err
		}
		var latest atomic.Pointer[exportjob.Job]
		latest.Store(new(exportjob.Job))
		stop := progress.Start(ex.stderr, Noun(ex.Order.Resource), func() progress.State { return jobState(latest.Load()) })
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
		ex.Order.ID, ex.resumed = ex.journal.ID, false
	}
}

// ending says how a job without a file ended.
func ending(j exportjob.Job) string {
	text := fmt.Sprintf("%s has %s", j.ID, j.Status)
	if j.Status == exportjob.Cancelled {
		text = fmt.Sprintf("%s was cancelled", j.ID)
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

// download downloads what part lacks of the file of j.
func (ex *exporter) download(ctx context.Context, j exportjob.Job, part *os.File) error {
	have, err := part.Seek(0, io.SeekEnd)
	if err != nil {
		return err
	}
	if have > *j.SizeBytes { // of another job
		have = 0
		if err := errors.Join(part.Truncate(0), rewind(part)); err != nil {
			return err
		}
	}
	if have > 0 {
		fmt.Fprintf(ex.stderr, "Continuing after byte %d of %d.\n", have, *j.SizeBytes)
	}
	var got atomic.Int64
	got.Store(have)
	defer progress.Start(ex.stderr, "KB", func() progress.State {
		n := got.Load()
		return progress.State{Done: n >> 10, Part: float64(n) / float64(max(*j.SizeBytes, 1)), Details: "downloaded"}
	})()
	if _, err := ex.client.DownloadExport(ctx, j.ID, have, writerFunc(func(p []byte) (int, error) {
		n, err := part.Write(p)
		got.Add(int64(n))
		return n, err
	})); err != nil {
		return err
	}
	return part.Sync()
}

type writerFunc func([]byte) (int, error)

func (f writerFunc) Write(p []byte) (int, error) { return f(p) }

type readerFunc func([]byte) (int, error)

func (f readerFunc) Read(p []byte) (int, error) { return f(p) }

func rewind(file io.Seeker) error {
	_, err := file.Seek(0, io.SeekStart)
	return err
}

// deliver checks what was downloaded and moves it to its path, or writes it to
// Stdout. Nothing is there before all of it is checked.
func (ex *exporter) deliver(ctx context.Context, j exportjob.Job, part *os.File) error {
	if ex.Path != "-" && ex.Unpack {
		return ex.deliverUnpacked(ctx, j, part)
	}
	if err := unpack(ctx, j, part, io.Discard); err != nil {
		return err
	}
	switch {
	case ex.Path != "-":
		return os.Rename(part.Name(), ex.Path)
	case ex.Unpack:
		return unpack(ctx, j, part, ex.Stdout)
	}
	if err := rewind(part); err != nil {
		return err
	}
	_, err := io.Copy(ex.Stdout, interruptible(ctx, part))
	return err
}

// deliverUnpacked is deliver for a file without compression.
func (ex *exporter) deliverUnpacked(ctx context.Context, j exportjob.Job, part *os.File) error {
	file, err := os.OpenFile(ex.Path+".sluice-export.plain", os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	defer os.Remove(file.Name()) //nolint:errcheck // it was renamed, or is not complete
	err = unpack(ctx, j, part, file)
	if err == nil {
		err = file.Sync()
	}
	if err := errors.Join(err, file.Close()); err != nil {
		return err
	}
	return os.Rename(file.Name(), ex.Path)
}

// unpack writes what part, the downloaded file of j, holds without compression to
// plain. It returns an error, and empties part, if a checksum is wrong or if part
// does not hold the records that the job wrote.
func unpack(ctx context.Context, j exportjob.Job, part *os.File, plain io.Writer) error {
	if err := rewind(part); err != nil {
		return err
	}
	records, err := copyRecords(plain, interruptible(ctx, part), j)
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case err == nil && records != j.RecordsWritten:
		err = fmt.Errorf("it has %d records, the job wrote %d", records, j.RecordsWritten)
	}
	if err != nil { // the next run downloads all of it again
		return errors.Join(fmt.Errorf("the file is not what the job wrote: %w", err), part.Truncate(0))
	}
	return nil
}

// copyRecords copies the records of a compressed file to plain, without
// compression, and returns their number.
func copyRecords(plain io.Writer, packed io.Reader, j exportjob.Job) (records int64, err error) {
	unpacked, err := gzip.NewReader(bufio.NewReaderSize(packed, 64<<10))
	if err != nil {
		return 0, err
	}
	columns := entity.Columns()
	if j.Resource == exportjob.Event {
		columns = event.Columns()
	}
	file, err := recordfile.NewReader(io.TeeReader(unpacked, plain), j.Format, columns)
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

// interruptible returns a reader of r that fails once ctx is done: large files take
// long.
func interruptible(ctx context.Context, r io.Reader) io.Reader {
	return readerFunc(func(p []byte) (int, error) {
		if ctx.Err() != nil {
			return 0, ctx.Err()
		}
		return r.Read(p)
	})
}
