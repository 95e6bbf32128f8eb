package bolt

import (
	"archive/zip"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"
	"time"

	"go.etcd.io/bbolt"
)

// A backup is a zip archive of the files of a data directory: layoutFile, recordsFile, those of
// sharedFiles that exist, and the files of finished export jobs. Its entries are not compressed, so
// that bbolt files can be verified inside the archive. It has no usedFile, so a server that starts
// with the files takes a new id.

// Backup writes a backup of the data directory dir, which no server is using, to w.
func Backup(ctx context.Context, dir string, w io.Writer) error {
	if known, err := checkDir(dir); err != nil || !known {
		return errors.Join(err, noData(dir, known))
	}
	file := filepath.Join(dir, recordsFile)
	db, err := openBolt(file, &bbolt.Options{Timeout: lockTimeout, ReadOnly: true})
	if err != nil {
		return inUse(file, err)
	}
	return errors.Join(backup(dir, layout, "", db, stoppable{ctx, w}), db.Close())
}

func noData(dir string, known bool) error {
	if known {
		return nil
	}
	return fmt.Errorf("%s is not the data directory of a server: choose another with --data-dir or DATA_DIR", dir)
}

// Backup writes a backup to w while the stores are in use. All files are as they were at one moment
// of the call. Writes continue, but the file with the records grows by what they change meanwhile.
// comment is for BackupComment.
func (s *Stores) Backup(ctx context.Context, w io.Writer, comment string) error {
	if e := s.damage.met.Load(); e != nil && e.stuck {
		return e
	}
	begun := false // only the beginning of the transaction reads memory that may not be there
	return s.damage.note(&begun, backup(s.dir, layout, comment, s.db, stoppable{ctx, w}))
}

// stoppable fails when ctx is done.
type stoppable struct {
	ctx context.Context
	io.Writer
}

func (w stoppable) Write(b []byte) (int, error) {
	if err := context.Cause(w.ctx); err != nil {
		return 0, err
	}
	return w.Writer.Write(b)
}

func backup(dir, layout, comment string, db *bbolt.DB, w io.Writer) (err error) {
	tx, shared, err := begin(dir, db)
	if err != nil {
		return err
	}
	defer tx.Rollback() //nolint:errcheck // fails only if it is repeated
	a := archive{zip.NewWriter(w), time.Now()}
	if err := errors.Join(a.SetComment(comment), a.add(layoutFile, strings.NewReader(layout))); err != nil {
		return err
	}
	for name, content := range shared {
		if err := a.add(name, bytes.NewReader(content)); err != nil {
			return err
		}
	}
	to, err := a.create(recordsFile)
	if err != nil {
		return err
	}
	if _, err := tx.WriteTo(to); errors.Is(err, io.EOF) {
		return &DamageError{Path: db.Path(), What: "it is cut off"}
	} else if err != nil {
		return err
	}
	if err := a.addExports(dir); err != nil {
		return err
	}
	return a.Close()
}

// begin returns the shared files and a transaction with the records of the same moment: it prevents
// changes of the shared files until the transaction has begun.
func begin(dir string, db *bbolt.DB) (tx *bbolt.Tx, shared map[string][]byte, err error) {
	shared = make(map[string][]byte)
	var from func(i int) error
	from = func(i int) error {
		if i == len(sharedFiles) {
			return guard(db.Path(), func() (err error) { tx, err = db.Begin(false); return err })
		}
		name := sharedFiles[i].name
		if isEmpty(filepath.Join(dir, name)) {
			return from(i + 1)
		}
		return viewFile(filepath.Join(dir, name), func(file *bbolt.Tx) error {
			var content bytes.Buffer
			_, err := file.WriteTo(&content)
			shared[name] = content.Bytes()
			return errors.Join(err, from(i+1))
		})
	}
	if err = from(0); err != nil && tx != nil {
		err = errors.Join(err, tx.Rollback())
	}
	return tx, shared, err
}

// archive is a backup that is being written.
type archive struct {
	*zip.Writer
	now time.Time
}

func (a archive) create(name string) (io.Writer, error) {
	return a.CreateHeader(&zip.FileHeader{Name: name, Method: zip.Store, Modified: a.now})
}

func (a archive) add(name string, content io.Reader) error {
	to, err := a.create(name)
	if err == nil {
		_, err = io.Copy(to, content)
	}
	return err
}

// addExports adds the files of export jobs, except those that are deleted meanwhile. They never change.
func (a archive) addExports(dir string) error {
	names, err := fs.Glob(os.DirFS(filepath.Join(dir, ExportsDir)), "*/*")
	for _, name := range names {
		if err == nil && isExport(name) {
			err = a.addFile(path.Join(ExportsDir, name), filepath.Join(dir, ExportsDir, filepath.FromSlash(name)))
		}
	}
	return err
}

func (a archive) addFile(name, path string) error {
	file, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	return errors.Join(a.add(name, file), file.Close())
}

// isExport reports whether a path below ExportsDir is that of a finished file. Names of uploads begin
// with a dot, and those of files that are being written have something after .gz.
func isExport(name string) bool {
	return filepath.IsLocal(name) && strings.Count(name, "/") == 1 && !strings.HasPrefix(name, ".") && strings.HasSuffix(name, ".gz")
}

// WriteBackup creates the file at path, which must not exist, with a backup that write writes, and
// verifies it. The file has its name only when all is well, and then survives a loss of power.
func WriteBackup(path string, write func(io.Writer) error) (size int64, err error) {
	if _, err := os.Lstat(path); err == nil {
		return 0, fmt.Errorf("%s exists already: choose another name for the backup", path)
	}
	file, err := os.OpenFile(path+".tmp", os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600)
	if errors.Is(err, fs.ErrExist) {
		return 0, fmt.Errorf("%s.tmp exists: another backup is being written there, or was stopped; remove that file if none is", path)
	}
	if err != nil {
		return 0, err
	}
	defer os.Remove(file.Name()) //nolint:errcheck // no longer there if all went well
	err = write(&steady{File: file})
	if err == nil {
		size, err = verifyBackup(file)
	}
	if err := errors.Join(err, file.Sync(), file.Close()); err != nil {
		return 0, err
	}
	if err := place(file.Name(), path); err != nil {
		return 0, err
	}
	return size, syncDir(filepath.Dir(path))
}

// steady syncs a file again and again: one sync of everything would make each commit of a server wait
// for the disk.
type steady struct {
	*os.File
	unsynced int
}

const syncBytes = 4 << 20

func (w *steady) Write(b []byte) (n int, err error) {
	n, err = w.File.Write(b)
	if w.unsynced += n; err == nil && w.unsynced >= syncBytes {
		w.unsynced, err = 0, w.Sync()
	}
	return n, err
}

// place renames a file, but overwrites none. A file system without links cannot rule out that a file
// with the new name appears meanwhile.
func place(from, to string) error {
	err := os.Link(from, to)
	if err == nil {
		return os.Remove(from)
	}
	if _, exists := os.Lstat(to); exists == nil {
		return fmt.Errorf("%s exists already: choose another name for the backup", to)
	}
	return os.Rename(from, to)
}

// verifyBackup reads a backup: the checksum of each file, and the pages of bbolt files.
func verifyBackup(file *os.File) (size int64, err error) {
	info, err := file.Stat()
	if err != nil {
		return 0, err
	}
	archive, err := zip.NewReader(file, info.Size())
	if err != nil {
		return 0, fmt.Errorf("%s is not a backup, or not a complete one: %w", file.Name(), err)
	}
	for _, f := range archive.File {
		if err := verifyEntry(file, f); err != nil {
			return 0, err
		}
	}
	return info.Size(), nil
}

func verifyEntry(file *os.File, f *zip.File) error {
	content, err := f.Open()
	if err == nil {
		_, err = io.Copy(io.Discard, content)
		err = errors.Join(err, content.Close())
	}
	if err != nil {
		return fmt.Errorf("%s in %s is damaged: %w", f.Name, file.Name(), err)
	}
	if path.Ext(f.Name) != ".db" {
		return nil
	}
	at, err := f.DataOffset()
	if err != nil || f.Method != zip.Store {
		return fmt.Errorf("%s is not a backup: %s is compressed", file.Name(), f.Name)
	}
	s := verifyPages(io.NewSectionReader(file, at, int64(f.UncompressedSize64)), int64(f.UncompressedSize64))
	if len(s.problems) > 0 {
		return fmt.Errorf("%s is damaged (%s), and so is the file in the data directory: \"sluice check\" says more", f.Name, s.problems[0])
	}
	return nil
}

// BackupComment returns the comment with which a backup was written.
func BackupComment(path string) (string, error) {
	archive, err := zip.OpenReader(path)
	if err != nil {
		return "", err
	}
	return archive.Comment, archive.Close()
}
