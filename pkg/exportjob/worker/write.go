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

// export does all of the job that is not done yet.
func (r *run) export(ctx context.Context) error {
	if r.job.Progress.Tries > r.MaxTries {
		return failure(fmt.Sprintf("The export was started %d times in a row and broke off each time with nothing done.", r.MaxTries))
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
	if errors.Is(err, exportjob.ErrUpload) {
		next := r.job
		next.Progress = exportjob.Progress{Run: next.Progress.Run, Tries: next.Progress.Tries, Survey: next.Progress.Survey}
		next.RecordsWritten, next.SizeBytes = 0, nil
		if err := r.save(r.ctx, next); err != nil {
			return err
		}
	}
	return err
}

// settle waits until the job is old enough.
func (r *run) settle(ctx context.Context) error {
	wait := r.Settle - r.Now().Sub(r.job.CreatedAt.Time())
	if wait <= 0 {
		return nil
	}
	select {
	case <-time.After(min(wait, r.Settle)): // whatever the clock of the instance that created the job
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// due reports whether it is time to save again.
func (r *run) due() bool { return r.Now().Sub(r.saved) >= r.SaveEvery }

// file writes the file.
func (r *run) file(ctx context.Context) error {
	if r.job.Progress.Upload == "" {
		next := r.job
		var err error
		if next.Progress.Upload, err = r.files.Start(r.ctx, next); err != nil {
			return err
		}
		if err := r.save(r.ctx, next); err != nil {
			_ = r.files.Abort(r.ctx, next) // nobody else knows of it
			return err
		}
	}
	if !r.job.Progress.Written {
		if err := r.write(ctx); err != nil {
			return err
		}
	}
	if err := r.files.Complete(r.ctx, r.job); err != nil {
		return err
	}
	next := r.job.Finish(exportjob.Succeeded, r.Now())
	expires := record.TimeOf(next.FinishedAt.Time().AddDate(0, 0, r.FileDays))
	written := next.RecordsWritten
	next.FileExpiresAt, next.RecordsExpected = &expires, &written // entities may have come and gone since they were counted
	next.Progress = exportjob.Progress{Run: next.Progress.Run}
	return r.save(r.ctx, next)
}

// write writes the records that are in no part yet.
func (r *run) write(ctx context.Context) error {
	var counting sync.WaitGroup
	defer counting.Wait()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel() // ends the count
	from := r.source(r.job)
	counted := make(chan int64, 1)
	if r.job.RecordsExpected == nil {
		counting.Go(func() {
			n, err := from.count(ctx)
			if err == nil {
				counted <- n
			} else if ctx.Err() == nil {
				r.log.WarnContext(ctx, "the records of an export job were not counted", "error", err)
			}
		})
	}
	part := newMember(r.PartBytes, r.compress)
	to, err := newWriter(part, r.job)
	if err != nil {
		return err
	}
	cursor := r.job.Progress.Cursor
	err = from.eachPage(ctx, cursor, func(rows []row) error {
		for _, row := range rows {
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
		next := r.job
		select {
		case n := <-counted:
			next.RecordsExpected = &n
		default:
			if !r.due() {
				return nil
			}
		}
		next.RecordsWritten = next.Progress.Records + part.records
		return r.save(r.ctx, next)
	})
	if err != nil {
		return err
	}
	return r.put(part, cursor, true)
}

// recordWriter writes the JSON objects of records in the format of a file.
type recordWriter interface {
	Write(object []byte) error
}

// newWriter returns a writer of the records of a job whose survey is done, if it
// needs one. It writes what comes before the first record of the file.
func newWriter(part *member, j exportjob.Job) (recordWriter, error) {
	if j.Format == exportjob.NDJSON {
		return recordfile.NewNDJSONWriter(part), nil
	}
	columns := event.Columns()
	if j.Resource == exportjob.Entity {
		columns = entity.Columns()
	}
	w := recordfile.NewCSVWriter(part, columns, j.Progress.Survey.Names, j.CSVFormulas == exportjob.Keep)
	if len(j.Progress.Parts) > 0 {
		return w, nil
	}
	return w, w.WriteHeader()
}

// put uploads a part and saves that it did, with the place where it ends. The
// last part may be small, or missing.
func (r *run) put(part *member, cursor string, last bool) error {
	next := r.job
	n := len(next.Progress.Parts) + 1
	if !last || part.records > 0 || n == 1 {
		if n > r.MaxParts {
			return failure(fmt.Sprintf("The file would be larger than %d MB. Export less at once, by a filter.", int64(r.MaxParts)*int64(r.PartBytes)>>20))
		}
		b, err := part.bytes()
		if err != nil {
			return err
		}
		etag, err := r.files.Put(r.ctx, next, n, b)
		if err != nil {
			return err
		}
		next.Progress.Parts = append(next.Progress.Parts[:n-1:n-1], exportjob.Part{ETag: etag, Size: int64(len(b))})
	}
	size := next.Progress.Size()
	next.SizeBytes = &size
	next.Progress.Records += part.records
	next.Progress.Cursor, next.Progress.Written = cursor, last
	next.Progress.Tries = 0
	next.RecordsWritten = next.Progress.Records
	part.reset()
	return r.save(r.ctx, next)
}
