package worker

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"sluice/pkg/entity"
	"sluice/pkg/event"
	"sluice/pkg/exportjob"
	"sluice/pkg/record"
	"sluice/pkg/recordfile"
)

// export executes the remaining work of the job.
func (r *run) export(ctx context.Context) error {
	if r.job.Progress.Tries > r.MaxTries {
		return failure(fmt.Sprintf("The export was started %d times in a row and stopped each time without progress.", r.MaxTries))
	}
	if err := r.settle(ctx); err != nil {
		return err
	}
	if r.job.Format == exportjob.CSV && !r.job.Progress.Survey.Done {
		if err := r.survey(ctx); err != nil {
			return err
		}
	}
	err := r.file(ctx)
	if errors.Is(err, exportjob.ErrUpload) { // write the file again from the first record
		if err := r.files.Abort(r.calls, r.job); err != nil {
			return err
		}
		next := r.job
		next.Progress = exportjob.Progress{Run: next.Progress.Run, Tries: next.Progress.Tries, Survey: next.Progress.Survey}
		next.RecordsWritten, next.SizeBytes = 0, nil
		if err := r.save(next); err != nil {
			return err
		}
	}
	return err
}

// settle waits until the job has the age Config.Settle.
func (r *run) settle(ctx context.Context) error {
	wait := r.Settle - r.Now().Sub(r.job.CreatedAt.Time())
	if wait <= 0 {
		return nil
	}
	select {
	case <-time.After(min(wait, r.Settle)): // at most Settle, even if the clock of the process that created the job is ahead
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// due reports whether SaveEvery has passed since the last save.
func (r *run) due() bool { return r.Now().Sub(r.saved) >= r.SaveEvery }

// file writes the file and ends the job.
func (r *run) file(ctx context.Context) error {
	if r.job.Progress.Upload == "" {
		next := r.job
		var err error
		if next.Progress.Upload, err = r.files.Start(r.calls, next); err != nil {
			return err
		}
		if err := r.save(next); err != nil {
			_ = r.files.Abort(r.calls, next) // this does not affect other runs, because they do not know this upload
			return err
		}
	}
	if !r.job.Progress.Written {
		if err := r.write(ctx); err != nil {
			return err
		}
	}
	if err := r.files.Complete(r.calls, r.job); err != nil {
		return err
	}
	next := r.job.Finish(exportjob.Succeeded, r.Now())
	expires := record.TimeOf(next.FinishedAt.Time().AddDate(0, 0, r.FileDays))
	written := next.RecordsWritten
	// Replace the count, which may be wrong if records were deleted during the export.
	next.FileExpiresAt, next.RecordsExpected = &expires, &written
	return r.save(next)
}

// write writes the records that are in no part yet. If ctx is done, write saves the
// records that it has read so far.
func (r *run) write(ctx context.Context) error {
	from := r.source(r.job)
	defer r.count(ctx, from)()
	part := r.newMember()
	to, err := newWriter(part, r.job)
	if err != nil {
		return err
	}
	cursor := r.job.Progress.Cursor
	err = from.eachPage(ctx, cursor, func(p page) error {
		for _, row := range p.rows {
			if err := part.add(to, row); err != nil {
				return err
			}
			cursor = row.cursor
			if part.Len() >= r.PartBytes {
				if err := r.put(part, cursor, false); err != nil {
					return err
				}
			}
		}
		cursor = p.last
		return r.report(part, cursor)
	})
	if err != nil && !errors.Is(err, ctx.Err()) {
		return err
	}
	return errors.Join(r.put(part, cursor, err == nil), err)
}

// count starts to count the job's records in the background. If the records have already
// been counted, it does nothing. To end the counting, call stop.
func (r *run) count(ctx context.Context, from source) (stop func()) {
	if r.job.RecordsExpected != nil {
		return func() {}
	}
	ctx, cancel := context.WithCancel(ctx)
	var counting sync.WaitGroup
	counting.Go(func() {
		n, err := from.count(ctx)
		if err == nil {
			r.counted.Store(&n)
		} else if ctx.Err() == nil {
			r.log.WarnContext(ctx, "counting the records of an export job failed", "error", err)
		}
	})
	return func() { cancel(); counting.Wait() }
}

// report saves the number of written records if a save is due. If the saved parts contain
// all records up to the given cursor, report also saves this cursor.
func (r *run) report(part *member, cursor string) error {
	if !r.due() {
		return nil
	}
	next := r.job
	next.RecordsWritten = next.Progress.Records + part.records
	if part.records == 0 {
		moveTo(&next.Progress, cursor)
	}
	return r.save(next)
}

// moveTo sets the cursor of p. If the cursor changes, moveTo also sets the number of
// tries to 0.
func moveTo(p *exportjob.Progress, cursor string) {
	if cursor != p.Cursor {
		p.Cursor, p.Tries = cursor, 0
	}
}

// recordWriter writes JSON objects as records of a file format.
type recordWriter interface {
	Write(object []byte) error
}

// newWriter returns a recordWriter for the job. If part is the first part of the file,
// newWriter also writes the beginning of the file. For a CSV file, the survey of the job
// must be complete before the call.
func newWriter(part *member, j exportjob.Job) (recordWriter, error) {
	if j.Format == exportjob.NDJSON {
		return recordfile.NewNDJSONWriter(part), nil
	}
	columns := event.Columns()
	if j.Resource == record.Entity {
		columns = entity.Columns()
	}
	w := recordfile.NewCSVWriter(part, columns, j.Progress.Survey.Names, j.CSVFormulas == exportjob.Keep)
	if len(j.Progress.Parts) > 0 {
		return w, nil
	}
	return w, w.WriteHeader()
}

// put uploads a part. It then saves the job with the ETag of the part and the cursor of the
// last record that was read. It uploads a part without records only if the whole file has
// no records. Only the last part may be smaller than PartBytes.
func (r *run) put(part *member, cursor string, last bool) error {
	next := r.job
	n := len(next.Progress.Parts) + 1
	if part.records > 0 || last && n == 1 {
		if n > r.MaxParts {
			return failure(fmt.Sprintf("The file would be larger than %d MB. Use filters to export fewer records.", int64(r.MaxParts)*int64(r.PartBytes)>>20))
		}
		least := r.PartBytes
		if last {
			least = 0
		}
		b, err := part.bytes(least)
		if err != nil {
			return err
		}
		etag, err := r.files.Put(r.calls, next, n, b)
		if err != nil {
			return err
		}
		size := int64(len(b))
		if next.SizeBytes != nil {
			size += *next.SizeBytes
		}
		next.SizeBytes = &size
		next.Progress.Parts = append(next.Progress.Parts[:n-1:n-1], etag)
		next.Progress.Records += part.records
	}
	moveTo(&next.Progress, cursor)
	if last {
		next.Progress.Written, next.Progress.Tries = true, 0
	}
	next.RecordsWritten = next.Progress.Records
	if err := r.save(next); err != nil {
		return err
	}
	part.reset()
	return nil
}
