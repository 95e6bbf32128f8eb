package importer

import (
	"context"
	"errors"
	"fmt"
	"io"

	"sluice/cmd/sluice/internal/progress"
	"sluice/pkg/client"
	"sluice/pkg/importfile"
)

// perRound is how many calls each worker makes before the results are committed.
const perRound = 8

// run imports the records that have no result yet. In each round it reads records, sends them
// with concurrent calls, and commits the results in file order.
func (im *importer) run(ctx context.Context, file inputFile, stderr io.Writer) error {
	if err := im.chooseTypes(ctx, file, stderr); err != nil {
		return err
	}
	in, err := file.content(im.work)
	if err != nil {
		return err
	}
	im.size = in.size
	defer progress.Start(stderr, progress.Noun{One: "record", Many: "records"}, im.state)()
	records, err := importfile.Open(in, im.checkpoint.Description, importfile.Options{Decode: decode, ID: im.id})
	if err != nil {
		return fmt.Errorf("read %s: %w", im.Path, err)
	}
	for err == nil {
		var list []row
		list, err = im.read(records)
		if err := im.announce(list); err != nil {
			return err
		}
		if sendErr := im.sendAll(ctx, list); sendErr != nil {
			err = sendErr
		} else if err := im.settle(ctx, stderr); err != nil {
			return err // without a commit, so that the next run waits
		}
		if im.fresh && !im.stored.Load() && err != nil && err != io.EOF {
			return err
		}
		if commitErr := im.commit(list); commitErr != nil {
			err = errors.Join(err, commitErr)
		}
	}
	if err != io.EOF {
		return err
	}
	if err := records.Missing(true); err != nil {
		fmt.Fprintf(stderr, "Note: %v. The records are imported without it.\n", err)
	}
	return in.check()
}

// id is importfile.Options.ID.
func (im *importer) id(line int64) string { return importfile.SeededID(im.checkpoint.Seed, line) }

// read returns the records of the next round. With the last records, it also returns io.EOF.
func (im *importer) read(records *importfile.Reader) (list []row, err error) {
	calls := perRound * im.Workers
	ids := make(map[string]bool) // the calls of a round are concurrent, so in a mirror, where the last row counts, an id is in it once
	for size := 0; len(list) < calls*im.perCall() && size < calls*client.MaxBatchBytes; {
		rec, err := im.nextRow(records)
		switch {
		case err == io.EOF:
			return list, err
		case err != nil:
			return list, fmt.Errorf("read %s: %w", im.Path, err)
		case rec.Line <= im.checkpoint.Line:
			continue
		case im.Mirror && ids[rec.ID]:
			im.held = &rec
			return list, nil
		}
		ids[rec.ID] = im.Mirror && rec.ID != ""
		list, size = append(list, rec), size+rec.size()
	}
	return list, nil
}

func (im *importer) nextRow(records *importfile.Reader) (row, error) {
	if held := im.held; held != nil {
		im.held = nil
		return *held, nil
	}
	read, err := records.Read()
	return row{Row: read}, err
}

// settle waits for late requests in a mirror, where the last row of an id counts.
func (im *importer) settle(ctx context.Context, stderr io.Writer) error {
	if !im.Mirror {
		return nil
	}
	return im.late.Settle(ctx, stderr)
}

// announce notes in the journal that these records are about to be sent.
func (im *importer) announce(records []row) error {
	im.lost.Store(false)
	if im.journal == nil || len(records) == 0 {
		return nil
	}
	im.mu.Lock()
	im.checkpoint.Sent = records[len(records)-1].Line
	im.mu.Unlock()
	return im.journal.Save(im.checkpoint)
}

// commit saves the results of the records, up to the first one that has none. It writes the
// rejected records to the reject file, and then a checkpoint to the journal.
func (im *importer) commit(records []row) error {
	im.fresh = false
	done := im.checkpoint
	var rejects []reject
	for _, rec := range records {
		if rec.counts == (Counts{}) {
			break
		}
		done.Line, done.Offset, done.Rejected = rec.Line, rec.Offset, rec.reject != nil
		done.Counts.add(rec.counts)
		if rec.reject != nil {
			rejects = append(rejects, *rec.reject)
		}
	}
	if err := im.rejects.write(rejects); err != nil {
		return fmt.Errorf("write the reject file: %w", err)
	}
	done.Rejects = im.rejects.content()
	im.mu.Lock()
	im.checkpoint = done
	im.mu.Unlock()
	if im.journal == nil {
		return nil
	}
	return im.journal.Save(im.checkpoint)
}

func (im *importer) state() progress.State {
	im.mu.Lock()
	defer im.mu.Unlock()
	c := im.checkpoint.Counts
	s := progress.State{Done: c.Total(), Part: -1, Waiting: im.Waiting(), Details: fmt.Sprintf("%d rejected, %d refused by a limit", c.Rejected, im.refused.Load())}
	if im.size > 0 {
		s.Part = min(float64(im.checkpoint.Offset)/float64(im.size), 1)
	}
	return s
}
