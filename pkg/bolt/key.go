package bolt

import (
	"context"
	"errors"
	"slices"
	"time"

	"go.etcd.io/bbolt"

	"sluice/pkg/access"
)

// Keys is an access.Manager. It is safe for concurrent use, even by several
// processes.
//
// If the context is already done when a method is called, the method does nothing
// and returns an error. The methods do not check the context later.
//
// It keeps API keys in a separate bbolt file, so that a local server
// needs no database.
//
// bbolt locks a file while it is open, so each operation opens and closes the
// file. Other processes can therefore change the keys while a server runs. The
// server reads each key at most once a minute.
//
// The bucket "keys" maps each id to its key in JSON.
type Keys struct {
	file lockedFile
}

// NewKeys returns a Store in the file at path. The directory must exist. The first call of
// Create creates the file. Before this call, the Store is empty.
func NewKeys(path string) (*Keys, error) {
	if path == "" {
		return nil, errors.New("bolt: a path is required")
	}
	return &Keys{file: lockedFile{Path: path, Bucket: "keys"}}, nil
}

// Get implements access.Store.
func (s *Keys) Get(ctx context.Context, id string) (k access.Key, err error) {
	err = s.file.View(ctx, "get key", func(keys *bbolt.Bucket) (err error) {
		k, err = getKey(keys, id)
		return err
	})
	return k, err
}

func getKey(keys *bbolt.Bucket, id string) (access.Key, error) {
	if keys == nil {
		return access.Key{}, access.ErrNotFound
	}
	value := keys.Get([]byte(id))
	if value == nil {
		return access.Key{}, access.ErrNotFound
	}
	return decode[access.Key](value)
}

// Create implements access.Manager.
func (s *Keys) Create(ctx context.Context, k access.Key) error {
	return s.file.Update(ctx, "create key", func(keys *bbolt.Bucket) error {
		if keys.Get([]byte(k.ID)) != nil {
			return access.ErrExists
		}
		return putRecord(keys, k.ID, k)
	})
}

// List implements access.Manager.
func (s *Keys) List(ctx context.Context) (list []access.Key, err error) {
	err = s.file.View(ctx, "list keys", func(keys *bbolt.Bucket) error {
		for _, value := range scan(keys, "", "", true) {
			k, err := decode[access.Key](value)
			if err != nil {
				return err
			}
			list = append(list, k)
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	slices.SortStableFunc(list, func(a, b access.Key) int { return a.CreatedAt.Compare(b.CreatedAt) })
	return list, nil
}

// Revoke implements access.Manager.
func (s *Keys) Revoke(ctx context.Context, id string, at time.Time) (k access.Key, err error) {
	if _, err := s.Get(ctx, id); err != nil {
		return access.Key{}, err // return before the call of Update, which would create the file
	}
	err = s.file.Update(ctx, "revoke key", func(keys *bbolt.Bucket) (err error) {
		if k, err = getKey(keys, id); err != nil {
			return err
		}
		if k.RevokedAt.IsZero() {
			k.RevokedAt = at.UTC().Truncate(time.Millisecond)
		}
		return putRecord(keys, k.ID, k)
	})
	return k, err
}
