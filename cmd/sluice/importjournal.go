package main

import (
	"bufio"
	"bytes"
	"crypto/rand"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/google/uuid"

	"sluice/pkg/recordfile"
)

// importHead says what an import is of. It is the first line of its journal.
type importHead struct {
	Version   int               `json:"sluice_import"`
	Resource  string            `json:"resource"`
	Format    recordfile.Format `json:"format"`
	URL       string            `json:"url"`
	Size      int64             `json:"size_bytes"` // of the file
	SHA256    string            `json:"sha256"`     // of the file
	Seed      string            `json:"seed"`       // of the ids of records that have none
	StartedAt time.Time         `json:"started_at"`
}

// same reports whether h and other are of the same file and service.
func (h importHead) same(other importHead) bool {
	h.Seed, h.StartedAt = other.Seed, other.StartedAt
	return h == other
}

// importMark says how far an import is: a further line of its journal.
type importMark struct {
	Line         int64      `json:"line"`          // everything up to the record that begins here is dealt with
	RejectsBytes int64      `json:"rejects_bytes"` // of the reject file
	Counts       counts     `json:"counts"`
	FinishedAt   *time.Time `json:"finished_at,omitempty"`
}

// counts are what became of records.
type counts struct {
	Created  int64 `json:"created"`
	Existing int64 `json:"existing"` // were there already, with the same content
	Updated  int64 `json:"updated"`
	Rejected int64 `json:"rejected"`
}

func (c *counts) add(d counts) {
	c.Created += d.Created
	c.Existing += d.Existing
	c.Updated += d.Updated
	c.Rejected += d.Rejected
}

func (c counts) total() int64 { return c.Created + c.Existing + c.Updated + c.Rejected }

// journal is the file that makes an import continue where it was killed. Its
// first line is on the disk before anything is sent, so that a record without
// an id never gets two. The marks behind it only save time: what is sent once
// more is found to be there. One that is cut off by a kill is left out.
//
// A journal outlives its import, so that the same command run again does
// nothing, rather than everything with new ids.
type journal struct {
	file   *os.File
	path   string
	head   importHead
	mark   importMark // the latest
	synced time.Time
}

// syncInterval is how often marks are forced to the disk: often enough that a
// power cut costs little, so seldom that it costs nothing.
const syncInterval = 2 * time.Second

// openJournal opens the journal at path for an import, or begins one. It fails
// when another import has it open, or when it is of an unfinished import of
// something else.
func openJournal(path string, head importHead) (j *journal, err error) {
	file, err := openLocked(path, "import")
	if err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			closeLocked(file) //nolint:errcheck // it has failed already
		}
	}()
	j = &journal{file: file, path: path, head: head}
	head, mark, size, err := readJournal(file)
	switch {
	case err != nil:
		return nil, fmt.Errorf("the journal %s cannot be read: %w; if it is no journal, name another with --journal", path, err)
	case size == 0:
		return j, j.begin()
	case head.same(j.head):
		j.head, j.mark = head, mark
		return j, file.Truncate(size)
	case mark.FinishedAt != nil:
		return j, j.begin()
	}
	return nil, fmt.Errorf("the journal %s is of an import of other content, or into %s, that is not finished: finish that first, or remove the journal to give it up", path, head.URL)
}

// readJournal reads the first line and the last whole mark, and tells where that
// ends: 0 if not even the first line is whole.
func readJournal(file io.Reader) (head importHead, mark importMark, size int64, err error) {
	in := bufio.NewReader(file)
	for {
		line, err := in.ReadBytes('\n')
		if err == io.EOF {
			return head, mark, size, nil
		}
		if err != nil {
			return head, mark, 0, err
		}
		if size == 0 {
			err = json.Unmarshal(line, &head)
			if err == nil && head.Version != 1 {
				err = errors.New("it is of another version")
			}
		} else {
			var next importMark
			if err = json.Unmarshal(line, &next); err == nil {
				mark = next
			}
		}
		if err != nil {
			return head, mark, 0, err
		}
		size += int64(len(line))
	}
}

// begin writes the first line, with a new seed.
func (j *journal) begin() error {
	j.head.Version, j.head.Seed, j.head.StartedAt = 1, rand.Text(), time.Now().UTC()
	return beginJournal(j.file, j.head)
}

// write adds a mark.
func (j *journal) write(m importMark) error {
	line, err := json.Marshal(m)
	if err == nil {
		_, err = j.file.Seek(0, io.SeekEnd)
	}
	if err == nil {
		_, err = j.file.Write(append(line, '\n'))
	}
	if now := time.Now(); err == nil && (m.FinishedAt != nil || now.Sub(j.synced) > syncInterval) {
		err, j.synced = j.file.Sync(), now
	}
	if err != nil {
		return fmt.Errorf("write the journal: %w", err)
	}
	j.mark = m
	return nil
}

// close ends the use of the journal.
func (j *journal) close() error { return closeLocked(j.file) }

// seededID is the id of the record without one that begins at a line: a UUIDv8
// (RFC 9562), the same whenever it is asked for.
func seededID(seed string, line int64) string {
	text := binary.BigEndian.AppendUint64([]byte(seed+"\x00"), uint64(line))
	return uuid.NewHash(sha256.New(), uuid.Nil, text, 8).String()
}

// identify reads a file to its end for its size and hash, and goes back to its
// beginning.
func identify(file io.ReadSeeker) (size int64, sum string, err error) {
	hash := sha256.New()
	size, err = io.Copy(hash, file)
	if err == nil {
		_, err = file.Seek(0, io.SeekStart)
	}
	return size, hex.EncodeToString(hash.Sum(nil)), err
}

// rejects is the file of the records that were not accepted.
type rejects struct {
	path string
	file *os.File // nil until the first
	size int64
}

// reject is a line of the reject file.
type reject struct {
	Line   int64  `json:"line"`
	Reason string `json:"reason"`
	Status int    `json:"status,omitempty"` // of the service's answer; 0 if it was not sent
	Code   string `json:"code,omitempty"`
	Input  string `json:"input"` // as it stood in the file
}

// openRejects keeps the first size bytes of the file at path: what comes after
// them is of records that will be sent again.
func openRejects(path string, size int64) (*rejects, error) {
	r := &rejects{path: path, size: size}
	if size == 0 {
		if err := os.Remove(path); err != nil && !errors.Is(err, os.ErrNotExist) {
			return nil, err
		}
		return r, nil
	}
	err := r.open()
	if err == nil {
		err = r.file.Truncate(size)
	}
	if err == nil {
		_, err = r.file.Seek(size, io.SeekStart)
	}
	return r, err
}

func (r *rejects) open() (err error) {
	r.file, err = os.OpenFile(r.path, os.O_RDWR|os.O_CREATE, 0o600)
	return err
}

// write adds records.
func (r *rejects) write(list []reject) error {
	if len(list) == 0 {
		return nil
	}
	if r.file == nil {
		if err := r.open(); err != nil {
			return err
		}
	}
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	for _, item := range list {
		if err := enc.Encode(item); err != nil {
			return err
		}
	}
	n, err := r.file.Write(b.Bytes())
	r.size += int64(n)
	return err
}

func (r *rejects) close() error {
	if r.file == nil {
		return nil
	}
	return r.file.Close()
}
