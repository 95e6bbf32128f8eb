package importer

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"hash/maphash"
	"io"
	"time"

	"sluice/cmd/sluice/internal/journal"
	"sluice/cmd/sluice/internal/progress"
	"sluice/pkg/client"
	"sluice/pkg/entity"
	"sluice/pkg/importfile"
	"sluice/pkg/record"
)

// check returns an error if the file cannot be imported as it is described.
func (im *importer) check(ctx context.Context, file inputFile) error {
	if err := checkNames(ctx, file, im.work, im.Options); err != nil {
		return err
	}
	return im.checkMirror(ctx, file)
}

// checkMirror refuses a file from which it cannot be said what to delete, before anything is changed.
func (im *importer) checkMirror(ctx context.Context, file inputFile) error {
	if !im.Mirror || im.Type != "" && !im.Whole {
		return nil
	}
	if im.Whole && im.Format != record.JSON {
		if err := file.checkEnd(im.work.Size); err != nil {
			return err
		}
	}
	found := 0
	err := im.eachRow(ctx, file, func(row importfile.Row) error {
		switch {
		case row.Filtered && im.Type == "":
			return journal.Refuse("%s of %s says that an entity has left a filter, so the file is a walk with a filter: name its type with --type, and such entities are deleted", im.rowName(row.Line), im.Path)
		case row.Err != nil || row.Entity.Deleted:
			return nil
		case im.Whole && im.Type != "" && row.Entity.Type != im.Type:
			return journal.Refuse("%s of %s has the type %s: with --whole and --type %s, the file must have only entities of that type", im.rowName(row.Line), im.Path, row.Entity.Type, im.Type)
		}
		found++
		return nil
	})
	if err == nil && im.Whole && found == 0 {
		err = journal.Refuse("%s has no entities, so --whole would delete all that there are; to do that, delete them with a file of tombstones", im.Path)
	}
	return err
}

// checkEnd refuses a text that may have been cut in its last line, which may look complete.
func (f inputFile) checkEnd(size int64) error {
	zipped, err := importfile.IsZip(f)
	if err != nil || zipped || size == 0 {
		return err
	}
	var magic [2]byte
	last := make([]byte, 1)
	if _, err := f.ReadAt(magic[:], 0); ignoreEOF(err) != nil {
		return err
	}
	if _, err := f.ReadAt(last, size-1); err != nil {
		return err
	}
	if magic == importfile.GzipMagic || bytes.ContainsAny(last, "\n\r\x00") { // a line break in UTF-16 ends with a zero
		return nil
	}
	return journal.Refuse("the last line of %s has no end, so the file may have been cut: --whole would then delete the rest; if it is complete, add a line break", f.Name())
}

// eachRow reads the file up to where the import ends.
func (im *importer) eachRow(ctx context.Context, file inputFile, do func(importfile.Row) error) error {
	in, err := file.content(im.work)
	if err != nil {
		return err
	}
	rows, err := importfile.Open(in, im.Description, importfile.Options{Decode: decode, ID: im.id})
	for err == nil {
		var row importfile.Row
		if row, err = rows.Read(); err != nil {
			break
		}
		if err := do(row); err != nil {
			return err
		}
		err = context.Cause(ctx)
	}
	if err != io.EOF {
		return fmt.Errorf("read %s: %w", im.Path, err)
	}
	return in.check()
}

// before returns the service's time, less how far the clocks of its instances can be apart. What was
// created later may have been created during the import.
func (im *importer) before() record.Time {
	now := im.client.Date()
	if now.IsZero() { // a proxy has removed it
		now = time.Now().Add(-clockSlack)
	}
	return record.TimeOf(now.Add(-2 * record.MaxClockSkew))
}

// removeOthers deletes the entities that the file lacks and that were there when the import began, at
// the revision that the list shows. It does nothing if a row was rejected.
func (im *importer) removeOthers(ctx context.Context, file inputFile, stderr io.Writer) error {
	if im.checkpoint.Counts.Rejected > 0 {
		fmt.Fprintln(stderr, "Nothing that the file lacks is deleted, because rows were rejected.")
		return nil
	}
	others, err := im.others(ctx, file)
	if err != nil || len(others) == 0 {
		return err
	}
	byType := make(map[string]int)
	for _, e := range others {
		byType[e.Type]++
	}
	if err := im.Confirm(byType); err != nil {
		return err
	}
	defer progress.Start(stderr, progress.Noun{One: "entity deleted", Many: "entities deleted"}, func() progress.State { return progress.State{Part: -1, Waiting: im.Waiting()} })()
	changed := 0
	for len(others) > 0 {
		batch := others[:min(len(others), client.MaxBatch)]
		others = others[len(batch):]
		var drafts []entity.Draft
		for _, e := range batch {
			drafts = append(drafts, entity.Draft{ID: e.ID, Deleted: true, IfRevision: &e.Revision})
		}
		results, err := im.client.UpsertEntities(ctx, drafts)
		if err != nil {
			return err
		}
		for _, r := range results {
			switch {
			case r.Err == nil:
				im.removed++
			case errors.Is(r.Err, client.ErrRevisionMismatch) || errors.Is(r.Err, client.ErrUnknownOutcome):
				changed++
			default:
				return r.Err
			}
		}
	}
	if changed > 0 {
		fmt.Fprintf(stderr, "%s of these had changed, and stay.\n", progress.Noun{One: "entity", Many: "entities"}.Count(int64(changed)))
	}
	return nil
}

// others lists the entities that the file lacks. It compares hashes of ids: if two were the same, an
// entity would stay.
func (im *importer) others(ctx context.Context, file inputFile) (others []entity.Entity, err error) {
	seed, inFile := maphash.MakeSeed(), make(map[uint64]bool)
	err = im.eachRow(ctx, file, func(row importfile.Row) error {
		inFile[maphash.String(seed, row.ID)] = true
		return nil
	})
	if err != nil {
		return nil, err
	}
	for e, err := range im.client.Entities(ctx, client.EntityQuery{Type: im.Type}) {
		if err != nil {
			return nil, err
		}
		if !inFile[maphash.String(seed, e.ID)] && e.CreatedAt.Compare(im.checkpoint.Before) < 0 {
			e.Attributes = nil // they are not needed, and there may be many
			others = append(others, e)
		}
	}
	return others, nil
}
