package bolt

import (
	"context"
	"errors"

	"go.etcd.io/bbolt"

	"sluice/pkg/audit"
	"sluice/pkg/record"
)

const auditBucket = "audit"

// Audit is an audit.Store that several processes can share. It is safe for concurrent use. The bucket
// "audit" of its file maps the id of each record to the record as JSON.
type Audit struct {
	file lockedFile
}

// NewAudit does not open the file. The directory of path must exist, and the first Put creates the
// file.
func NewAudit(path string) (*Audit, error) {
	if path == "" {
		return nil, errors.New("bolt: a path is required")
	}
	return &Audit{file: newLockedFile(path, auditBucket)}, nil
}

// Put implements audit.Store. It also removes the records that have been kept for long enough.
func (s *Audit) Put(ctx context.Context, r audit.Record) error {
	return s.file.update(ctx, "put audit record", func(b *bbolt.Bucket) error {
		var old []string
		for id, value := range scan(b, "", "", true) {
			other, err := decode[audit.Record](value)
			if err != nil {
				return err
			}
			if r.At.Time().Sub(other.At.Time()) < audit.Keep {
				break
			}
			old = append(old, string(id))
		}
		for _, id := range old {
			if err := b.Delete([]byte(id)); err != nil {
				return err
			}
		}
		return putRecord(b, r.ID, r)
	})
}

// List implements audit.Store. A page ends when the records that it leaves out reach
// record.MaxPassedBytes.
func (s *Audit) List(ctx context.Context, q audit.Query) (page record.Page[audit.Record], err error) {
	err = s.file.view(ctx, "list audit records", func(b *bbolt.Bucket) error {
		passed := 0
		for id, value := range scan(b, "", string(q.Cursor), false) {
			r, err := decode[audit.Record](value)
			switch {
			case err != nil:
				return err
			case string(id) == string(q.Cursor):
			case !q.Selects(r):
				if passed += len(value); passed >= record.MaxPassedBytes {
					page.Next = record.Cursor(id)
					return nil
				}
			case len(page.Records) == q.Limit:
				page.Next = record.Cursor(page.Records[q.Limit-1].ID)
				return nil
			default:
				page.Records = append(page.Records, r)
			}
		}
		return nil
	})
	return page, err
}
