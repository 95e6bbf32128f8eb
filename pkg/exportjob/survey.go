package exportjob

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"

	"sluice/pkg/job"
	"sluice/pkg/record"
)

// The header of a CSV file is limited because the job stores it until the file is written.
const (
	maxColumns     = 2000  // maximum number of attribute names
	maxColumnBytes = 64000 // maximum total size of the names, as JSON without the quotes
)

// survey finds the names of the attributes in the job's records, for the columns of a CSV file.
func (r *run) survey(ctx context.Context) error {
	s := r.checkpoint.Survey
	found := newSurveyor(s)
	err := r.reader().eachPage(ctx, s.Cursor, func(p page) error {
		for _, row := range p.rows {
			if err := found.look(row.attributes); err != nil {
				return err
			}
		}
		s.Cursor, s.Done, s.Records = p.next, p.next == "", s.Records+int64(len(p.rows))
		if s.Done || !r.due() {
			return nil
		}
		return r.saveSurvey(s, found)
	})
	if err != nil && !errors.Is(err, ctx.Err()) {
		return err
	}
	return errors.Join(r.saveSurvey(s, found), err)
}

func (r *run) saveSurvey(s survey, found *surveyor) error {
	d, c := r.details, r.checkpoint
	further := s.Done || s.Cursor != c.Survey.Cursor
	if s.Done {
		d.RecordsExpected = &s.Records
	}
	s.Names = slices.Sorted(maps.Keys(found.names))
	c.Survey = s
	return r.save(d, c, further)
}

type surveyor struct {
	names map[string]bool
	bytes int // total size of the names, as JSON without the quotes
}

func newSurveyor(s survey) *surveyor {
	v := &surveyor{names: make(map[string]bool)}
	for _, name := range s.Names {
		v.note(name)
	}
	return v
}

func (v *surveyor) note(name string) {
	if !v.names[name] {
		v.names[name] = true
		encoded, _ := json.Marshal(name) // a string can always be encoded
		v.bytes += len(encoded) - len(`""`)
	}
}

// look adds a record's attribute names. It fails if that makes the header too large.
func (v *surveyor) look(attributes record.Attributes) error {
	members, err := record.Pairs(attributes)
	if err != nil {
		return fmt.Errorf("read attributes: %w", err)
	}
	for _, m := range members {
		v.note(m.Name)
	}
	if len(v.names) > maxColumns || v.bytes > maxColumnBytes {
		return job.Failure(fmt.Sprintf("The records have more than %d different attributes or more than %d bytes of names, which is too much for the columns of a CSV file. Export them as NDJSON.", maxColumns, maxColumnBytes))
	}
	return nil
}
