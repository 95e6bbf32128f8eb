package bolt

import (
	"archive/zip"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// Restore creates the data directory dir, which must not exist or be empty, from the backup in the
// file at path, and checks it. The report has problems if records were damaged already when the backup
// was made; a server can use dir nevertheless. If Restore fails, it leaves dir empty. A server that starts with dir has a
// new id, so that copies and journals notice that records are missing.
func Restore(ctx context.Context, path, dir string) (r *Report, err error) {
	if dir, err = filepath.Abs(dir); err != nil {
		return nil, err
	}
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer file.Close() //nolint:errcheck // only read
	size, err := verifyBackup(file)
	if err != nil {
		return nil, err
	}
	archive, err := zip.NewReader(file, size)
	if err != nil {
		return nil, err
	}
	if others, err := os.ReadDir(dir); err == nil && len(others) > 0 {
		return nil, fmt.Errorf("%s is not empty (%s): choose a new directory with --data-dir or DATA_DIR", dir, others[0].Name())
	} else if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, empty(dir))
		}
	}()
	if err := extract(ctx, archive, dir); err != nil {
		return nil, fmt.Errorf("restore %s: %w", path, err)
	}
	if err := convert(dir, conversions, func(string) error { return nil }); err != nil {
		return nil, err
	}
	return Check(ctx, dir)
}

// empty removes everything in dir.
func empty(dir string) error {
	all, err := os.ReadDir(dir)
	for _, f := range all {
		err = errors.Join(err, os.RemoveAll(filepath.Join(dir, f.Name())))
	}
	return err
}

// extract writes the layout last: without it, no server uses the directory.
func extract(ctx context.Context, archive *zip.Reader, dir string) error {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	version, err := fs.ReadFile(archive, layoutFile)
	if err != nil {
		return fmt.Errorf("it is not a backup: %w", err)
	}
	if string(version) != layout && !convertible(string(version)) {
		return fmt.Errorf("it was made by another build of Sluice (layout %.20s, not %s)", version, layout)
	}
	for _, f := range archive.File {
		if f.Name != layoutFile {
			if err := extractFile(ctx, f, dir); err != nil {
				return err
			}
		}
	}
	if err := writeFile(filepath.Join(dir, layoutFile), string(version)); err != nil {
		return err
	}
	return syncDir(filepath.Dir(dir))
}

func extractFile(ctx context.Context, f *zip.File, dir string) (err error) {
	known := f.Name == recordsFile || slices.ContainsFunc(sharedFiles, func(s sharedFile) bool { return s.name == f.Name })
	if name, export := strings.CutPrefix(f.Name, ExportsDir+"/"); !known && !(export && isExport(name)) {
		return fmt.Errorf("it is not a backup: %.100q is not a file of a data directory", f.Name)
	}
	path := filepath.Join(dir, filepath.FromSlash(f.Name))
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return err
	}
	content, err := f.Open()
	if err != nil {
		return err
	}
	defer content.Close() //nolint:errcheck // io.Copy has compared the checksum
	file, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	_, err = io.Copy(stoppable{ctx, file}, content)
	if err := errors.Join(err, file.Sync(), file.Close()); err != nil {
		return err
	}
	for at := filepath.Dir(path); err == nil; at = filepath.Dir(at) {
		if err = syncDir(at); at == dir {
			break
		}
	}
	return err
}
