package syncer

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"hash"
	"io"
	"io/fs"
	"os"
	"slices"

	"sluice/cmd/sluice/internal/changes"
	"sluice/cmd/sluice/internal/journal"
	"sluice/pkg/record"
)

// state is the content of the state file next to a copy.
type state struct {
	Version     int             `json:"sluice_sync"`
	Source      string          `json:"source"` // the service and the workspace
	Resource    record.Resource `json:"resource"`
	SyncedUntil *record.Time    `json:"synced_until"` // nil until the copy is complete
	Began       *changes.Clocks `json:"began"`        // when the walk that completed it began; nil if none has
	Applied     *digest         `json:"applied"`      // the changes that this walk read; a walk that reads the same leaves the copy as it is
	Records     int64           `json:"records"`      // records in the copy
	Files       []digest        `json:"files"`        // files that a run may replace: the old copy and, after a merge, also the new one
}

const stateVersion = 3

func loadState(path string) (*state, error) {
	return journal.LoadState(path, func(s *state) bool { return s.Version == stateVersion }, "begin a new copy with --force")
}

// fileAt returns nil if there is no file.
func fileAt(path string) (fs.FileInfo, error) {
	info, err := os.Lstat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	return info, err
}

func isLink(path string) bool {
	info, err := os.Lstat(path)
	return err == nil && info.Mode()&fs.ModeSymlink != 0
}

// sameFile reports whether two calls of fileAt found the same, unchanged file, or both found none.
func sameFile(a, b fs.FileInfo) bool {
	if a == nil || b == nil {
		return a == b
	}
	return os.SameFile(a, b) && a.Size() == b.Size() && a.ModTime().Equal(b.ModTime())
}

// knowsSize reports whether one of s.Files has this size.
func (s *state) knowsSize(bytes int64) bool {
	return slices.ContainsFunc(s.Files, func(d digest) bool { return d.Bytes == bytes })
}

type digest struct {
	Bytes  int64  `json:"bytes"`
	SHA256 string `json:"sha256"`
}

// digester computes the digest of what is written to it.
type digester struct {
	hash.Hash
	bytes int64
}

func newDigester() *digester { return &digester{Hash: sha256.New()} }

func (d *digester) Write(p []byte) (int, error) {
	d.bytes += int64(len(p))
	return d.Hash.Write(p)
}

func (d *digester) digest() digest { return digest{d.bytes, hex.EncodeToString(d.Sum(nil))} }

func digestOf(path string) (digest, error) {
	file, err := os.Open(path)
	if err != nil {
		return digest{}, err
	}
	defer file.Close() //nolint:errcheck // the file is only read
	d := newDigester()
	_, err = io.Copy(d, file)
	return d.digest(), err
}
