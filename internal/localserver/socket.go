package localserver

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"time"

	"sluice/pkg/bolt"
)

// socketFile is the socket in the data directory on which a server takes commands of its machine. It
// belongs to the user who runs the server.
const socketFile = "sluice.sock"

// checkDir begins the name of a directory in which "sluice check" restores a backup.
const checkDir = "check-"

// stallTimeout is how long a command may leave what it is sent unread.
const stallTimeout = 30 * time.Second

// startSocket serves commands until stop is called.
func startSocket(s *bolt.Stores, logger *slog.Logger) (stop func(), err error) {
	path := filepath.Join(filepath.Dir(s.Path), socketFile)
	if err := os.Remove(path); err != nil && !errors.Is(err, os.ErrNotExist) { // of a server that was killed
		return nil, err
	}
	unfinished, err := filepath.Glob(filepath.Join(filepath.Dir(s.Path), checkDir+"*")) // by a "sluice check" that was killed
	for _, dir := range unfinished {
		err = errors.Join(err, os.RemoveAll(dir))
	}
	if err != nil {
		return nil, err
	}
	var listener *net.UnixListener
	err = nearby(path, func(path string) (err error) {
		listener, err = net.ListenUnix("unix", &net.UnixAddr{Name: path})
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("listen for sluice backup: %w", err)
	}
	listener.SetUnlinkOnClose(false)
	if err := os.Chmod(path, 0o600); err != nil {
		return nil, errors.Join(err, listener.Close())
	}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /backup", func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Trailer", "Error")
		if err := s.Backup(r.Context(), patient{w}, ""); err != nil {
			logger.Error("sluice backup failed", "error", err)
			w.Header().Set("Error", err.Error())
		}
	})
	server := &http.Server{Handler: mux, ReadHeaderTimeout: readHeaderTimeout}
	go server.Serve(listener)                              //nolint:errcheck // fails when the server is closed
	return func() { server.Close(); os.Remove(path) }, nil //nolint:errcheck // the next server removes it too
}

// patient is a response that fails if the client reads nothing for a while: a backup that is not
// read makes the file with the records grow.
type patient struct{ http.ResponseWriter }

func (w patient) Write(b []byte) (int, error) {
	if err := http.NewResponseController(w.ResponseWriter).SetWriteDeadline(time.Now().Add(stallTimeout)); err != nil {
		return 0, err
	}
	return w.ResponseWriter.Write(b)
}

// nearby calls use with another path to the same file if path is too long for a socket (104 bytes on
// macOS, 108 on Linux).
func nearby(path string, use func(path string) error) error {
	if len(path) < 100 {
		return use(path)
	}
	temp, err := os.MkdirTemp("", "sluice-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(temp) //nolint:errcheck // a temporary directory
	link := filepath.Join(temp, "data")
	if err := os.Symlink(filepath.Dir(path), link); err != nil {
		return err
	}
	return use(filepath.Join(link, filepath.Base(path)))
}

// dial fails if no server is using the data directory dir.
func dial(ctx context.Context, dir string) (conn net.Conn, err error) {
	err = nearby(filepath.Join(dir, socketFile), func(path string) (err error) {
		conn, err = new(net.Dialer).DialContext(ctx, "unix", path)
		return err
	})
	return conn, err
}

// Backup writes a backup of the data directory dir to w. If a server is using dir, it makes the
// backup.
func Backup(ctx context.Context, dir string, w io.Writer) error {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return err
	}
	conn, err := dial(ctx, dir)
	if err != nil {
		return bolt.Backup(ctx, dir, w)
	}
	client := &http.Client{Transport: &http.Transport{
		DisableKeepAlives: true,
		DialContext:       func(context.Context, string, string) (net.Conn, error) { return conn, nil },
	}}
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://sluice/backup", nil)
	if err != nil {
		return err
	}
	response, err := client.Do(r)
	if err != nil {
		return fmt.Errorf("ask the server for a backup: %w", err)
	}
	defer response.Body.Close() //nolint:errcheck // it has been read
	if _, err := io.Copy(w, response.Body); err != nil {
		return fmt.Errorf("read the backup from the server: %w", err)
	}
	if text := response.Trailer.Get("Error"); text != "" {
		return errors.New(text)
	}
	return nil
}

// Check is bolt.Check. If a server is using the data directory dir, it checks a backup of dir, which
// it restores there for a while.
func Check(ctx context.Context, dir string) (r *bolt.Report, err error) {
	conn, err := dial(ctx, dir)
	if err != nil {
		return bolt.Check(ctx, dir)
	}
	conn.Close() //nolint:errcheck // nothing was sent
	temp, err := os.MkdirTemp(dir, checkDir)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(temp)) }()
	file := filepath.Join(temp, "backup.zip")
	if _, err := bolt.WriteBackup(file, func(w io.Writer) error { return Backup(ctx, dir, w) }); err != nil {
		return nil, err
	}
	return bolt.Restore(ctx, file, filepath.Join(temp, "data"))
}
