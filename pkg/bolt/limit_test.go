package bolt_test

import (
	"encoding/json"
	"errors"
	"path/filepath"
	"testing"

	"go.etcd.io/bbolt"

	"sluice/pkg/bolt"
	"sluice/pkg/ratelimit"
	"sluice/pkg/storetest"
)

func openLimits(t *testing.T, path string) *bolt.Limits {
	t.Helper()
	s, err := bolt.NewLimits(path)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

type fillableLimits struct {
	*bolt.Limits
	path string
}

// Fill writes the rows in one transaction, as Limits stores them.
func (s fillableLimits) Fill(t *testing.T, rows []ratelimit.Row) {
	t.Helper()
	db, err := bbolt.Open(s.path, 0o600, nil)
	if err != nil {
		t.Fatal(err)
	}
	err = db.Update(func(tx *bbolt.Tx) error {
		b, err := tx.CreateBucketIfNotExists([]byte("limits"))
		for _, r := range rows {
			value, jsonErr := json.Marshal(r)
			err = errors.Join(err, jsonErr, b.Put([]byte(r.Name()), value))
		}
		return err
	})
	if err = errors.Join(err, db.Close()); err != nil {
		t.Fatal(err)
	}
}

func TestLimits(t *testing.T) {
	storetest.Limits(t, func(t *testing.T) storetest.FillableLimits {
		path := filepath.Join(t.TempDir(), "limits.db")
		return fillableLimits{openLimits(t, path), path}
	})
}
