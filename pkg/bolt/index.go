package bolt

import (
	"context"
	"errors"
	"slices"

	"go.etcd.io/bbolt"

	"sluice/pkg/index"
)

const indexesBucket = "indexes"

// Indexes is an index.Store that several processes can share. It is safe for concurrent use.
// The bucket "indexes" of its file maps each Declaration.ID to the declaration as JSON.
type Indexes struct {
	file lockedFile
}

// NewIndexes does not open the file. The directory of path must exist, and the first change
// creates the file.
func NewIndexes(path string) (*Indexes, error) {
	if path == "" {
		return nil, errors.New("bolt: a path is required")
	}
	return &Indexes{file: newLockedFile(path, indexesBucket)}, nil
}

func (s *Indexes) List(ctx context.Context) (all []index.Declaration, err error) {
	err = s.file.view(ctx, "list indexes", func(b *bbolt.Bucket) (err error) {
		all, err = declarations(b)
		return err
	})
	return all, err
}

func declarations(b *bbolt.Bucket) (all []index.Declaration, err error) {
	all, err = decodeAll[index.Declaration](scan(b, "", "", true))
	slices.SortFunc(all, index.Declaration.Compare)
	return all, err
}

// Add implements index.Store.
func (s *Indexes) Add(ctx context.Context, d index.Declaration, others []index.Declaration) (index.Declaration, error) {
	err := s.file.update(ctx, "add index", func(b *bbolt.Bucket) error {
		all, err := declarations(b)
		if err != nil {
			return err
		}
		if !slices.Equal(index.NewSet(all).Of(d.Workspace, d.Type), others) {
			return index.ErrChanged
		}
		d.Revision = d.NextRevision()
		return putRecord(b, d.ID(), d)
	})
	return d, err
}

// Put implements index.Store.
func (s *Indexes) Put(ctx context.Context, d index.Declaration) (index.Declaration, error) {
	err := s.file.update(ctx, "put index", func(b *bbolt.Bucket) error {
		if err := checkRevision(b, d); err != nil {
			return err
		}
		d.Revision = d.NextRevision()
		return putRecord(b, d.ID(), d)
	})
	return d, err
}

func (s *Indexes) Remove(ctx context.Context, d index.Declaration) error {
	return s.file.update(ctx, "remove index", func(b *bbolt.Bucket) error {
		if b.Get([]byte(d.ID())) == nil {
			return nil
		}
		if err := checkRevision(b, d); err != nil {
			return err
		}
		return b.Delete([]byte(d.ID()))
	})
}

// checkRevision returns index.ErrChanged unless the stored declaration has d's revision.
func checkRevision(b *bbolt.Bucket, d index.Declaration) error {
	var stored index.Declaration
	if value := b.Get([]byte(d.ID())); value != nil {
		var err error
		if stored, err = decode[index.Declaration](value); err != nil {
			return err
		}
	}
	if stored.Revision != d.Revision {
		return index.ErrChanged
	}
	return nil
}
