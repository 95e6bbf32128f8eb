package bolt

import (
	"context"
	"errors"
	"slices"
	"time"

	"go.etcd.io/bbolt"

	"sluice/pkg/access"
)

const keysBucket = "keys"

// Keys is an access.Manager that several processes can share. It is safe for concurrent use.
// The bucket "keys" of its file maps the id of each API key to the API key as JSON.
type Keys struct {
	file lockedFile
}

// NewKeys does not open the file. The directory of path must exist, and the first Create
// creates the file.
func NewKeys(path string) (*Keys, error) {
	if path == "" {
		return nil, errors.New("bolt: a path is required")
	}
	return &Keys{file: newLockedFile(path, keysBucket)}, nil
}

func (s *Keys) Get(ctx context.Context, id string) (k access.Key, err error) {
	err = s.file.view(ctx, "get key", func(keys *bbolt.Bucket) (err error) {
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

func (s *Keys) Create(ctx context.Context, k access.Key) error {
	return s.file.update(ctx, "create key", func(keys *bbolt.Bucket) error {
		if keys.Get([]byte(k.ID)) != nil {
			return access.ErrExists
		}
		if k.MadeBy != "" {
			maker, err := getKey(keys, k.MadeBy)
			if errors.Is(err, access.ErrNotFound) {
				err = access.ErrMaker
			}
			if err == nil {
				err = maker.AddMade(k)
			}
			if err == nil {
				err = putRecord(keys, maker.ID, maker)
			}
			if err != nil {
				return err
			}
		}
		return putRecord(keys, k.ID, k)
	})
}

func (s *Keys) List(ctx context.Context, workspace, after string, limit int) (list []access.Key, next string, err error) {
	err = s.file.view(ctx, "list keys", func(keys *bbolt.Bucket) error {
		for id, value := range scan(keys, after, "", true) {
			k, err := decode[access.Key](value)
			switch {
			case err != nil:
				return err
			case string(id) == after || workspace != "" && k.Workspace != workspace:
			case len(list) == limit:
				next = list[limit-1].ID
				return nil
			default:
				list = append(list, k)
			}
		}
		return nil
	})
	return list, next, err
}

func (s *Keys) Revoke(ctx context.Context, id string, at time.Time) (access.Key, error) {
	return s.change(ctx, "revoke key", id, func(keys *bbolt.Bucket, k *access.Key) error {
		if k.RevokedAt.IsZero() {
			k.RevokedAt = at.UTC().Truncate(time.Millisecond)
		}
		if k.CountedAs == "" {
			return nil
		}
		maker, err := getKey(keys, k.CountedAs)
		if err != nil {
			return err
		}
		maker.Made = slices.DeleteFunc(maker.Made, func(entry string) bool { return entry == k.MadeEntry() })
		return putRecord(keys, maker.ID, maker)
	})
}

func (s *Keys) SetPlan(ctx context.Context, id, plan string) (access.Key, error) {
	return s.change(ctx, "set the plan of the key", id, func(_ *bbolt.Bucket, k *access.Key) error { k.Plan = plan; return nil })
}

func (s *Keys) change(ctx context.Context, op, id string, apply func(*bbolt.Bucket, *access.Key) error) (k access.Key, err error) {
	if _, err := s.Get(ctx, id); err != nil {
		return access.Key{}, err // return before update, which would create the file
	}
	err = s.file.update(ctx, op, func(keys *bbolt.Bucket) (err error) {
		if k, err = getKey(keys, id); err != nil {
			return err
		}
		if err := apply(keys, &k); err != nil {
			return err
		}
		return putRecord(keys, k.ID, k)
	})
	return k, err
}
