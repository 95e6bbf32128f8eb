package exportjob

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"sluice/pkg/api"
	"sluice/pkg/job"
	"sluice/pkg/record"
	"sluice/pkg/recordfile"
)

// write writes the records that are in no part yet. If ctx is done, it saves what it has read.
func (r *run) write(ctx context.Context) error {
	from := r.reader()
	defer r.count(ctx, from)()
	part := newPart(r.exporter.PartBytes, len(r.checkpoint.Parts) == 0, r.checkpoint.Sum)
	to, err := r.newWriter(part)
	if err != nil {
		return err
	}
	cursor := r.checkpoint.Cursor
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
		if part.records > 0 && part.Len() >= r.exporter.PartBytes {
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
func (r *run) count(ctx context.Context, from reader) (stop func()) {
	if r.details.RecordsExpected != nil {
		return func() {}
	}
	ctx, cancel := context.WithCancel(ctx)
	var counting sync.WaitGroup
	counting.Go(func() {
		n, err := from.count(ctx)
		if err == nil {
			r.counted.Store(&n)
		} else if ctx.Err() == nil {
			r.job.Log.WarnContext(ctx, "counting the records of an export job failed", "error", err)
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
	d, c := r.details, r.checkpoint
	d.RecordsWritten = c.Records + part.records
	if part.records == 0 {
		c.Cursor = cursor
	}
	return r.save(d, c, c.Cursor != r.checkpoint.Cursor)
}

type recordWriter interface {
	Write(object []byte) error
}

// newWriter returns a writer that writes to part. For CSV, the survey must be complete, and
// newWriter writes the header if it is called for the first part.
func (r *run) newWriter(part *part) (recordWriter, error) {
	if r.details.Format == record.NDJSON {
		return recordfile.NewNDJSONWriter(part), nil
	}
	w := recordfile.NewCSVWriter(part, record.Columns(api.Members(r.details.Resource)), r.checkpoint.Survey.Names, r.details.CSVFormulas == api.KeepFormulas)
	if len(r.checkpoint.Parts) > 0 {
		return w, nil
	}
	return w, w.WriteHeader()
}

// put uploads a part, and saves its ETag and the cursor of the next page. Only the last part may
// be smaller than PartBytes, or have no records.
func (r *run) put(part *part, cursor record.Cursor, last bool) error {
	d, c, x := r.details, r.checkpoint, r.exporter
	n := len(c.Parts) + 1
	if part.records > 0 || last {
		if n > x.MaxParts {
			return job.Failure(fmt.Sprintf("The file would be larger than %d MB. Use filters to export fewer records.", int64(x.MaxParts)*int64(x.PartBytes)>>20))
		}
		b, err := part.content(x.PartBytes, last)
		if err != nil {
			return err
		}
		etag, err := x.files.Put(r.job.Calls, r.upload(), n, b)
		if err != nil {
			return err
		}
		size := int64(len(b))
		if d.SizeBytes != nil {
			size += *d.SizeBytes
		}
		d.SizeBytes = &size
		c.Parts = append(c.Parts[:n-1:n-1], etag)
		c.Records, c.Sum = c.Records+part.records, part.sum
	}
	c.Cursor, c.Written, d.RecordsWritten = cursor, last, c.Records
	if err := r.save(d, c, last || cursor != r.checkpoint.Cursor); err != nil {
		return err
	}
	part.reset()
	return nil
}
