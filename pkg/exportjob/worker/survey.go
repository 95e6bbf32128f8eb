package worker

import (
	"context"
	"fmt"
	"maps"
	"slices"

	"sluice/pkg/exportjob"
	"sluice/pkg/record"
)

// Bounds of a CSV header, which a job remembers until its file is written.
const (
	maxColumns     = 2000  // names of attributes
	maxColumnBytes = 64000 // of these names together
)

// survey looks at the attributes of all records, which are the columns of a CSV
// file.
func (r *run) survey(ctx context.Context) error {
	next := r.job
	found := newSurveyor(next.Progress.Survey)
	err := r.source(r.job).eachPage(ctx, next.Progress.Survey.Cursor, func(rows []row) error {
		for _, row := range rows {
			if err := found.look(row.attributes); err != nil {
				return err
			}
			next.Progress.Survey.Cursor = row.cursor
			next.Progress.Survey.Records++
		}
		if !r.due() {
			return nil
		}
		next.Progress.Survey.Names = found.sorted()
		next.Progress.Tries = 0
		return r.save(r.ctx, next)
	})
	if err != nil {
		return err
	}
	next.Progress.Survey = exportjob.Survey{Names: found.sorted(), Records: next.Progress.Survey.Records, Done: true}
	next.Progress.Tries = 0
	expected := next.Progress.Survey.Records
	next.RecordsExpected = &expected
	return r.save(r.ctx, next)
}

// surveyor collects the names of attributes.
type surveyor struct {
	names map[string]bool
	bytes int
}

func newSurveyor(s exportjob.Survey) *surveyor {
	v := &surveyor{names: make(map[string]bool)}
	for _, name := range s.Names {
		v.note(name)
	}
	return v
}

func (v *surveyor) note(name string) {
	if !v.names[name] {
		v.names[name] = true
		v.bytes += len(name)
	}
}

// look notes the names of attributes. It fails with a failure when they are more
// than a header may have.
func (v *surveyor) look(attributes record.Attributes) error {
	members, err := record.Members(attributes)
	if err != nil {
		return fmt.Errorf("read attributes: %w", err)
	}
	for _, m := range members {
		v.note(m.Name)
	}
	if len(v.names) > maxColumns || v.bytes > maxColumnBytes {
		return failure(fmt.Sprintf("The records have more than %d different attributes, or %d bytes of names: too many for the columns of a CSV file. Export them as NDJSON.", maxColumns, maxColumnBytes))
	}
	return nil
}

func (v *surveyor) sorted() []string { return slices.Sorted(maps.Keys(v.names)) }
