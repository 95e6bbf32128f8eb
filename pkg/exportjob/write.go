package exportjob

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"sluice/pkg/api"
	"sluice/pkg/entity"
	"sluice/pkg/event"
	"sluice/pkg/job"
	"sluice/pkg/record"
	"sluice/pkg/recordfile"
)

// write writes the records that are in no part yet. If ctx is done, it saves what it has read.
func (r *run) write(ctx context.Context) error {
	from := r.source()
	defer r.count(ctx, from)()
	part := newPart(r.PartBytes, len(r.Parts) == 0, r.Sum)
	to, err := r.newWriter(part)
	if err != nil {
		return err
	}
	cursor := r.Cursor
	err = from.eachPage(ctx, cursor, func(p page) error {
		for _, row := range p.rows {
			if err := part.add(to, row); err != nil {
				return err
			}
		}
		if p.next == "" {
			return nil
		}
		cursor = p.next
		if len(p.rows) > 0 {
			if err := part.flush(); err != nil {
				return err
			}
		}
		if part.records > 0 && part.Len() >= r.PartBytes {
			return r.put(part, cursor, false)
		}
		return r.report(part, cursor)
	})
	switch {
	case err == nil:
		return r.put(part, "", true)
	case !errors.Is(err, ctx.Err()):
		return err
	}
	return errors.Join(r.put(part, cursor, false), err)
}

// count starts counting the job's records in the background, unless they have been counted.
// stop ends the counting.
func (r *run) count(ctx context.Context, from source) (stop func()) {
	if r.RecordsExpected != nil {
		return func() {}
	}
	ctx, cancel := context.WithCancel(ctx)
	var counting sync.WaitGroup
	counting.Go(func() {
		n, err := from.count(ctx)
		if err == nil {
			r.counted.Store(&n)
		} else if ctx.Err() == nil {
			r.Log.WarnContext(ctx, "counting the records of an export job failed", "error", err)
		}
	})
	return func() { cancel(); counting.Wait() }
}

// report saves the number of written records if a save is due. If the saved parts have all
// records before cursor, it also saves the cursor.
func (r *run) report(part *part, cursor record.Cursor) error {
	if !r.due() {
		return nil
	}
	next := r.state
	next.RecordsWritten = next.Records + part.records
	if part.records == 0 {
		next.Cursor = cursor
	}
	return r.save(next, next.Cursor != r.Cursor)
}

type recordWriter interface {
	Write(object []byte) error
}

// newWriter returns a writer that writes to part. For CSV, the survey must be complete, and
// newWriter writes the header if it is called for the first part.
func (r *run) newWriter(part *part) (recordWriter, error) {
	if r.Format == record.NDJSON {
		return recordfile.NewNDJSONWriter(part), nil
	}
	columns := event.Columns()
	if r.Resource == record.Entity {
		columns = entity.Columns()
	}
	w := recordfile.NewCSVWriter(part, columns, r.Survey.Names, r.CSVFormulas == api.KeepFormulas)
	if len(r.Parts) > 0 {
		return w, nil
	}
	return w, w.WriteHeader()
}

// put uploads a part, and saves its ETag and the cursor of the next page. Only the last part may
// be smaller than PartBytes, or have no records.
func (r *run) put(part *part, cursor record.Cursor, last bool) error {
	next := r.state
	n := len(next.Parts) + 1
	if part.records > 0 || last {
		if n > r.MaxParts {
			return job.Failure(fmt.Sprintf("The file would be larger than %d MB. Use filters to export fewer records.", int64(r.MaxParts)*int64(r.PartBytes)>>20))
		}
		b, err := part.content(r.PartBytes, last)
		if err != nil {
			return err
		}
		etag, err := r.files.Put(r.Calls, r.upload(), n, b)
		if err != nil {
			return err
		}
		size := int64(len(b))
		if next.SizeBytes != nil {
			size += *next.SizeBytes
		}
		next.SizeBytes = &size
		next.Parts = append(next.Parts[:n-1:n-1], etag)
		next.Records, next.Sum = next.Records+part.records, part.sum
	}
	next.Cursor, next.Written, next.RecordsWritten = cursor, last, next.Records
	if err := r.save(next, last || cursor != r.Cursor); err != nil {
		return err
	}
	part.reset()
	return nil
}
