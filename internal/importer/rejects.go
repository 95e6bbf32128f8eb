package importer

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"os"
)

// rejectFile is the file of the records that were not accepted.
type rejectFile struct {
	path string
	file *os.File // nil until the first
	size int64
}

// reject is a line of the reject file.
type reject struct {
	Line   int64  `json:"line"`
	Reason string `json:"reason"`
	Status int    `json:"status,omitempty"` // of the response; 0 if the record was not sent
	Code   string `json:"code,omitempty"`
	Input  string `json:"input"` // the record as it stands in the file
}

// openRejects keeps the first size bytes of the file at path: what comes after
// them is of records that will be sent again.
func openRejects(path string, size int64) (*rejectFile, error) {
	r := &rejectFile{path: path, size: size}
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

func (r *rejectFile) open() (err error) {
	r.file, err = os.OpenFile(r.path, os.O_RDWR|os.O_CREATE, 0o600)
	return err
}

// write adds records.
func (r *rejectFile) write(list []reject) error {
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

func (r *rejectFile) close() error {
	if r.file == nil {
		return nil
	}
	return r.file.Close()
}
