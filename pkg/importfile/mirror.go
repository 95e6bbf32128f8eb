package importfile

import (
	"bytes"
	"errors"

	"sluice/pkg/entity"
	"sluice/pkg/record"
)

// ErrFiltered rejects a row that says that its entity has left a filter.
var ErrFiltered = errors.New("the entity has left the filter of the walk that wrote this file; say which type the walk was filtered by, and it is deleted")

var errCondition = errors.New("if_revision has no effect in a file")

// mirror reads a record that takes the place of an entity, or deletes it.
func (r *Reader) mirror(row *Row, object []byte) {
	var ignored []string
	if row.Filtered = hasReason(object); row.Filtered {
		ignored = []string{"reason"}
	}
	d, err := entity.ParseUpsert(object, ignored...)
	switch {
	case err != nil:
		row.Err = err
	case row.Filtered && r.description.Type == "":
		row.Err = ErrFiltered
	case d.IfRevision != nil:
		row.Err = errCondition
	case d.Deleted || row.Filtered:
		d = entity.Draft{ID: d.ID, Deleted: true}
	default:
		d.Replace = true
	}
	row.Entity = d
}

// hasReason reports whether an object has the member with which walks say that an entity has left
// their filter.
func hasReason(object []byte) bool {
	if !bytes.Contains(object, []byte(`"reason"`)) {
		return false
	}
	members, err := record.Pairs(object)
	for _, m := range members {
		if err == nil && m.Name == "reason" && string(m.Value) != "null" {
			return true
		}
	}
	return false
}
