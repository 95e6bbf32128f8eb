//go:build js

package main

import (
	"cmp"
	"encoding/json"
	"errors"
	"io"

	"sluice/pkg/importfile"
	"sluice/pkg/record"
)

// guessed is the reply to guess and preview.
type guessed struct {
	importfile.Guessed
	Size int64 `json:"size"` // of the file to import, in bytes
}

func (s *session) guess(r request) (guessed, error) {
	name := r.Name
	if s.file.entry != nil {
		name = s.file.entry.Name
	}
	return s.sample(func(beginning []byte) (importfile.Guessed, error) {
		return importfile.Guess(beginning, name, r.Resource, options(nil))
	})
}

// preview is like guess for a file whose description is known, except for its columns.
func (s *session) preview(d importfile.Description) (guessed, error) {
	return s.sample(func(beginning []byte) (importfile.Guessed, error) {
		return importfile.Preview(beginning, d, options(nil))
	})
}

func (s *session) sample(guess func(beginning []byte) (importfile.Guessed, error)) (reply guessed, err error) {
	in, size, err := s.file.content()
	if err != nil {
		return reply, err
	}
	beginning, err := io.ReadAll(io.LimitReader(in, importfile.GuessBytes))
	if err != nil {
		return reply, err
	}
	reply.Size = size
	reply.Guessed, err = guess(beginning)
	return reply, err
}

func options(id func(line int64) string) importfile.Options {
	return importfile.Options{ID: id, Decode: decoder}
}

// rejectOf returns a row that is not sent, with its whole text.
func rejectOf(row importfile.Row) importfile.Rejected {
	return importfile.Rejected{Line: row.Line, LastLine: row.LastLine, Reason: row.Err.Error(), Text: row.Text}
}

// perProgress is how many bytes are read between two calls of session.progress.
const perProgress = 1 << 20

func (s *session) survey(d importfile.Description, indexes []importfile.Index) (importfile.Report, error) {
	in, _, err := s.file.content()
	if err != nil {
		return importfile.Report{}, err
	}
	rejects := []importfile.Rejected{}
	var told int64
	tell := func(offset int64) error {
		text, err := json.Marshal(rejects)
		if err == nil {
			s.progress.Invoke(float64(offset), string(text))
		}
		rejects, told = rejects[:0], offset
		return err
	}
	o := options(nil)
	o.Indexes = indexes
	report, err := importfile.Survey(in, d, o, func(row importfile.Row) error {
		if row.Err != nil {
			rejects = append(rejects, rejectOf(row))
		}
		if row.Offset-told < perProgress {
			return nil
		}
		return tell(row.Offset)
	})
	return report, errors.Join(err, tell(told))
}

func (s *session) open(d importfile.Description) error {
	in, _, err := s.file.content()
	if err != nil {
		return err
	}
	s.rows, err = importfile.Open(in, d, options(s.file.id))
	return err
}

const (
	maxBatch      = 100
	maxBatchBytes = 900_000 // the service accepts at most 1 MB
)

// batch is the reply to next: the next rows of the file.
type batch struct {
	Rows    []row                 `json:"rows"` // that fit into one call
	Rejects []importfile.Rejected `json:"rejects"`
	Read    int64                 `json:"read"`              // how many bytes of the file have been read
	Last    bool                  `json:"last"`              // whether no rows follow
	Failure string                `json:"failure,omitempty"` // why the rest of the file cannot be read
}

type row struct {
	Line int64  `json:"line"`
	Text string `json:"text"`
	JSON string `json:"json"`
}

// next returns the next batch, which ends early enough for one more record of the largest size.
func (s *session) next() batch {
	b := batch{Rows: []row{}, Rejects: []importfile.Rejected{}}
	size := 0
	for len(b.Rows) < maxBatch && len(b.Rejects) < maxBatch && size < maxBatchBytes-record.MaxAttributesBytes {
		in, err := s.rows.Read()
		if err == io.EOF {
			b.Last = true
			break
		}
		if err = cmp.Or(s.file.unreadable, err); err != nil {
			b.Last, b.Failure = true, err.Error()
			break
		}
		b.Read = in.Offset
		text := in.Encode()
		if in.Err != nil {
			b.Rejects = append(b.Rejects, rejectOf(in))
			continue
		}
		size += len(text) + 1
		b.Rows = append(b.Rows, row{in.Line, in.Text, string(text)})
	}
	return b
}
