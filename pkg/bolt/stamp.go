package bolt

import (
	"fmt"
	"time"

	"go.etcd.io/bbolt"

	"sluice/pkg/record"
)

// stamps is a bucket of the file with the records, beside those of the tables. It holds the text
// form of the newest stamp in the file, which all tables share.
const (
	stamps = "stamps"
	newest = "newest"
)

// newestStamp returns the newest stamp in the file, or the earliest possible time if there is none.
// Later transactions have no earlier stamps.
func newestStamp(tx *bbolt.Tx) (at record.Time, err error) {
	text := []byte("0000-01-01T00:00:00.000Z")
	if b := tx.Bucket([]byte(stamps)); b != nil {
		text = b.Get([]byte(newest))
	}
	if at, err = record.ParseTime(string(text)); err != nil {
		return at, fmt.Errorf("read the newest stamp: %w", err)
	}
	return at, nil
}

// storeTime returns the time of the store: the later of the clock and the newest stamp in the file.
// So whatever the clock does, stamps are in the order of the transactions. It is the only source of
// stamps. now is a reading of the clock inside tx, which is a write transaction.
func storeTime(tx *bbolt.Tx, now time.Time) (record.Time, error) {
	at, err := newestStamp(tx)
	if clock := record.TimeOf(now); at.Compare(clock) < 0 {
		at = clock
	}
	return at, err
}

// noteStamp must be called in the transaction that stores a record with the stamp at.
func noteStamp(tx *bbolt.Tx, at record.Time) error {
	was, err := newestStamp(tx)
	if err != nil || at.Compare(was) <= 0 {
		return err
	}
	b, err := tx.CreateBucketIfNotExists([]byte(stamps))
	if err != nil {
		return err
	}
	return b.Put([]byte(newest), []byte(at.String()))
}
