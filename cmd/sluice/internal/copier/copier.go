// Package copier keeps the records of a workspace equal to those of another, behind another URL.
//
// A copy goes round by round. A round reads the changes of entities since the last one, which are
// all at first, then the new events, and sends them to the destination. Entities are replaced or
// deleted. An entity that was erased in the source is erased in the destination too, which removes
// all its events there, so the round then sends again those that the source created afterwards.
//
// A state file says where the walks continue. Every step can be repeated with the same result.
package copier

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"sync/atomic"
	"time"

	"github.com/gofrs/flock"

	"sluice/cmd/sluice/internal/changes"
	"sluice/cmd/sluice/internal/journal"
	"sluice/cmd/sluice/internal/late"
	"sluice/cmd/sluice/internal/progress"
	"sluice/pkg/client"
	"sluice/pkg/entity"
	"sluice/pkg/record"
)

type Options struct {
	State    string        // path of the state file
	Force    bool          // begin a new copy, even if the destination has records
	Every    time.Duration // pause between rounds; 0 to return after one
	PageSize int           // records per page; if 0, the client chooses

	Now     func() time.Time                     // time.Now by default
	Sleep   func(context.Context, time.Duration) // see late.Requests; for tests
	Waiting func() string                        // what the clients are waiting for; "" while the services respond
	Done    func(Result)                         // called after each round that leaves nothing unread
}

// Result is what the rounds since the last call of Done did.
type Result struct {
	Entities    int64       `json:"entities"` // changes of entities that were sent
	Events      int64       `json:"events"`   // events that were sent
	Erasures    int64       `json:"erasures"` // erasures that the destination carried out
	Removed     int64       `json:"removed"`  // entities that the source did not have
	Differ      []string    `json:"differ"`   // ids of events that the destination has with other content
	SyncedUntil record.Time `json:"synced_until"`
}

type copier struct {
	Options
	from, to *client.Client
	stderr   io.Writer
	state    *state
	result   Result
	sent     atomic.Int64
	left     bool // whether changes came faster than a walk read them
	late     late.Requests
}

var noun = progress.Noun{One: "record", Many: "records"}

// Run copies the records that from reads to the workspace of connect's client, and shows its
// progress on stderr. The error is a *journal.RefusedError if Run must not write there. After
// any other error, a call with the same options continues. Once ctx is done, Run waits for the
// response to its last request.
func Run(ctx context.Context, o Options, from *client.Client, connect func(client.Config) (*client.Client, error), stderr io.Writer) error {
	if o.Now == nil {
		o.Now = time.Now
	}
	c := &copier{Options: o, from: from, stderr: stderr, late: late.Requests{Sleep: o.Sleep}}
	var err error
	if c.to, err = connect(client.Config{FinishTry: true, OnTry: c.late.OnTry}); err != nil {
		return err
	}
	lock := flock.New(o.State + ".lock")
	locked, err := lock.TryLock()
	if err != nil {
		return err
	}
	defer lock.Close() //nolint:errcheck // the process releases it at the latest
	if !locked {
		return fmt.Errorf("another copy with the state %s is running", o.State)
	}
	if err := c.open(ctx); err != nil {
		if ctx.Err() != nil {
			err = context.Cause(ctx)
		}
		return err
	}
	if c.state.Sending {
		c.late.GiveUp()
	}
	return errors.Join(c.rounds(ctx), c.rest())
}

// rest notes in the state file that no request is under way, if that is so.
func (c *copier) rest() error {
	s, err := load(c.State)
	if err != nil || s == nil || !s.Sending || c.late.Any() {
		return err
	}
	s.Sending = false
	return journal.SaveState(c.State, s)
}

// rounds makes one round, or, with a pause between them, one after another until ctx is done. A run
// that first completes an interrupted round makes another one, because that one may have passed what
// has changed since it began.
func (c *copier) rounds(ctx context.Context) error {
	for {
		continues := c.state.Round != nil
		err := c.round(ctx)
		switch failure, _ := errors.AsType[*client.Error](err); {
		case ctx.Err() != nil:
			return journal.Continues(context.Cause(ctx), where)
		case c.Every > 0 && failure != nil && failure.Retryable():
			fmt.Fprintf(c.stderr, "%v. The next round continues.\n", err)
			if c.state, err = load(c.State); c.state == nil {
				return cmp.Or(err, fmt.Errorf("%s is gone", c.State))
			}
		case err != nil:
			return journal.Continues(err, where)
		case continues:
			continue
		case c.left:
			fmt.Fprintln(c.stderr, "Changes come faster than this run reads them. The next round continues.")
		default:
			slices.Sort(c.result.Differ) // after an error, a page is sent again
			c.result.Differ = slices.Compact(c.result.Differ)
			c.Done(c.result)
			c.result = Result{}
		}
		if c.Every == 0 {
			return nil
		}
		select {
		case <-time.After(c.Every):
		case <-ctx.Done():
			return journal.Continues(context.Cause(ctx), where)
		}
	}
}

const where = "where this one ended"

// open loads the state, or begins a new copy.
func (c *copier) open(ctx context.Context) error {
	source, err := c.from.Source(ctx)
	if err != nil {
		return fmt.Errorf("the source: %w", err)
	}
	destination, err := c.to.Source(ctx)
	if err != nil {
		return fmt.Errorf("the destination: %w", err)
	}
	if source == destination {
		return journal.Refuse("the source and the destination are the same: %s", journal.Describe(source))
	}
	if c.state, err = load(c.State); err != nil {
		return err
	}
	switch s := c.state; {
	case s == nil || c.Force && (s.From != source || s.To != destination):
		return c.begin(ctx, source, destination)
	case s.From != source:
		return journal.Refuse("%s belongs to a copy of %s, but this is %s; name another file with --state, or begin a new copy with --force", c.State, journal.Describe(s.From), journal.Describe(source))
	case s.To != destination:
		return journal.Refuse("%s belongs to a copy to %s, but this is %s; name another file with --state, or begin a new copy with --force", c.State, journal.Describe(s.To), journal.Describe(destination))
	}
	return nil
}

// begin begins a new copy. Without Force, the destination must be empty.
func (c *copier) begin(ctx context.Context, source, destination string) error {
	entities, err := c.to.ListEntities(ctx, client.EntityQuery{Limit: 1})
	if err != nil {
		return fmt.Errorf("the destination: %w", err)
	}
	events, err := c.to.ListEvents(ctx, client.EventQuery{Limit: 1})
	if err != nil {
		return fmt.Errorf("the destination: %w", err)
	}
	sending := c.state != nil && c.state.Sending && c.state.To == destination // with what it sends, the destination would not be fresh
	fresh := !sending && len(entities.Data)+len(events.Data) == 0 && entities.NextCursor == nil && events.NextCursor == nil
	if !fresh && !c.Force {
		return journal.Refuse("the destination, %s, has records, and %s does not say that a copy wrote them; with --force, its entities are replaced, and those that the source lacks are deleted",
			journal.Describe(destination), c.State)
	}
	c.state = &state{Version: stateVersion, From: source, To: destination, Fresh: fresh, Whole: true, Sending: sending, Erased: make(map[string]record.Time)}
	return c.save(ctx)
}

// save saves the state. Before, it waits until no late request can undo what the state says is done.
func (c *copier) save(ctx context.Context) error {
	if err := c.late.Settle(ctx, c.stderr); err != nil {
		return err
	}
	return journal.SaveState(c.State, c.state)
}

// round begins a round, or continues one that was interrupted.
func (c *copier) round(ctx context.Context) error {
	defer progress.Start(c.stderr, noun, func() progress.State {
		return progress.State{Done: c.sent.Load(), Part: -1, Details: "sent", Waiting: c.Waiting()}
	})()
	c.left = false
	if _, err := c.from.Source(ctx); err != nil { // it also asks for the service's time
		return fmt.Errorf("the source: %w", err)
	}
	now := changes.ClocksAt(c.Now(), c.from.Date())
	switch age, setBack := c.state.age(now); {
	case setBack:
		fmt.Fprintln(c.stderr, "Since the last round, the source's clock has advanced less than this computer's: one of them was set. Copying everything again.")
		c.state.startOver()
	case age > changes.MaxAge:
		fmt.Fprintf(c.stderr, "The last round was more than %d days ago, so the source may no longer report all deletions since then. Copying everything again.\n", changes.MaxAge/(24*time.Hour))
		c.state.startOver()
	}
	if c.state.Round == nil {
		c.state.Round = &now
	}
	c.state.Sending = true
	if err := c.save(ctx); err != nil {
		return err
	}
	steps := []func(context.Context) error{c.copyEntities, c.removeOthers, c.copyEvents}
	for c.state.Step < len(steps) {
		if err := steps[c.state.Step](ctx); err != nil {
			return err
		}
		c.state.Step++
		if err := c.save(ctx); err != nil {
			return err
		}
	}
	c.state.end()
	c.result.SyncedUntil = c.state.syncedUntil()
	return c.save(ctx)
}

func (c *copier) copyEntities(ctx context.Context) error {
	at := &c.state.Entities
	walk := c.from.EntityChanges(client.EntityChangeQuery{UpdatedSince: at.Since, IncludeDeleted: true, Limit: c.PageSize, Cursor: at.Cursor})
	return follow(ctx, c, walk.Pages(ctx), at, walk.SyncedUntil, func(page []entity.Change) error {
		if err := c.erase(ctx, page); err != nil {
			return err
		}
		return c.sendEntities(ctx, page)
	})
}

func (c *copier) copyEvents(ctx context.Context) error {
	if c.state.Fresh { // not any more, once an event has been sent
		c.state.Fresh = false
		if err := c.save(ctx); err != nil {
			return err
		}
	}
	at := &c.state.Events
	walk := c.from.EventChanges(client.EventChangeQuery{CreatedSince: at.Since, Limit: c.PageSize, Cursor: at.Cursor})
	return follow(ctx, c, walk.Pages(ctx), at, walk.SyncedUntil, c.sendEvents(ctx))
}
