// Package secrettest checks that programs do not write the secrets of API keys to
// their output. Tests create API keys with New and collect the output of the programs
// that they start. Run fails the test binary if the output contains a secret.
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

// all is the collection of this process.
var all collection

// collection holds output and the secrets that it must not contain. It is safe for
// concurrent use.
type collection struct {
	mu      sync.Mutex
	secrets []string
	written map[string]*bytes.Buffer // output by source
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

// found returns the sources whose output contains a secret.
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

// New creates an API key with access.New. The collected output must not contain the secret of
// this key.
func New(t testing.TB, k access.Key, now time.Time) (access.Key, access.Token) {
	t.Helper()
	k, token, err := access.New(k, now)
	if err != nil {
		t.Fatal(err)
	}
	Keep(token.Reveal())
	return k, token
}

// Keep saves the secret of a token that another program has created. The collected output must
// not contain this secret.
func Keep(token string) { all.keep(token) }

// Collect adds text to the collected output of a source, such as "the server".
func Collect(source, text string) { all.write(source, []byte(text)) }

// Writer returns a writer that adds its input to the collected output of a source.
func Writer(source string) io.Writer { return writer(source) }

type writer string

func (w writer) Write(b []byte) (int, error) {
	all.write(string(w), b)
	return len(b), nil
}

// Run runs the tests of m, collects the output of this process, and returns the exit
// code. The code is not 0 if the output contains a secret. It is also not 0 if all
// tests have run but no secret or no output was collected.
func Run(m *testing.M) int {
	stop := collectOwn()
	code := m.Run()
	stop()
	if found := all.found(); len(found) > 0 {
		fmt.Fprintf(os.Stderr, "FAIL: the secret of an API key was written by:\n\t%s\n", strings.Join(found, "\n\t"))
		return 1
	}
	if n, size := len(all.secrets), all.size(); Whole() && (n == 0 || size == 0) {
		fmt.Fprintf(os.Stderr, "FAIL: the tests created %d secrets and wrote %d bytes of output, so this check shows nothing\n", n, size)
		return 1
	}
	return code
}

// Whole reports whether the test binary runs all tests.
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

// collectOwn collects the standard output and standard error of this process until stop is
// called. The process still writes this output to the original files.
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
			io.Copy(io.MultiWriter(file, writer("the tests' own process")), r) //nolint:errcheck // the goroutine ends when the pipe is closed
		})
		return w
	}
	os.Stdout, os.Stderr = tee(stdout), tee(stderr)
	log.SetOutput(os.Stderr) // otherwise package log would use the old os.Stderr
	return func() {
		os.Stdout, os.Stderr = stdout, stderr
		log.SetOutput(stderr)
		for _, w := range ends {
			w.Close() //nolint:errcheck // closing a pipe does not fail
		}
		wg.Wait()
	}
}
