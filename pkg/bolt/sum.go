package bolt

import (
	"context"
	"errors"

	"go.etcd.io/bbolt"

	"sluice/pkg/ratelimit"
)

const sumsBucket = "sums"

// Sums is a ratelimit.SumStore. It is safe for concurrent use. The bucket "sums" of its file maps the
// text of each ratelimit.Sum to its value as JSON.
type Sums struct {
	file lockedFile
}

// NewSums does not open the file. The directory of path must exist, and the first SaveSums creates the
// file.
func NewSums(path string) (*Sums, error) {
	if path == "" {
		return nil, errors.New("bolt: a path is required")
	}
	return &Sums{file: newLockedFile(path, sumsBucket)}, nil
}

func (s *Sums) Sums(ctx context.Context) (map[ratelimit.Sum]int64, error) {
	sums := make(map[ratelimit.Sum]int64)
	err := s.file.view(ctx, "read sums", func(b *bbolt.Bucket) error {
		for key, value := range scan(b, "", "", true) {
			of, err := ratelimit.ParseSum(string(key))
			if err != nil {
				return err
			}
			if sums[of], err = decode[int64](value); err != nil {
				return err
			}
		}
		return nil
	})
	return sums, err
}

func (s *Sums) SaveSums(ctx context.Context, sums map[ratelimit.Sum]int64) error {
	return s.file.update(ctx, "save sums", func(b *bbolt.Bucket) error {
		for of, n := range sums {
			var err error
			if n == 0 {
				err = b.Delete([]byte(of.String()))
			} else {
				err = putRecord(b, of.String(), n)
			}
			if err != nil {
				return err
			}
		}
		return nil
	})
}
