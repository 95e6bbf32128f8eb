package client_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"sluice/pkg/client"
	"sluice/pkg/event"
)

type roundTrip func(*http.Request) (*http.Response, error)

func (f roundTrip) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

func respond(status int, body string, header ...string) *http.Response {
	h := make(http.Header)
	for i := 0; i < len(header); i += 2 {
		h[header[i]] = []string{header[i+1]}
	}
	return &http.Response{StatusCode: status, Header: h, Body: io.NopCloser(strings.NewReader(body))}
}

// cutOff is a response body that breaks off, as if the connection had been lost.
type cutOff struct{ io.Reader }

func (c cutOff) Read(p []byte) (int, error) {
	n, err := c.Reader.Read(p)
	if err == io.EOF {
		err = io.ErrUnexpectedEOF
	}
	return n, err
}
func (cutOff) Close() error { return nil }

func hang(r *http.Request) (*http.Response, error) {
	<-r.Context().Done()
	return nil, r.Context().Err()
}

type hangingBody struct{ ctx context.Context }

func (b hangingBody) Read([]byte) (int, error) {
	<-b.ctx.Done()
	return 0, b.ctx.Err()
}
func (hangingBody) Close() error { return nil }

const stored = `{"id":"a","name":"n","entity_id":null,"occurred_at":"2026-01-02T15:04:05.000Z","attributes":{},"created_at":"2026-01-02T15:04:05.000Z"}`

var failing = map[string]struct {
	serve roundTrip
	tries int // with the default Config
	says  string
}{
	"always 429": {serve: func(*http.Request) (*http.Response, error) {
		return respond(429, `{"code":"rate_limit_exceeded","detail":"the limit is reached"}`, "Retry-After", "1",
			"X-Ratelimit-Limit", "200", "X-Ratelimit-Remaining", "0", "X-Ratelimit-Reset", fmt.Sprint(time.Now().Unix()+1)), nil
	}, tries: client.DefaultMaxTries, says: "gave up after 8 tries: status 429: the limit is reached"},
	"always 503": {serve: fixed(503, `{"code":"store_unavailable","detail":"the record store did not respond"}`, "Retry-After", "1"), tries: client.DefaultMaxTries, says: "gave up after 8 tries: status 503: the record store did not respond"},
	// Huge values must not overflow and become short waits.
	"429 for more than 64 bits of seconds": {serve: fixed(429, `{}`, "Retry-After", "18446744073709551616"), tries: 1, says: "asks to wait 8760h"},
	"503 for 20 seconds":                   {serve: fixed(503, `{}`, "Retry-After", "20"), tries: 3, says: "status 503"},
	"always 500":                           {serve: fixed(500, `{"message":"Internal Server Error"}`), tries: client.DefaultMaxTries, says: "Internal Server Error"},
	"hangs":                                {serve: hang, tries: 4, says: "no complete response within 1"},
	"hangs within the body": {serve: func(r *http.Request) (*http.Response, error) {
		return &http.Response{StatusCode: 201, Header: make(http.Header), Body: hangingBody{r.Context()}}, nil
	}, tries: 4, says: "no complete response within 1"},
	"broken JSON": {serve: fixed(201, stored[:40]), tries: client.DefaultMaxTries, says: "status 201: decode the response"},
	"HTML":        {serve: fixed(200, "<html>sign in</html>"), tries: client.DefaultMaxTries, says: "decode the response"},
	"interrupted": {serve: func(*http.Request) (*http.Response, error) {
		return &http.Response{StatusCode: 201, Header: make(http.Header), Body: cutOff{strings.NewReader(stored)}}, nil
	}, tries: client.DefaultMaxTries, says: "read the response"},
	"no connection": {serve: func(*http.Request) (*http.Response, error) { return nil, errors.New("connection refused") },
		tries: client.DefaultMaxTries, says: "no response: "},
	"endless": {serve: func(*http.Request) (*http.Response, error) {
		return &http.Response{StatusCode: 201, Header: make(http.Header), Body: io.NopCloser(endless{})}, nil
	}, tries: 1, says: "larger than 16777216 bytes"},
}

func TestGivesUpWithinItsBounds(t *testing.T) {
	t.Parallel()
	for name, tt := range failing {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				var sent, reported int
				c, err := client.New("http://service", client.Config{
					Transport: roundTrip(func(r *http.Request) (*http.Response, error) {
						sent++
						return tt.serve(r)
					}),
					OnTry: func(try client.Try) {
						if reported++; try.Number != reported || try.Err == nil || try.Route != "create-event" {
							t.Errorf("try %d was reported as %+v", reported, try)
						}
					},
				})
				if err != nil {
					t.Fatal(err)
				}
				start := time.Now()
				_, _, err = c.CreateEvent(t.Context(), event.Draft{Name: "n"})
				elapsed := time.Since(start)
				var failure *client.Error
				if !errors.As(err, &failure) {
					t.Fatalf("error %v", err)
				}
				if sent != tt.tries || failure.Tries != sent || reported != sent {
					t.Errorf("%d requests sent, %d in the error, %d reported to OnTry, want %d", sent, failure.Tries, reported, tt.tries)
				}
				if elapsed > client.DefaultMaxElapsed {
					t.Errorf("the call took %s", elapsed)
				}
				if !strings.Contains(err.Error(), tt.says) {
					t.Errorf("%q does not contain %q", err, tt.says)
				}
			})
		})
	}
}

type endless struct{}

func (endless) Read(p []byte) (int, error) { return len(p), nil }

func TestBoundsAreThoseOfConfig(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		cfg    client.Config
		sent   int
		atMost time.Duration
	}{
		{client.Config{MaxTries: 1}, 1, 0},
		{client.Config{MaxTries: 2}, 2, 10*time.Second + 100*time.Millisecond},
		{client.Config{MaxElapsed: 10 * time.Second}, 1, 0},
		{client.Config{MaxElapsed: 10*time.Second + 101*time.Millisecond}, 2, 10*time.Second + 101*time.Millisecond},
		{client.Config{MaxTries: 3, MinBackoff: 4 * time.Second}, 3, 20*time.Second + 9*time.Second},
		{client.Config{MaxTries: 3, MinBackoff: 4 * time.Second, MaxBackoff: time.Nanosecond}, 3, 20*time.Second + 2*time.Nanosecond},
	} {
		synctest.Test(t, func(t *testing.T) {
			sent := 0
			tt.cfg.Transport = roundTrip(func(*http.Request) (*http.Response, error) {
				sent++
				return respond(503, `{}`, "Retry-After", "10"), nil
			})
			c, err := client.New("http://service", tt.cfg)
			if err != nil {
				t.Fatal(err)
			}
			start := time.Now()
			if _, err := c.GetEvent(t.Context(), "a"); err == nil {
				t.Error("no error")
			}
			elapsed := time.Since(start)
			if atLeast := time.Duration(sent-1) * 10 * time.Second; sent != tt.sent || elapsed < atLeast || elapsed > tt.atMost {
				t.Errorf("%+v: %d requests in %s, want %d in %s to %s", tt.cfg, sent, elapsed, tt.sent, atLeast, tt.atMost)
			}
		})
	}
}

// Each wait is random, from 0 to a bound that doubles until it reaches MaxBackoff.
func TestBackOffIsRandomAndDoubles(t *testing.T) {
	t.Parallel()
	const calls = 200
	var longest, shortest [client.DefaultMaxTries - 1]time.Duration
	for i := range shortest {
		shortest[i] = time.Hour
	}
	synctest.Test(t, func(t *testing.T) {
		for range calls {
			var times []time.Time
			c, err := client.New("http://service", client.Config{Transport: roundTrip(func(*http.Request) (*http.Response, error) {
				times = append(times, time.Now())
				return nil, errors.New("connection refused")
			})})
			if err != nil {
				t.Fatal(err)
			}
			if _, err := c.GetEvent(t.Context(), "a"); err == nil {
				t.Fatal("no error")
			}
			for i := range times[1:] {
				wait := times[i+1].Sub(times[i])
				longest[i], shortest[i] = max(longest[i], wait), min(shortest[i], wait)
			}
		}
	})
	most := client.DefaultMinBackoff
	for i := range longest {
		if longest[i] > most || longest[i] < most*9/10 || shortest[i] > most/10 {
			t.Errorf("wait %d was between %s and %s, want values from 0 to %s", i+1, shortest[i], longest[i], most)
		}
		most = min(2*most, client.DefaultMaxBackoff)
	}
}

// MaxElapsed limits neither the wait for the next window nor the wait that Rate requires.
func TestPacingMayTakeLongerThanACall(t *testing.T) {
	t.Parallel()
	for _, cfg := range []client.Config{{MaxElapsed: time.Millisecond}, {MaxElapsed: time.Millisecond, Rate: 1}} {
		synctest.Test(t, func(t *testing.T) {
			cfg.Transport = roundTrip(func(*http.Request) (*http.Response, error) {
				return respond(200, stored, "X-Ratelimit-Reset", fmt.Sprint(time.Now().Unix()+1), "X-Ratelimit-Limit", "200", "X-Ratelimit-Remaining", "0"), nil
			})
			c, err := client.New("http://service", cfg)
			if err != nil {
				t.Fatal(err)
			}
			start := time.Now()
			for range 2 {
				if _, err := c.GetEvent(t.Context(), "a"); err != nil {
					t.Error(err)
				}
			}
			if elapsed := time.Since(start); elapsed != time.Second {
				t.Errorf("two calls took %s", elapsed)
			}
		})
	}
}

func TestContextEndsACall(t *testing.T) {
	t.Parallel()
	for name, serve := range map[string]roundTrip{
		"between tries":  func(*http.Request) (*http.Response, error) { return respond(503, `{}`, "Retry-After", "30"), nil },
		"for a response": hang,
		"for the limits": func(*http.Request) (*http.Response, error) {
			return respond(429, `{}`, "Retry-After", "30"), nil
		},
	} {
		synctest.Test(t, func(t *testing.T) {
			c, err := client.New("http://service", client.Config{Transport: serve})
			if err != nil {
				t.Fatal(err)
			}
			ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
			defer cancel()
			start := time.Now()
			var wg sync.WaitGroup
			for range 3 {
				wg.Go(func() {
					if _, err := c.GetEvent(ctx, "a"); !errors.Is(err, context.DeadlineExceeded) {
						t.Errorf("%s: %v", name, err)
					}
				})
			}
			wg.Wait()
			if elapsed := time.Since(start); elapsed != 5*time.Second {
				t.Errorf("%s: the call took %s", name, elapsed)
			}
		})
	}
}
