// Package files stores export files in an S3 bucket, or in a directory for a local server.
package files

import (
	"context"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"sluice/pkg/exportjob"
	"sluice/pkg/record"
)

// DirPrefix begins the path of every link that a Dir creates.
const DirPrefix = "/export_file/"

// LinkLifetime is how long a link is valid. Nothing ends it sooner, not even revoking the API
// key with which the link was requested.
const LinkLifetime = 5 * time.Minute

// uploads is a directory name that no workspace can have, because file keys escape dots.
const uploads = ".uploads"

// Dir is an exportjob.Files, exportjob.Links and exportjob.Downloads in a directory. A link is
// valid only for the Dir that created it. Dir is safe for concurrent use.
//
// The path of a file is its exportjob.File.Key. An upload is a directory below .uploads with
// one file per part. Files are written under a temporary name and then renamed, so none is
// ever incomplete.
type Dir struct {
	dir string
	key []byte // HMAC key that signs the links
	now func() time.Time
}

// NewDir creates dir if needed. now is the clock by which links, files and uploads expire.
func NewDir(dir string, now func() time.Time) (*Dir, error) {
	if err := errors.Join(os.MkdirAll(filepath.Join(dir, uploads), 0o700), syncDir(filepath.Dir(dir))); err != nil {
		return nil, fmt.Errorf("create the directory of export files: %w", err)
	}
	return &Dir{dir: dir, key: []byte(rand.Text()), now: now}, nil
}

func (s *Dir) Start(context.Context, exportjob.File) (upload string, err error) {
	upload = rand.Text()
	if err := os.Mkdir(s.upload(upload), 0o700); err != nil {
		return "", fmt.Errorf("start upload: %w", err)
	}
	return upload, nil
}

func (s *Dir) upload(name string) string { return filepath.Join(s.dir, uploads, name) }

func (s *Dir) part(upload string, n int) string {
	return filepath.Join(s.upload(upload), strconv.Itoa(n))
}

// Put implements exportjob.Files. The etag is the SHA-256 of the part.
func (s *Dir) Put(_ context.Context, f exportjob.File, n int, part []byte) (etag string, err error) {
	sum := sha256.Sum256(part)
	err = replace(s.part(f.Upload, n), func(to *os.File) error {
		_, err := to.Write(part)
		return err
	})
	if errors.Is(err, fs.ErrNotExist) {
		return "", exportjob.ErrUpload
	}
	if err != nil {
		return "", fmt.Errorf("put part: %w", err)
	}
	return hex.EncodeToString(sum[:]), nil
}

// replace atomically creates or replaces the named file; write supplies the content. The file
// survives a loss of power.
func replace(name string, write func(*os.File) error) (err error) {
	f, err := os.CreateTemp(filepath.Dir(name), filepath.Base(name)+".*")
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			_ = os.Remove(f.Name())
		}
	}()
	if err := errors.Join(write(f), f.Sync(), f.Close()); err != nil {
		return err
	}
	if err := os.Rename(f.Name(), name); err != nil {
		return err
	}
	return syncDir(filepath.Dir(name))
}

// syncDir makes the names in dir survive a loss of power.
func syncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}

func (s *Dir) Complete(ctx context.Context, f exportjob.File) error {
	name := s.file(f.Key)
	if err := errors.Join(os.MkdirAll(filepath.Dir(name), 0o700), syncDir(s.dir)); err != nil {
		return fmt.Errorf("complete upload: %w", err)
	}
	err := replace(name, func(to *os.File) error { return s.join(to, f) })
	if errors.Is(err, fs.ErrNotExist) {
		// The upload was completed earlier if the whole file exists, and removed otherwise.
		if info, statErr := os.Stat(name); statErr == nil && info.Size() == f.Size {
			return nil
		}
		return exportjob.ErrUpload
	}
	if err != nil {
		return fmt.Errorf("complete upload: %w", err)
	}
	return s.Abort(ctx, f)
}

// join writes the parts of f to w in order, and fails if a part differs from its ETag.
func (s *Dir) join(w io.Writer, f exportjob.File) error {
	for i, etag := range f.Parts {
		part, err := os.Open(s.part(f.Upload, i+1))
		if err != nil {
			return err
		}
		sum := sha256.New()
		_, err = io.Copy(io.MultiWriter(w, sum), part)
		if err := errors.Join(err, part.Close()); err != nil {
			return err
		}
		if hex.EncodeToString(sum.Sum(nil)) != etag {
			return exportjob.ErrUpload
		}
	}
	return nil
}

func (s *Dir) file(key string) string { return filepath.Join(s.dir, filepath.FromSlash(key)) }

func (s *Dir) Abort(_ context.Context, f exportjob.File) error {
	if f.Upload == "" {
		return nil
	}
	if err := os.RemoveAll(s.upload(f.Upload)); err != nil {
		return fmt.Errorf("abort upload: %w", err)
	}
	return nil
}

func (s *Dir) Delete(_ context.Context, f exportjob.File) error {
	name := s.file(f.Key)
	err := os.Remove(name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err == nil {
		err = syncDir(filepath.Dir(name)) // what was erased must not come back
	}
	if err != nil {
		return fmt.Errorf("delete file: %w", err)
	}
	return nil
}

// Expire removes files and uploads that have not been modified for more than this many days.
func (s *Dir) Expire(days int) error {
	oldest := s.now().AddDate(0, 0, -days)
	names, err := fs.Glob(os.DirFS(s.dir), "*/*") // files and upload directories; each new part changes its directory's time
	for _, name := range names {
		name = filepath.Join(s.dir, filepath.FromSlash(name))
		info, statErr := os.Stat(name)
		if statErr == nil && info.ModTime().Before(oldest) {
			err = errors.Join(err, os.RemoveAll(name))
		}
	}
	if err != nil {
		return fmt.Errorf("expire export files: %w", err)
	}
	return nil
}

// Link implements exportjob.Links. The link is a path on the local server.
func (s *Dir) Link(_ context.Context, f exportjob.File) (string, error) {
	key := f.Key
	if _, err := os.Stat(s.file(key)); errors.Is(err, fs.ErrNotExist) {
		return "", exportjob.ErrNoFile
	}
	expires := strconv.FormatInt(s.now().Add(LinkLifetime).Unix(), 10)
	query := url.Values{"name": {f.Name}, "expires": {expires}, "signature": {s.sign(key, f.Name, expires)}}
	return (&url.URL{Path: DirPrefix + key, RawQuery: query.Encode()}).String(), nil
}

func (s *Dir) sign(key, name, expires string) string {
	mac := hmac.New(sha256.New, s.key)
	fmt.Fprintf(mac, "%s\n%s\n%s", key, name, expires)
	return hex.EncodeToString(mac.Sum(nil))
}

// Open implements exportjob.Downloads.
func (s *Dir) Open(link *url.URL) (*os.File, http.Header, error) {
	query := link.Query()
	key, name, expires := strings.TrimPrefix(link.Path, DirPrefix), query.Get("name"), query.Get("expires")
	if !hmac.Equal([]byte(query.Get("signature")), []byte(s.sign(key, name, expires))) {
		return nil, nil, exportjob.ErrLink
	}
	if until, err := strconv.ParseInt(expires, 10, 64); err != nil || s.now().Unix() >= until {
		return nil, nil, exportjob.ErrLink
	}
	opened, err := os.Open(s.file(key))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil, &record.Error{Code: record.NotFound, Detail: "the file was deleted or has expired; start the export again"}
	}
	if err != nil {
		return nil, nil, fmt.Errorf("open export file: %w", err)
	}
	f := exportjob.File{Name: name}
	mediaType, unpacked := f.Unpacked()
	header := http.Header{"Content-Type": {mediaType}, "Content-Disposition": {disposition(f)}}
	if unpacked {
		header.Set("Content-Encoding", "gzip")
	}
	return opened, header, nil
}
