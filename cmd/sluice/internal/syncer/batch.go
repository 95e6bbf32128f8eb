package syncer

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"slices"

	"sluice/pkg/entity"
	"sluice/pkg/record"
)

// batch is a set of changes that are applied to a copy in one pass.
type batch struct {
	lines  map[string][]byte      // each changed record's JSON line, by id; nil removes the record
	erased map[string]record.Time // when each entity was erased, by id; its events created up to then are removed
}

// readBatch reads about size bytes of changes from a walk's file. It returns io.EOF with the
// last batch.
func readBatch(in *bufio.Reader, resource record.Resource, size int) (batch, error) {
	b := batch{make(map[string][]byte), make(map[string]record.Time)}
	for read := 0; read < size; {
		line, err := readLine(in)
		if err != nil {
			return b, err
		}
		read += len(line)
		var c struct {
			ID       string      `json:"id"`
			Deleted  bool        `json:"deleted"`
			ErasedAt record.Time `json:"erased_at"`
		}
		if err := json.Unmarshal(line, &c); err != nil {
			return b, err
		}
		erased := c.ErasedAt != record.Time{}
		switch {
		case resource == record.Event && erased:
			b.erased[c.ID] = c.ErasedAt
		case c.Deleted:
			b.lines[c.ID] = nil
		default:
			if b.lines[c.ID] = line; erased {
				if b.lines[c.ID], err = plain(line); err != nil {
					return b, err
				}
			}
		}
	}
	return b, nil
}

// plain returns an entity's line without erased_at.
func plain(line []byte) ([]byte, error) {
	var c entity.Change
	if err := json.Unmarshal(line, &c); err != nil {
		return nil, err
	}
	line, err := c.Entity.AppendJSON(nil)
	return append(line, '\n'), err
}

// readLine keeps the newline.
func readLine(in *bufio.Reader) ([]byte, error) {
	line, err := in.ReadBytes('\n')
	if err == io.EOF && len(line) > 0 {
		err = io.ErrUnexpectedEOF
	}
	return line, err
}

// apply applies b to the copy in base, writes the new copy to out, and returns the number of
// records in the new copy. Both copies are sorted by id.
func (b batch) apply(ctx context.Context, base io.Reader, out io.Writer) (records int64, err error) {
	write := func(line []byte) error {
		removed, err := b.removes(line)
		if err != nil || removed {
			return err
		}
		records++
		_, err = out.Write(line)
		return err
	}
	changed := slices.Sorted(maps.Keys(b.lines))
	in := bufio.NewReaderSize(base, bufferBytes)
	for {
		line, err := readLine(in)
		if err == nil {
			err = ctx.Err()
		}
		if err == io.EOF {
			break
		}
		if err != nil {
			return records, err
		}
		id, err := idOf(line)
		if err != nil {
			return records, err
		}
		for ; len(changed) > 0 && changed[0] < id; changed = changed[1:] {
			if err := write(b.lines[changed[0]]); err != nil {
				return records, err
			}
		}
		if len(changed) > 0 && changed[0] == id {
			continue // a later iteration writes the new version of the record
		}
		if err := write(line); err != nil {
			return records, err
		}
	}
	for _, id := range changed {
		if err := write(b.lines[id]); err != nil {
			return records, err
		}
	}
	return records, nil
}

// removes reports whether the batch removes a record. It removes deleted records, whose line is
// nil, and events created no later than their entity was erased.
func (b batch) removes(line []byte) (bool, error) {
	if line == nil || len(b.erased) == 0 {
		return line == nil, nil
	}
	var e struct {
		EntityID  string      `json:"entity_id"`
		CreatedAt record.Time `json:"created_at"`
	}
	if err := json.Unmarshal(line, &e); err != nil {
		return false, err
	}
	at, erased := b.erased[e.EntityID]
	return erased && e.CreatedAt.Compare(at) <= 0, nil
}

func idOf(line []byte) (string, error) {
	rest, ok := bytes.CutPrefix(line, []byte(`{"id":"`))
	id, _, closed := bytes.Cut(rest, []byte(`"`)) // ids contain no characters that JSON escapes
	if !ok || !closed {
		return "", fmt.Errorf("not a line of a copy: %.40q", line)
	}
	return string(id), nil
}
