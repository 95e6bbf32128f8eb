package main

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	api "sluice/pkg/client"
)

// markInterval is how often an import notes how far it is.
const markInterval = 200 * time.Millisecond

// importer is one run of import.
type importer struct {
	importOptions
	client   *api.Client
	seed     string
	journal  *journal   // nil for standard input
	mark     importMark // how far it is
	size     int64      // of the file; 0 if it is not known
	expected string     // SHA-256 of the file; "" if it is not known

	finishedBefore *time.Time // by an earlier run

	calls, refused atomic.Int64
	shown          atomic.Pointer[state]
	took           time.Duration
}

func newSeed() string { return rand.Text() }

func (im *importer) onTry(t api.Try) {
	im.calls.Add(1)
	if t.Status == http.StatusTooManyRequests {
		im.refused.Add(1)
	}
}

// batch is what one worker sends at a time.
type batch struct {
	number  int // from 0, in the order of the file
	records []fileRecord
}

// outcome is what became of a batch.
type outcome struct {
	number  int
	last    int64 // line of the last record
	offset  int64 // where it ends
	counts  counts
	rejects []reject
}

// run sends what is not done yet. The reader and the workers run at the same
// time; the first error stops them all.
func (im *importer) run(ctx context.Context, file io.Reader, stderr io.Writer) (err error) {
	began := time.Now()
	defer func() { im.took = time.Since(began) }()
	list, err := openRejects(im.rejects, im.mark.RejectsBytes)
	if err != nil {
		return fmt.Errorf("open the reject file: %w", err)
	}
	defer func() { err = errors.Join(err, list.close()) }()
	hash := sha256.New()
	im.show(0)
	shown := startProgress(stderr, im.resource, func() state {
		s := *im.shown.Load()
		s.details += fmt.Sprintf(", %d calls refused", im.refused.Load())
		return s
	})
	defer shown.close()

	done := im.mark.Line // commit moves the mark
	// Workers end together where the server gathers writers; room for one more
	// batch of each keeps them from waiting for the reader.
	batches := make(chan batch, im.workers)
	outcomes := &committer{im: im, rejects: list, waiting: make(map[int]outcome)}
	g, ctx := errgroup.WithContext(ctx)
	g.Go(func() error {
		defer close(batches)
		return im.read(ctx, io.TeeReader(file, hash), done, batches)
	})
	for range im.workers {
		g.Go(func() error {
			for b := range batches {
				o, err := im.send(ctx, b)
				if err == nil {
					err = outcomes.commit(o)
				}
				if err != nil {
					return err
				}
			}
			return nil
		})
	}
	if err := errors.Join(g.Wait(), im.save()); err != nil {
		return err
	}
	if im.expected != "" && hex.EncodeToString(hash.Sum(nil)) != im.expected {
		return errors.New("the file changed while it was read")
	}
	return im.finish()
}

// read makes batches of the records that begin after the line done.
func (im *importer) read(ctx context.Context, file io.Reader, done int64, batches chan<- batch) error {
	records, err := openRecords(file, im.format, im.resource == "events", func(line int64) string { return seededID(im.seed, line) })
	if err != nil {
		return err
	}
	most := api.MaxBatchEvents
	if im.oneByOne || im.resource == "entities" {
		most = 1
	}
	var next batch
	var size int
	give := func() error {
		if len(next.records) == 0 {
			return nil
		}
		select {
		case batches <- next:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
		next, size = batch{number: next.number + 1}, 0
		return nil
	}
	for {
		rec, err := records.read()
		if err == io.EOF {
			return give()
		}
		if err != nil {
			return fmt.Errorf("read %s: %w", im.path, err)
		}
		if rec.Line <= done {
			continue
		}
		recordSize := sizeOf(rec.event)
		if len(next.records) == most || size+recordSize > api.MaxBatchBytes {
			if err := give(); err != nil {
				return err
			}
		}
		next.records = append(next.records, rec)
		size += recordSize
	}
}

// sizeOf is no less than what an event takes of a batch's bytes: six for a
// character that JSON escapes, and the names of the members.
func sizeOf(e api.NewEvent) int {
	return len(e.Attributes) + 6*len(e.Name) + len(e.ID) + len(e.EntityID) + 128
}

// send puts the records of a batch in. An error means that some of them have no
// final answer.
func (im *importer) send(ctx context.Context, b batch) (outcome, error) {
	last := b.records[len(b.records)-1]
	o := outcome{number: b.number, last: last.Line, offset: last.Offset}
	var good []fileRecord
	for _, rec := range b.records {
		if rec.Err != nil {
			o.reject(rec, reject{Reason: rec.Err.Error()})
			continue
		}
		good = append(good, rec)
	}
	var err error
	switch {
	case im.resource == "entities":
		err = im.each(good, &o, func(rec fileRecord) (*int64, error) { return im.putEntity(ctx, rec, &o.counts) })
	case len(good) > 1:
		err = im.putEvents(ctx, good, &o)
	default:
		err = im.each(good, &o, func(rec fileRecord) (*int64, error) { return im.putEvent(ctx, rec, &o.counts) })
	}
	return o, err
}

// each puts records in one after the other; put tells what to count.
func (im *importer) each(list []fileRecord, o *outcome, put func(fileRecord) (*int64, error)) error {
	for _, rec := range list {
		counter, err := put(rec)
		if err := o.note(rec, counter, err); err != nil {
			return err
		}
	}
	return nil
}

// putEvents creates events in one call. If the service refuses the whole for
// what is in it, each is tried by itself.
func (im *importer) putEvents(ctx context.Context, list []fileRecord, o *outcome) error {
	events := make([]api.NewEvent, len(list))
	for i, rec := range list {
		events[i] = rec.event
	}
	results, err := im.client.CreateEvents(ctx, events)
	switch {
	case isRejection(err):
		return im.each(list, o, func(rec fileRecord) (*int64, error) { return im.putEvent(ctx, rec, &o.counts) })
	case err != nil:
		return err
	}
	for i, r := range results {
		if err := o.note(list[i], o.counts.created(r.Created), r.Err); err != nil {
			return err
		}
	}
	return nil
}

func (im *importer) putEvent(ctx context.Context, rec fileRecord, c *counts) (*int64, error) {
	_, created, err := im.client.CreateEvent(ctx, rec.event)
	return c.created(created), err
}

// putEntity creates an entity, or with --update merges it into the one that is
// there.
func (im *importer) putEntity(ctx context.Context, rec fileRecord, c *counts) (*int64, error) {
	_, created, err := im.client.CreateEntity(ctx, rec.entity)
	if !im.update || !errors.Is(err, api.ErrConflict) {
		return c.created(created), err
	}
	there, getErr := im.client.GetEntity(ctx, rec.entity.ID)
	switch {
	case errors.Is(getErr, api.ErrNotFound):
		return nil, err // deleted in between; let the conflict stand
	case getErr != nil:
		return nil, getErr
	case there.Type != rec.entity.Type:
		return nil, &api.Error{Status: http.StatusConflict, Code: "conflict", Detail: fmt.Sprintf("the entity there has the type %q, which cannot change", there.Type)}
	}
	patch := rec.entity.Attributes
	if patch == nil {
		patch = []byte("{}")
	}
	_, err = im.client.UpdateEntity(ctx, rec.entity.ID, patch)
	return &c.Updated, err
}

// created is the counter of a record that was created, or was there.
func (c *counts) created(created bool) *int64 {
	if created {
		return &c.Created
	}
	return &c.Existing
}

// isRejection reports whether err is about the record, and stays so however
// often it is sent.
func isRejection(err error) bool {
	var e *api.Error
	if !errors.As(err, &e) {
		return false
	}
	switch e.Status {
	case http.StatusBadRequest, http.StatusConflict, http.StatusRequestEntityTooLarge, http.StatusUnprocessableEntity:
		return e.Code != ""
	case http.StatusNotFound:
		return e.Code == "not_found"
	}
	return false
}

// note counts what became of a record. It returns the errors that are not about
// the record.
func (o *outcome) note(rec fileRecord, counter *int64, err error) error {
	var e *api.Error
	switch {
	case err == nil:
		*counter++
		return nil
	case !isRejection(err) || !errors.As(err, &e):
		return err
	}
	o.reject(rec, reject{Reason: e.Detail, Status: e.Status, Code: e.Code})
	return nil
}

func (o *outcome) reject(rec fileRecord, r reject) {
	r.Line, r.Input = rec.Line, rec.Text
	o.rejects = append(o.rejects, r)
	o.counts.Rejected++
}

// committer notes outcomes in the order of the file, whatever the order in which
// they come.
type committer struct {
	im      *importer // whose mark it moves
	rejects *rejects

	mu      sync.Mutex
	waiting map[int]outcome // that came before an earlier one, by number
	next    int             // number of the outcome to note next
	marked  time.Time       // when the journal was written
}

// commit notes an outcome and those that were waiting for it.
func (c *committer) commit(o outcome) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.waiting[o.number] = o
	for o, ok := c.waiting[c.next]; ok; o, ok = c.waiting[c.next] {
		delete(c.waiting, c.next)
		c.next++
		if err := c.rejects.write(o.rejects); err != nil {
			return fmt.Errorf("write the reject file: %w", err)
		}
		c.im.mark.Line, c.im.mark.RejectsBytes = o.last, c.rejects.size
		c.im.mark.Counts.add(o.counts)
		c.im.show(o.offset)
	}
	if time.Since(c.marked) < markInterval {
		return nil
	}
	c.marked = time.Now()
	return c.im.save()
}

// save writes how far the import is to its journal.
func (im *importer) save() error {
	if im.journal == nil {
		return nil
	}
	return im.journal.write(im.mark)
}

// show updates the progress that is shown.
func (im *importer) show(offset int64) {
	c := im.mark.Counts
	s := state{done: c.total(), part: -1, details: fmt.Sprintf("%d rejected", c.Rejected)}
	if im.size > 0 {
		s.part = min(float64(offset)/float64(im.size), 1)
	}
	im.shown.Store(&s)
}

// finish notes in the journal that the import is done.
func (im *importer) finish() error {
	now := time.Now().UTC().Truncate(time.Second)
	im.mark.FinishedAt = &now
	return im.save()
}
