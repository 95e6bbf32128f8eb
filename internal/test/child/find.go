package child

import (
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"path/filepath"
	"testing"
)

// Require does nothing if err is nil. Otherwise it skips the test, or fails it if CI is set. err
// says that a program is missing, and help says how to install it.
func Require(t testing.TB, err error, help string) {
	t.Helper()
	if err == nil {
		return
	}
	if os.Getenv("CI") != "" {
		t.Fatalf("%v\n%s", err, help)
	}
	t.Skipf("%v, SO THIS TEST DID NOT RUN.\n%s", err, help)
}

// Cached returns the path of a file that the Makefile fetches into .cache.
func Cached(t testing.TB, path string) string {
	t.Helper()
	return filepath.Join(ModuleRoot(t), ".cache", path)
}

// ModuleRoot returns the directory that contains go.mod, at or above the working directory.
func ModuleRoot(t testing.TB) string {
	t.Helper()
	dir, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	for {
		if _, err := os.Stat(filepath.Join(dir, "go.mod")); err == nil {
			return dir
		}
		parent := filepath.Dir(dir)
		if parent == dir {
			t.Fatal("no go.mod in the working directory or above it")
		}
		dir = parent
	}
}

// OnFreePort calls start with a free port. If start returns ErrExited, another program may
// have taken that port, so OnFreePort tries another, up to five in all. Other test processes
// do not choose the port until the reservation is closed.
func OnFreePort(start func(port int) error) (reservation io.Closer, err error) {
	var errs []error
	for range 5 {
		port, reservation, err := freePort()
		if err != nil {
			return nil, err
		}
		err = start(port)
		if err == nil {
			return reservation, nil
		}
		reservation.Close() //nolint:errcheck // nothing was written to the listener
		if errs = append(errs, err); !errors.Is(err, ErrExited) {
			break
		}
	}
	return nil, errors.Join(errs...)
}

// freePort returns a port below the range that operating systems use for outgoing connections,
// so no such connection can take it before the program listens. The reservation is a listener
// on the next higher port, so another test process cannot reserve the same pair.
func freePort() (port int, reservation io.Closer, err error) {
	const low, high, tries = 20000, 30000, 100
	var last error
	for range tries {
		port := low + 2*rand.IntN((high-low)/2)
		reservation, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", port+1))
		if err != nil {
			last = err
			continue
		}
		probe, err := net.Listen("tcp", fmt.Sprintf(":%d", port)) // some programs listen on all addresses
		if err != nil {
			last = err
			_ = reservation.Close()
			continue
		}
		_ = probe.Close()
		return port, reservation, nil
	}
	return 0, nil, fmt.Errorf("no free port found: %w", last)
}
