package localserver

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"time"

	"sluice/pkg/bolt"
)

// backupName is the layout of the names of regular backups.
const backupName = "sluice-20060102T150405Z.zip"

// backupRetry is how long a server waits after a backup that failed.
const backupRetry = time.Minute

// Backups says which backups a server makes regularly.
type Backups struct {
	Dir   string        // created if necessary; "" for no backups
	Every time.Duration // at least 1 s
	Keep  int           // how many to keep, at least 1
}

// regular makes backups of a service regularly, and removes the oldest of those that it made.
type regular struct {
	Backups
	stores *bolt.Stores
	logger *slog.Logger
}

// startBackups makes regular backups, and those that "sluice backup" asks for, until ctx is done. stop
// then waits for them. s is nil if the records are not in the data directory.
func startBackups(ctx context.Context, o Backups, s *bolt.Stores, logger *slog.Logger) (stop func(), err error) {
	switch {
	case s == nil && o.Dir != "":
		return nil, errors.New("--backup-dir is for records in the data directory; DynamoDB makes its own backups")
	case s == nil:
		return func() {}, nil
	case o.Dir != "" && (o.Every < time.Second || o.Keep < 1):
		return nil, errors.New("--backup-every must be at least 1s, and --backup-keep at least 1")
	}
	closeSocket, err := startSocket(s, logger)
	if err != nil || o.Dir == "" {
		return closeSocket, err
	}
	if err := prepare(o.Dir); err != nil {
		closeSocket()
		return nil, fmt.Errorf("--backup-dir: %w", err)
	}
	b := &regular{o, s, logger}
	done := make(chan struct{})
	go func() { defer close(done); b.run(ctx) }()
	return func() { closeSocket(); <-done }, nil
}

// prepare creates the directory for backups if necessary, and removes what servers that were killed
// left there. Another server may be writing a newer file.
func prepare(dir string) error {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	unfinished, err := filepath.Glob(filepath.Join(dir, "sluice-*.zip.tmp"))
	for _, path := range unfinished {
		at, notOurs := time.Parse(backupName+".tmp", filepath.Base(path))
		if notOurs == nil && time.Since(at) > 24*time.Hour {
			err = errors.Join(err, os.Remove(path))
		}
	}
	return err
}

func (b *regular) run(ctx context.Context) {
	for {
		made, err := b.made()
		wait := time.Duration(0)
		if len(made) > 0 {
			wait = min(b.Every, b.Every-time.Since(made[len(made)-1]))
		}
		select {
		case <-time.After(wait):
		case <-ctx.Done():
			return
		}
		if err == nil {
			err = b.make(ctx, time.Now())
		}
		if err == nil || ctx.Err() != nil {
			continue
		}
		b.logger.Error("no backup was made; trying again", "directory", b.Dir, "error", err)
		select {
		case <-time.After(min(b.Every, backupRetry)):
		case <-ctx.Done():
		}
	}
}

func (b *regular) comment() string { return "made regularly by the service " + b.stores.ServiceID }

func (b *regular) path(at time.Time) string {
	return filepath.Join(b.Dir, at.UTC().Format(backupName))
}

// made returns the times of the backups that b made, in order.
func (b *regular) made() (all []time.Time, err error) {
	files, err := os.ReadDir(b.Dir)
	for _, f := range files {
		at, err := time.Parse(backupName, f.Name())
		if err != nil {
			continue
		}
		if comment, err := bolt.BackupComment(b.path(at)); err == nil && comment == b.comment() {
			all = append(all, at)
		}
	}
	slices.SortFunc(all, time.Time.Compare)
	return all, err
}

func (b *regular) make(ctx context.Context, at time.Time) error {
	size, err := bolt.WriteBackup(b.path(at), func(w io.Writer) error { return b.stores.Backup(ctx, w, b.comment()) })
	if err != nil {
		return err
	}
	b.logger.Info("a backup was made", "directory", b.Dir, "bytes", size)
	made, err := b.made()
	for len(made) > b.Keep {
		err = errors.Join(err, os.Remove(b.path(made[0])))
		made = made[1:]
	}
	return err
}
