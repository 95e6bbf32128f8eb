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

// reject is a line of the reject file.
type reject struct {
	Line   int64  `json:"line"`
	Reason string `json:"reason"`
	Status int    `json:"status,omitempty"` // of the response; 0 if the record was not sent
	Code   string `json:"code,omitempty"`
	Input  string `json:"input"` // the record as it stands in the file
}

// rejectFile is the file of the records that were not accepted. A file is removed
// or shortened only if the journal says that an import wrote what is lost.
type rejectFile struct {
	path string
	sum  hash.Hash
	size int64 // of what the import has written; 0 until the first reject, when the file may be missing
}

// written is what an import has written to its reject file, as its journal saves it.
type written struct {
	Bytes  int64  `json:"bytes"`
	SHA256 string `json:"sha256"` // "" for no bytes
}

// newRejects returns the reject file of an import that begins. It removes the file
// of an earlier import if it is as that import left it. Any other file at path that
// is not empty is an error.
func newRejects(path string, earlier written) (*rejectFile, error) {
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
			return r, os.Remove(path)
		}
	}
	return nil, fmt.Errorf("%s exists, and is not as an earlier import of this file left it: move it away, or name another file with --rejects", path)
}

// resumeRejects returns the reject file of an import that continues after the line
// done. It must begin with what the journal says was written. Whatever follows must
// be rejects of later lines, which a killed import wrote without saving a mark: it
// is cut off, because their records are sent again. Any other file is an error.
func resumeRejects(path string, before written, done int64) (*rejectFile, error) {
	r := &rejectFile{path: path, sum: sha256.New()}
	file, err := os.OpenFile(path, os.O_RDWR, 0)
	if errors.Is(err, fs.ErrNotExist) && before.Bytes == 0 {
		return r, nil
	}
	if err == nil {
		defer file.Close()                              //nolint:errcheck // only truncated
		r.size, _ = io.CopyN(r.sum, file, before.Bytes) // a file that is too short has another sum
		if r.written() == before && onlyRejects(file, done) {
			return r, file.Truncate(before.Bytes)
		}
		err = fmt.Errorf("%s was changed", path)
	}
	return nil, fmt.Errorf("%w: the import continues only with the reject file that it left; restore it, or remove the journal to begin again with new ids", err)
}

// onlyRejects reports whether the rest of file is rejects of lines after done, of
// which the last one may be cut off.
func onlyRejects(file io.Reader, done int64) bool {
	const begin = `{"line":`
	in := bufio.NewReader(file)
	for {
		text, err := in.ReadBytes('\n')
		if err == io.EOF {
			return bytes.HasPrefix(text, []byte(begin[:min(len(text), len(begin))]))
		}
		var r reject
		if err != nil || json.Unmarshal(text, &r) != nil || r.Line <= done {
			return false
		}
	}
}

// written returns what the import has written.
func (r *rejectFile) written() written {
	if r.size == 0 {
		return written{}
	}
	return written{r.size, hex.EncodeToString(r.sum.Sum(nil))}
}

// remove removes what the import has written.
func (r *rejectFile) remove() error {
	if r.size == 0 {
		return nil
	}
	return os.Remove(r.path)
}

// write appends records, which are on the disk when it returns. The file must be as
// the last write left it.
func (r *rejectFile) write(list []reject) error {
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
