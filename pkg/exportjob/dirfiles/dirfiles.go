// Package dirfiles keeps export files in a directory, for a server that needs no
// other program, and serves them to whoever has a link.
//
// A file is at its exportjob.Job.FileKey. An upload is a directory below
// .uploads that holds a file for each part. Everything is written beside its
// place and then moved, so that nothing half is ever there.
package dirfiles

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
	"mime"
	"net/http"
	"net/url"
	"os"
	"path"
	"path/filepath"
	"strconv"
	"time"

	"sluice/pkg/exportjob"
)

// Prefix is where the paths of links begin.
const Prefix = "/export_file/"

// DefaultLinkLifetime is how long a link is good.
const DefaultLinkLifetime = 15 * time.Minute

// uploads is the directory of the uploads. No workspace is called like this.
const uploads = ".uploads"

// Config tunes a Store. Its zero value is ready to use.
type Config struct {
	LinkLifetime time.Duration    // how long a link is good; DefaultLinkLifetime by default
	Now          func() time.Time // time.Now by default
}

// Store is an exportjob.Files and exportjob.Links, and the http.Handler of its
// links, which are good for as long as the Store lives, at most. It is safe for
// concurrent use.
type Store struct {
	dir string
	key []byte // of the links' signatures
	cfg Config
}

// New makes a Store in dir, which it creates if need be.
func New(dir string, cfg Config) (*Store, error) {
	if cfg.LinkLifetime == 0 {
		cfg.LinkLifetime = DefaultLinkLifetime
	}
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	if err := os.MkdirAll(filepath.Join(dir, uploads), 0o700); err != nil {
		return nil, fmt.Errorf("make the directory of export files: %w", err)
	}
	return &Store{dir: dir, key: []byte(rand.Text()), cfg: cfg}, nil
}

// Start implements exportjob.Files.
func (s *Store) Start(context.Context, exportjob.Job) (upload string, err error) {
	upload = rand.Text()
	if err := os.Mkdir(s.upload(upload), 0o700); err != nil {
		return "", fmt.Errorf("start upload: %w", err)
	}
	return upload, nil
}

func (s *Store) upload(name string) string { return filepath.Join(s.dir, uploads, name) }

// part is where part n of an upload is.
func (s *Store) part(upload string, n int) string {
	return filepath.Join(s.upload(upload), strconv.Itoa(n))
}

// Put implements exportjob.Files. The etag is the SHA-256 of the part.
func (s *Store) Put(_ context.Context, j exportjob.Job, n int, part []byte) (etag string, err error) {
	sum := sha256.Sum256(part)
	err = replace(s.part(j.Progress.Upload, n), func(f *os.File) error {
		_, err := f.Write(part)
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

// replace makes the file called name anew by write: durably, and all at once.
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
	return os.Rename(f.Name(), name)
}

// Complete implements exportjob.Files.
func (s *Store) Complete(ctx context.Context, j exportjob.Job) error {
	name := s.file(j.FileKey())
	if err := os.MkdirAll(filepath.Dir(name), 0o700); err != nil {
		return fmt.Errorf("complete upload: %w", err)
	}
	err := replace(name, func(f *os.File) error { return s.join(f, j) })
	if errors.Is(err, fs.ErrNotExist) {
		// Completed before, or gone.
		if info, statErr := os.Stat(name); statErr == nil && info.Size() == *j.SizeBytes {
			return nil
		}
		return exportjob.ErrUpload
	}
	if err != nil {
		return fmt.Errorf("complete upload: %w", err)
	}
	return s.Abort(ctx, j)
}

// join writes the job's parts one behind the other.
func (s *Store) join(w io.Writer, j exportjob.Job) error {
	for i, part := range j.Progress.Parts {
		f, err := os.Open(s.part(j.Progress.Upload, i+1))
		if err != nil {
			return err
		}
		sum := sha256.New()
		_, err = io.Copy(io.MultiWriter(w, sum), f)
		if err := errors.Join(err, f.Close()); err != nil {
			return err
		}
		if hex.EncodeToString(sum.Sum(nil)) != part.ETag {
			return exportjob.ErrUpload
		}
	}
	return nil
}

func (s *Store) file(key string) string { return filepath.Join(s.dir, filepath.FromSlash(key)) }

// Abort implements exportjob.Files.
func (s *Store) Abort(_ context.Context, j exportjob.Job) error {
	if j.Progress.Upload == "" {
		return nil
	}
	if err := os.RemoveAll(s.upload(j.Progress.Upload)); err != nil {
		return fmt.Errorf("remove upload: %w", err)
	}
	return nil
}

// Expire removes the files and uploads that nobody has written to for days.
func (s *Store) Expire(days int) error {
	oldest := s.cfg.Now().AddDate(0, 0, -days)
	var old []string
	err := filepath.WalkDir(s.dir, func(name string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		info, err := entry.Info()
		if err == nil && info.ModTime().Before(oldest) {
			old = append(old, name)
		}
		return err
	})
	if err != nil {
		return fmt.Errorf("expire export files: %w", err)
	}
	for _, name := range old {
		if err := os.Remove(name); err != nil {
			return fmt.Errorf("expire export files: %w", err)
		}
		if dir := filepath.Dir(name); filepath.Dir(dir) == filepath.Join(s.dir, uploads) {
			_ = os.Remove(dir) // once the last part is gone
		}
	}
	return nil
}

// Link implements exportjob.Links by a path of the server that the Store serves.
func (s *Store) Link(_ context.Context, j exportjob.Job) (string, error) {
	key := j.FileKey()
	expires := strconv.FormatInt(s.cfg.Now().Add(s.cfg.LinkLifetime).Unix(), 10)
	query := url.Values{"expires": {expires}, "signature": {s.sign(key, expires)}}
	return (&url.URL{Path: Prefix + key, RawQuery: query.Encode()}).String(), nil
}

// sign is the signature of a link.
func (s *Store) sign(key, expires string) string {
	mac := hmac.New(sha256.New, s.key)
	fmt.Fprintf(mac, "%s\n%s", key, expires)
	return hex.EncodeToString(mac.Sum(nil))
}

// ServeHTTP gives out the file of a link: all of it, or a range. A link that is
// forged or has expired answers 403, one whose file has expired 404.
func (s *Store) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.Method != http.MethodGet && r.Method != http.MethodHead {
		w.Header().Set("Allow", "GET, HEAD")
		http.Error(w, "Use GET.", http.StatusMethodNotAllowed)
		return
	}
	key, expires := r.URL.Path[len(Prefix):], r.URL.Query().Get("expires")
	if !hmac.Equal([]byte(r.URL.Query().Get("signature")), []byte(s.sign(key, expires))) {
		http.Error(w, "This is not a link that this server has made since it was started. Ask for the export job again to get one.", http.StatusForbidden)
		return
	}
	if until, err := strconv.ParseInt(expires, 10, 64); err != nil || s.cfg.Now().Unix() >= until {
		http.Error(w, "This link has expired. Ask for the export job again to get a new one.", http.StatusForbidden)
		return
	}
	f, err := os.Open(s.file(key))
	if err != nil {
		http.Error(w, "The file has expired. Start the export again.", http.StatusNotFound)
		return
	}
	defer f.Close() //nolint:errcheck // only read
	info, err := f.Stat()
	if err != nil {
		http.Error(w, "The file cannot be read.", http.StatusInternalServerError)
		return
	}
	header := w.Header()
	header.Set("Content-Type", "application/gzip")
	header.Set("Content-Disposition", mime.FormatMediaType("attachment", map[string]string{"filename": path.Base(key)}))
	header.Set("Cache-Control", "private, no-store")
	header.Set("X-Content-Type-Options", "nosniff")
	http.ServeContent(w, r, "", info.ModTime(), f)
}
