package exporter

import (
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"sluice/cmd/sluice/internal/changes"
	"sluice/cmd/sluice/internal/journal"
	"sluice/pkg/client"
	"sluice/pkg/record"
)

type Changes struct {
	Records     int64       // including tombstones
	SyncedUntil record.Time // start time of the next export
}

// RunSince exports all changes since a start time to a file or to o.Stdout, in order and as NDJSON.
// For entities, includeDeleted adds tombstones. An event's only change is its creation. Of
// o.Order.Filters, RunSince uses only Type for entities and only EntityID for events. As with Run,
// the file appears only when it is complete. After an error, another call with the same arguments
// continues an export to a file.
//
// The error is a *journal.RefusedError if the service may no longer have all tombstones that the
// export needs to continue.
func RunSince(ctx context.Context, o Options, since record.Time, includeDeleted bool, c *client.Client, stderr io.Writer) (done Changes, err error) {
	if o.Now == nil {
		o.Now = time.Now
	}
	path, remove, err := o.workPath()
	if err != nil {
		return Changes{}, err
	}
	defer remove()
	task, err := newTask(ctx, c, work{o.Order, &since, includeDeleted})
	if err != nil {
		return Changes{}, err
	}
	walk, err := changes.Open(path, task, o.Now)
	if err != nil {
		return Changes{}, err
	}
	defer func() { err = errors.Join(err, walk.Close()) }()
	if began := walk.Checkpoint().Began; includeDeleted && began != nil && changes.ClocksAt(o.Now(), c.Date()).Age(*began) > changes.MaxAge {
		return Changes{}, journal.Refuse("the export in %s.part was begun more than %d days ago, so the service may no longer report all deletions since then: remove %s and export everything again, with --since 1970-01-01T00:00:00Z",
			path, changes.MaxAge/(24*time.Hour), path)
	}
	continues, err := walk.Continue(since)
	if err != nil {
		return Changes{}, err
	}
	if continues {
		fmt.Fprintf(stderr, "Continuing after %s.\n", walk.Done())
	}
	list := changes.Events(c, client.EventChangeQuery{EntityID: o.Order.Filters.EntityID})
	if o.Order.Resource == record.Entity {
		list = changes.Entities(c, client.EntityChangeQuery{Type: o.Order.Filters.Type, IncludeDeleted: includeDeleted})
	}
	if err = walk.Read(ctx, []changes.List{list}, o.Waiting, stderr); err == nil {
		err = o.deliverChanges(walk.Path())
	}
	if err != nil && o.Path != "-" {
		err = walk.Stop(ctx, err)
	}
	if err != nil {
		return Changes{}, err
	}
	if walk.Left() {
		fmt.Fprintln(stderr, "Changes come faster than this export reads them. The next one continues at synced_until.")
	}
	return Changes{walk.Checkpoint().Changes, *walk.Checkpoint().SyncedUntil}, walk.Remove()
}

// deliverChanges delivers the NDJSON file at path, gzipped unless o.Unpack is set.
func (o Options) deliverChanges(path string) error {
	part, err := os.Open(path)
	if err != nil {
		return err
	}
	defer part.Close() //nolint:errcheck // the file is only read
	ex := exporter{Options: o}
	if o.Unpack {
		return ex.deliver(part, nil)
	}
	return ex.deliver(part, func(w io.Writer, part io.Reader) error {
		packed := gzip.NewWriter(w)
		_, err := io.Copy(packed, part)
		return errors.Join(err, packed.Close())
	})
}
