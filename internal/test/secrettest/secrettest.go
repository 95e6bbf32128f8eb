// Package secrettest shows that no secret of an API key gets into what a
// program writes. Tests make their keys with New, what they and the processes
// that they start have written is collected, and Run fails the test binary if
// one is found in the other.
package secrettest

import (
	"bytes"
	"flag"
	"fmt"
	"io"
	"log"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"sluice/pkg/access"
)

// The process's own.
var all collection

// collection is what was written and what must not be in it. It is safe for
// concurrent use.
type collection struct {
	mu      sync.Mutex
	secrets []string
	written map[string]*bytes.Buffer // by source
}

func (c *collection) keep(token string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.secrets = append(c.secrets, token[strings.LastIndexByte(token, '_')+1:])
}

func (c *collection) write(source string, b []byte) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.written == nil {
		c.written = make(map[string]*bytes.Buffer)
	}
	if c.written[source] == nil {
		c.written[source] = new(bytes.Buffer)
	}
	c.written[source].Write(b)
}

// found names the sources that have a secret.
func (c *collection) found() (sources []string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for source, written := range c.written {
		if slices.ContainsFunc(c.secrets, func(secret string) bool { return bytes.Contains(written.Bytes(), []byte(secret)) }) {
			sources = append(sources, source)
		}
	}
	slices.Sort(sources)
	return sources
}

// New makes a key as access.New does, whose secret is looked for.
func New(t testing.TB, k access.Key, now time.Time) (access.Key, access.Token) {
	t.Helper()
	k, token, err := access.New(k, now)
	if err != nil {
		t.Fatal(err)
	}
	Keep(token.Reveal())
	return k, token
}

// Keep has the secret of a token looked for that was made by another program.
func Keep(token string) { all.keep(token) }

// Collect adds to what has been written by source.
func Collect(source, text string) { all.write(source, []byte(text)) }

// Writer collects what is written to it.
func Writer(source string) io.Writer { return writer(source) }

type writer string

func (w writer) Write(b []byte) (int, error) {
	all.write(string(w), b)
	return len(b), nil
}

// Run runs the tests of m, and collects what the process itself writes. It
// returns the code to exit with: not 0 if a secret was found, and if all tests
// were run and there was none to find or nothing to find it in.
func Run(m *testing.M) int {
	stop := collectOwn()
	code := m.Run()
	stop()
	if found := all.found(); len(found) > 0 {
		fmt.Fprintf(os.Stderr, "FAIL: the secret of an API key was written by:\n\t%s\n", strings.Join(found, "\n\t"))
		return 1
	}
	if n, size := len(all.secrets), all.size(); Whole() && (n == 0 || size == 0) {
		fmt.Fprintf(os.Stderr, "FAIL: %d secrets were looked for in %d bytes: that shows nothing\n", n, size)
		return 1
	}
	return code
}

// Whole reports whether all tests of the binary are to be run.
func Whole() bool {
	for _, name := range []string{"test.run", "test.skip", "test.fuzz", "test.list"} {
		if flag.Lookup(name).Value.String() != "" {
			return false
		}
	}
	return true
}

func (c *collection) size() (n int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, written := range c.written {
		n += written.Len()
	}
	return n
}

// collectOwn collects what the process writes to its standard output and error,
// which it still does, until stop is called.
func collectOwn() (stop func()) {
	stdout, stderr := os.Stdout, os.Stderr
	var wg sync.WaitGroup
	var ends []*os.File
	tee := func(file *os.File) *os.File {
		r, w, err := os.Pipe()
		if err != nil {
			panic(err)
		}
		ends = append(ends, w)
		wg.Go(func() {
			io.Copy(io.MultiWriter(file, writer("the tests' own process")), r) //nolint:errcheck // it ends with the pipe
		})
		return w
	}
	os.Stdout, os.Stderr = tee(stdout), tee(stderr)
	log.SetOutput(os.Stderr) // it keeps what it was made with
	return func() {
		os.Stdout, os.Stderr = stdout, stderr
		log.SetOutput(stderr)
		for _, w := range ends {
			w.Close() //nolint:errcheck // a pipe
		}
		wg.Wait()
	}
}
