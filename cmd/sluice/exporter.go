package main

import (
	"bufio"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"sync/atomic"
	"time"

	api "sluice/pkg/client"
	"sluice/pkg/exportjob"
	"sluice/pkg/recordfile"
)

// exporter is one run of export.
type exporter struct {
	exportOptions
	client  *api.Client
	journal *exportJournal // nil for standard output
	part    string         // what has been downloaded, compressed
	stderr  io.Writer
}

// noun is what the records are called.
func (ex *exporter) noun() string {
	if ex.order.Resource == exportjob.Entity {
		return "entities"
	}
	return "events"
}

// run makes the file, or writes it to stdout.
func (ex *exporter) run(ctx context.Context, stdout io.Writer) (exportResult, error) {
	began := time.Now()
	j, err := ex.await(ctx)
	if err == nil {
		err = ex.download(ctx, j)
	}
	if err == nil {
		err = ex.deliver(ctx, j, stdout)
	}
	if err != nil {
		return exportResult{}, err
	}
	return exportResult{
		Job: j.ID, Resource: j.Resource, Format: j.Format, File: ex.path,
		Records: j.RecordsWritten, SizeBytes: *j.SizeBytes, Seconds: time.Since(began).Seconds(),
	}, nil
}

// await orders the job, or finds that of an earlier run, and waits for its file.
// A job of an earlier run that has none any more gives way to a new one.
func (ex *exporter) await(ctx context.Context) (exportjob.Job, error) {
	resumed := ex.journal != nil && ex.journal.resumed
	for {
		if _, _, err := ex.client.CreateExportJob(ctx, ex.order); err != nil {
			return exportjob.Job{}, err
		}
		var latest atomic.Pointer[exportjob.Job]
		latest.Store(new(exportjob.Job))
		shown := startProgress(ex.stderr, ex.noun(), func() state { return jobState(latest.Load()) })
		j, err := ex.client.AwaitExportJob(ctx, ex.order.ID, func(j exportjob.Job) { latest.Store(&j) })
		shown.close()
		switch {
		case err != nil:
			return exportjob.Job{}, err
		case j.Status == exportjob.Succeeded && j.DownloadURL != nil && j.SizeBytes != nil:
			return j, nil
		case !resumed:
			return exportjob.Job{}, fmt.Errorf("the export job %s", ending(j))
		}
		resumed = false
		fmt.Fprintf(ex.stderr, "The export job of the earlier run %s; beginning a new one.\n", ending(j))
		if err := ex.journal.begin(); err != nil {
			return exportjob.Job{}, err
		}
		ex.order.ID = ex.journal.head.Order.ID
	}
}

// ending says how a job ended that has no file.
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

// jobState is how far a job is.
func jobState(j *exportjob.Job) state {
	s := state{done: j.RecordsWritten, part: -1, details: string(j.Status)}
	if j.RecordsExpected != nil && *j.RecordsExpected > 0 {
		s.part = min(float64(j.RecordsWritten)/float64(*j.RecordsExpected), 1)
	}
	return s
}

// download gets what is missing of the part file.
func (ex *exporter) download(ctx context.Context, j exportjob.Job) (err error) {
	part, err := os.OpenFile(ex.part, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, part.Close()) }()
	have, err := part.Seek(0, io.SeekEnd)
	if err != nil {
		return err
	}
	if have > 0 && have <= *j.SizeBytes {
		fmt.Fprintf(ex.stderr, "Continuing after byte %d of %d.\n", have, *j.SizeBytes)
	} else if have > 0 { // of another job
		have = 0
		if err := errors.Join(part.Truncate(0), rewind(part)); err != nil {
			return err
		}
	}
	var got atomic.Int64
	got.Store(have)
	shown := startProgress(ex.stderr, "KB", func() state {
		n := got.Load()
		return state{done: n >> 10, part: float64(n) / float64(max(*j.SizeBytes, 1)), details: "downloaded"}
	})
	_, err = ex.client.DownloadExport(ctx, j.ID, have, writerFunc(func(p []byte) (int, error) {
		n, err := part.Write(p)
		got.Add(int64(n))
		return n, err
	}))
	shown.close()
	if err != nil {
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

// deliver checks what was downloaded and gives it its name, or writes it to
// stdout.
func (ex *exporter) deliver(ctx context.Context, j exportjob.Job, stdout io.Writer) (err error) {
	part, err := os.Open(ex.part)
	if err != nil {
		return err
	}
	defer part.Close() //nolint:errcheck // only read
	// Large files take their time; an interrupt need not wait for it.
	packed := readerFunc(func(p []byte) (int, error) {
		if ctx.Err() != nil {
			return 0, ctx.Err()
		}
		return part.Read(p)
	})
	plain, whole := io.Discard, ex.part
	if ex.unpack && ex.path != "-" {
		whole = ex.path + ".sluice-export.plain"
		file, err := os.OpenFile(whole, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
		if err != nil {
			return err
		}
		defer os.Remove(whole) //nolint:errcheck // it has its name by then, or is not whole
		defer file.Close()     //nolint:errcheck // after a failure; otherwise it is closed below
		plain = file
	}
	records, err := unpack(packed, j, plain)
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if err == nil && records != j.RecordsWritten {
		err = fmt.Errorf("it has %d records, the job wrote %d", records, j.RecordsWritten)
	}
	if err != nil {
		// So that the next run downloads all of it again.
		return errors.Join(fmt.Errorf("the file is not what the job wrote: %w", err), os.Truncate(ex.part, 0))
	}
	if ex.path == "-" {
		if err := rewind(part); err != nil {
			return err
		}
		if ex.unpack {
			_, err = unpack(packed, j, stdout)
		} else {
			_, err = io.Copy(stdout, packed)
		}
		return err
	}
	if file, ok := plain.(*os.File); ok {
		if err := errors.Join(file.Sync(), file.Close()); err != nil {
			return err
		}
	}
	if err := os.Rename(whole, ex.path); err != nil {
		return err
	}
	return ex.journal.remove()
}

// unpack writes what a compressed file of records holds to plain, and counts the
// records. It fails if a checksum is wrong or something is not a record.
func unpack(packed io.Reader, j exportjob.Job, plain io.Writer) (records int64, err error) {
	unpacked, err := gzip.NewReader(bufio.NewReaderSize(packed, 64<<10))
	if err != nil {
		return 0, err
	}
	file, err := recordfile.NewReader(io.TeeReader(unpacked, plain), j.Format, columnsOf(j.Resource == exportjob.Event))
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

// cancelTimeout bounds the cancelling of a job after an interrupt.
const cancelTimeout = 5 * time.Second

// explain adds to an error what to do. A job that no later run can continue with
// is cancelled.
func (ex *exporter) explain(ctx context.Context, err error) error {
	stopped := interrupted(ctx, err)
	if ex.journal != nil {
		return fmt.Errorf("%w\nThe same command continues with the export job %s", stopped, ex.order.ID)
	}
	if ctx.Err() == nil {
		return stopped
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), cancelTimeout)
	defer cancel()
	if _, err := ex.client.CancelExportJob(ctx, ex.order.ID); err != nil && !errors.Is(err, api.ErrNotFound) && !errors.Is(err, api.ErrConflict) {
		return fmt.Errorf("%w\nThe export job %s could not be cancelled: %w", stopped, ex.order.ID, err)
	}
	return stopped
}
