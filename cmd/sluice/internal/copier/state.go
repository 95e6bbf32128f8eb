package copier

import (
	"maps"
	"time"

	"sluice/cmd/sluice/internal/changes"
	"sluice/cmd/sluice/internal/journal"
	"sluice/pkg/entity"
	"sluice/pkg/record"
)

// state is what a copy keeps between runs. It is saved after each page, so a run that is killed
// repeats at most one page, with the same result.
type state struct {
	Version int    `json:"sluice_copy"`
	From    string `json:"from"` // the source's service and workspace
	To      string `json:"to"`   // the destination's

	// Round is when the round in progress began, and Step its step; nil between rounds.
	Round *changes.Clocks `json:"round"`
	Step  int             `json:"step"`

	// Sending says that a run is sending, or has ended without the response to its last request.
	Sending bool `json:"sending"`

	// Began is when the last complete round began: all changes and tombstones since then are still to
	// be read. It is nil until a round is complete.
	Began *changes.Clocks `json:"began"`

	Entities position `json:"entities"`
	Events   position `json:"events"`

	// Fresh says that the destination had no records when the copy began, and has got no events since.
	// So there is nothing that the source lacks, and nothing to erase.
	Fresh bool `json:"fresh"`

	// Whole says that the round reads everything, so that entities that the source lacks can be found.
	Whole bool `json:"whole"`

	// Erased has the erased_at, by entity, of the erasures that the destination has carried out. It
	// keeps them for as long as events of the source can precede them.
	Erased map[string]record.Time `json:"erased"`
}

// position says where a walk begins and, if it was interrupted, where it continues.
type position struct {
	Since  record.Time `json:"since"`
	Cursor string      `json:"cursor"`
}

const stateVersion = 1

func load(path string) (*state, error) {
	return journal.LoadState(path, func(s *state) bool { return s.Version == stateVersion }, "name another file with --state")
}

// startOver makes the next round read everything again.
func (s *state) startOver() {
	s.Round, s.Step, s.Began, s.Entities, s.Events, s.Whole, s.Fresh = nil, 0, nil, position{}, position{}, true, false
}

// handled reports whether the destination has carried out the erasure of c. An erasure's job ends
// within the age of a tombstone, so an older one is in an earlier walk.
func (s *state) handled(c entity.Change) bool {
	return c.ErasedAt.Compare(s.Erased[c.ID]) <= 0 || s.old(c.ErasedAt)
}

func (s *state) old(erasedAt record.Time) bool {
	return s.Entities.Since.Time().Sub(erasedAt.Time()) > entity.TombstoneAge
}

// noteErased records that the destination has carried out the erasure of c, which has removed events
// that the source created later too. The walk of events sends them again.
func (s *state) noteErased(c entity.Change) {
	s.Erased[c.ID] = c.ErasedAt
	if c.ErasedAt.Compare(s.Events.Since) < 0 {
		s.Events.Since = c.ErasedAt
	}
}

// erases reports whether an erasure in the source has removed, or will remove, an event of an entity.
func (s *state) erases(entityID string, createdAt record.Time) bool {
	at, ok := s.Erased[entityID]
	return ok && createdAt.Compare(at) <= 0
}

// end ends a round.
func (s *state) end() {
	s.Began, s.Round, s.Step, s.Whole, s.Sending = s.Round, nil, 0, false, false
	maps.DeleteFunc(s.Erased, func(_ string, at record.Time) bool { return s.old(at) })
}

// syncedUntil returns a time before which the destination has every change.
func (s *state) syncedUntil() record.Time {
	if s.Events.Since.Compare(s.Entities.Since) < 0 {
		return s.Events.Since
	}
	return s.Entities.Since
}

// age returns how long ago the changes begin that are still to be read, and whether a clock was set
// since. now is what the clocks show.
func (s *state) age(now changes.Clocks) (age time.Duration, setBack bool) {
	began := s.Began
	if began == nil {
		began = s.Round
	}
	if began == nil {
		return 0, false
	}
	return now.Age(*began), now.SetBack(*began)
}
