package importer

import (
	"bufio"
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"hash"
	"io"
	"io/fs"
	"os"
)

type reject struct {
	Line     int64  `json:"line,omitempty"`      // absent in a JSON file
	LastLine int64  `json:"last_line,omitempty"` // absent if the record is on one line
	Element  int64  `json:"element,omitempty"`   // number of the record in a JSON file, from 1
	Reason   string `json:"reason"`
	Status   int    `json:"status,omitempty"` // HTTP status; 0 if the record was not sent
	Code     string `json:"code,omitempty"`

	// The record as it was read: in Input if it is UTF-8, otherwise in Bytes, as base64.
	Input string `json:"input"`
	Bytes []byte `json:"input_base64,omitempty"`
}

// rejectFile is the file for rejected records. An import deletes only what it or an earlier import
// wrote there.
type rejectFile struct {
	path string
	sum  hash.Hash // SHA-256 of the bytes that the import wrote
	size int64     // number of bytes that the import wrote; if 0, the file need not exist
	old  bool      // whether an earlier import wrote the file; the first write then replaces it
}

// rejectContent is what an import has written to its reject file, according to its journal.
type rejectContent struct {
	Bytes  int64  `json:"bytes"`
	SHA256 string `json:"sha256"` // empty if Bytes is 0
}

// newRejects returns the reject file of a new import. If the file at path is the unchanged
// reject file of an earlier import, the first write replaces it. If it is any other nonempty
// file, newRejects returns an error.
func newRejects(path string, earlier rejectContent) (*rejectFile, error) {
	r := &rejectFile{path: path, sum: sha256.New()}
	switch info, err := os.Stat(path); {
	case errors.Is(err, fs.ErrNotExist):
		return r, nil
	case err != nil:
		return nil, err
	case info.Mode().IsRegular() && info.Size() == 0:
		return r, nil
	case info.Mode().IsRegular() && info.Size() == earlier.Bytes:
		if _, err := resumeRejects(path, earlier, 0); err == nil {
			r.old = true
			return r, nil
		}
	}
	return nil, fmt.Errorf("%s exists, and it is not the unchanged reject file of an earlier import of this file: move it away, or name another file with --rejects", path)
}

// resumeRejects returns the reject file of an import that continues after lastLine. The file
// must begin with the content described in the journal. After that, there may be rejects of
// later lines, which a killed import wrote before it could save a checkpoint. They are removed,
// because their records are sent again. Any other content is an error.
func resumeRejects(path string, before rejectContent, lastLine int64) (*rejectFile, error) {
	r := &rejectFile{path: path, sum: sha256.New()}
	file, err := os.OpenFile(path, os.O_RDWR, 0)
	if errors.Is(err, fs.ErrNotExist) && before.Bytes == 0 {
		return r, nil
	}
	if err == nil {
		defer file.Close()                              //nolint:errcheck // only Truncate changes the file, and its error is returned
		r.size, _ = io.CopyN(r.sum, file, before.Bytes) // if this fails, r.size differs from before.Bytes
		if r.content() == before && onlyRejects(file, lastLine) {
			return r, file.Truncate(before.Bytes)
		}
		err = fmt.Errorf("%s was changed", path)
	}
	return nil, fmt.Errorf("%w: the import continues only with its unchanged reject file; restore it, or remove the journal to start over, which stores records without an id a second time", err)
}

// onlyRejects reports whether the rest of the file has only rejects of lines after lastLine.
// The last reject may be incomplete.
func onlyRejects(file io.Reader, lastLine int64) bool {
	in := bufio.NewReader(file)
	for {
		text, err := in.ReadBytes('\n')
		if err == io.EOF {
			return begins(text, `{"line":`) || begins(text, `{"element":`)
		}
		var r reject
		if err != nil || json.Unmarshal(text, &r) != nil || max(r.Line, r.Element) <= lastLine {
			return false
		}
	}
}

// begins reports whether text is a prefix of want, or vice versa.
func begins(text []byte, want string) bool {
	return bytes.HasPrefix(text, []byte(want[:min(len(text), len(want))]))
}

// content describes what the import has written, for the journal.
func (r *rejectFile) content() rejectContent {
	if r.size == 0 {
		return rejectContent{}
	}
	return rejectContent{r.size, hex.EncodeToString(r.sum.Sum(nil))}
}

// remove removes the file if the import has written to it.
func (r *rejectFile) remove() error {
	if r.size == 0 {
		return nil
	}
	return os.Remove(r.path)
}

// write appends to the file and syncs it. It fails if another program changed the file's size.
func (r *rejectFile) write(list []reject) error {
	if r.old {
		if err := os.Remove(r.path); err != nil {
			return err
		}
		r.old = false
	}
	if len(list) == 0 {
		return nil
	}
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	for _, item := range list {
		if err := enc.Encode(item); err != nil {
			return err
		}
	}
	file, err := os.OpenFile(r.path, os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o600)
	if err != nil {
		return err
	}
	info, err := file.Stat()
	if err == nil && info.Size() != r.size {
		err = fmt.Errorf("%s was changed by another program", r.path)
	}
	if err == nil {
		r.size += int64(b.Len())
		r.sum.Write(b.Bytes())
		_, err = file.Write(b.Bytes())
	}
	return errors.Join(err, file.Sync(), file.Close())
}
