package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"reflect"
	"time"

	"github.com/google/uuid"

	api "sluice/pkg/client"
)

// exportHead says what an export is of. It is all of its journal.
type exportHead struct {
	Version   int              `json:"sluice_export"`
	URL       string           `json:"url"`
	Order     api.NewExportJob `json:"order"`
	StartedAt time.Time        `json:"started_at"`
}

// same reports whether h and other are of the same records and service.
func (h exportHead) same(other exportHead) bool {
	h.Order.ID, h.StartedAt = other.Order.ID, other.StartedAt
	return reflect.DeepEqual(h, other)
}

// exportJournal is the file that makes an export continue where it was killed.
// The id of its job is on the disk before the job is ordered, so that no run
// orders a second one. It is removed when the export is done.
type exportJournal struct {
	file    *os.File
	head    exportHead
	resumed bool // an earlier run began it
}

// openExportJournal opens the journal at path for an export, or begins one. It
// fails when another export has it open, or when it is of an export of something
// else.
func openExportJournal(path string, head exportHead) (j *exportJournal, err error) {
	file, err := openLocked(path, "export")
	if err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			closeLocked(file) //nolint:errcheck // it has failed already
		}
	}()
	head.Version = 1
	j = &exportJournal{file: file, head: head}
	text, err := io.ReadAll(file)
	if err != nil {
		return nil, fmt.Errorf("read the journal: %w", err)
	}
	if len(text) == 0 {
		return j, j.begin()
	}
	var earlier exportHead
	switch err := json.Unmarshal(text, &earlier); {
	case err != nil || earlier.Version != 1:
		return nil, fmt.Errorf("the journal %s cannot be read; if no export to this file is under way, remove it", path)
	case !earlier.same(head):
		return nil, fmt.Errorf("the journal %s is of an export of other records, or from %s, that is not finished: finish that first, or remove the journal to give it up", path, earlier.URL)
	}
	j.head, j.resumed = earlier, true
	return j, nil
}

// part is where what has been downloaded is.
func (j *exportJournal) part() string { return j.file.Name() + ".part" }

// begin makes the journal one of a new job, of which nothing has been
// downloaded.
func (j *exportJournal) begin() error {
	if err := j.removePart(); err != nil {
		return err
	}
	id, err := uuid.NewV7()
	if err != nil {
		return err
	}
	j.head.Order.ID, j.head.StartedAt = id.String(), time.Now().UTC()
	return beginJournal(j.file, j.head)
}

func (j *exportJournal) removePart() error {
	if err := os.Remove(j.part()); err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	return nil
}

// remove takes the journal away, with what may be left of the download.
func (j *exportJournal) remove() error {
	return errors.Join(j.removePart(), os.Remove(j.file.Name()))
}

// close ends the use of the journal.
func (j *exportJournal) close() error { return closeLocked(j.file) }
