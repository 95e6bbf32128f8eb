// Package scripted provides a server that follows scripts. A script lists the requests that a
// client must send, each with its response.
package scripted

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"reflect"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"
)

// Fault is how a response goes wrong.
type Fault string

const (
	Lost Fault = "lost" // the connection closes without a response
	Cut  Fault = "cut"  // the connection closes in the middle of the body
	Hang Fault = "hang" // no response; the server waits until the client gives up
	Drip Fault = "drip" // the body arrives in pieces and never ends
)

type Exchange struct {
	Request string        // method, path and query, such as "GET /entity?limit=1"; parameters may be in any order
	Body    string        // JSON; "" for none. $id stands for the same UUIDv7 throughout a script
	Key     string        // expected API key; "" for none
	Header  [2]string     // name and value of a header that the request must have, such as Range
	After   time.Duration // minimum time since the previous response
	Window  bool          // whether the request must wait for the reset time in the previous response

	Status   int
	Response map[string]string // headers; nil for default X-RateLimit headers. In X-RateLimit-Reset, +N means N seconds from now
	Reply    string            // body, in which $id and $url (Script.URL) are replaced
	Fault    Fault
}

// Script holds the exchanges that a client must make, and the client's progress.
type Script struct {
	URL string // base URL that the client must use

	mu        sync.Mutex
	exchanges []Exchange
	next      int
	id        string
	responded time.Time // when the last response was sent
	reset     time.Time // reset time in the last response
	wrong     []string
}

// Server serves scripts. It is safe for concurrent use.
type Server struct {
	http  *httptest.Server
	pages http.Handler // serves the paths that belong to no script

	mu      sync.Mutex
	scripts map[string]*Script // by the first two segments of the path
}

// Start starts a server. If the client is a page, pages serves it; otherwise, pages is nil.
func Start(t testing.TB, pages http.Handler) *Server {
	t.Helper()
	s := &Server{pages: pages, scripts: make(map[string]*Script)}
	s.http = httptest.NewServer(s)
	if pages != nil {
		// If a connection that it has used before closes, Chromium repeats the request without telling
		// the page.
		s.http.Config.SetKeepAlivesEnabled(false)
	}
	t.Cleanup(s.http.Close)
	return s
}

func (s *Server) Play(exchanges []Exchange) *Script {
	s.mu.Lock()
	defer s.mu.Unlock()
	prefix := fmt.Sprintf("/stage/%d", len(s.scripts))
	script := &Script{URL: s.http.URL + prefix, exchanges: exchanges}
	s.scripts[prefix] = script
	return script
}

// Wrong describes how the client has deviated from the script. It returns nil if the client has
// sent every request as required.
func (s *Script) Wrong() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.next < len(s.exchanges) {
		return append(s.wrong, fmt.Sprintf("%d of %d requests were sent", s.next, len(s.exchanges)))
	}
	return s.wrong
}

func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	parts := strings.SplitN(r.URL.Path, "/", 4)
	if len(parts) < 4 || parts[1] != "stage" {
		s.pages.ServeHTTP(w, r)
		return
	}
	s.mu.Lock()
	script := s.scripts["/"+parts[1]+"/"+parts[2]]
	s.mu.Unlock()
	body, _ := io.ReadAll(r.Body) // if the request was cut off, the comparison fails
	e, ok := script.take(r, "/"+parts[3], body)
	if !ok {
		http.Error(w, `{"code":"not_in_the_script","detail":"the script has no such request"}`, http.StatusBadRequest)
		return
	}
	script.respond(w, r, e)
}

// take compares a request with the next request of the script.
func (s *Script) take(r *http.Request, path string, body []byte) (e Exchange, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	got := r.Method + " " + path
	if r.URL.RawQuery != "" {
		got += "?" + r.URL.Query().Encode()
	}
	if s.next == len(s.exchanges) {
		s.wrong = append(s.wrong, "after the end of the script: "+got)
		return e, false
	}
	e = s.exchanges[s.next]
	s.next++
	if want := normal(e.Request); got != want {
		s.wrong = append(s.wrong, fmt.Sprintf("request %d is %s, want %s", s.next, got, want))
		return e, false
	}
	if !s.sameBody(e.Body, body) {
		s.wrong = append(s.wrong, fmt.Sprintf("request %d has the body %s, want %s", s.next, body, e.Body))
	}
	if key := strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer "); key != e.Key {
		s.wrong = append(s.wrong, fmt.Sprintf("request %d has the API key %q, want %q", s.next, key, e.Key))
	}
	if value := r.Header.Get(e.Header[0]); value != e.Header[1] {
		s.wrong = append(s.wrong, fmt.Sprintf("request %d has the %s %q, want %q", s.next, e.Header[0], value, e.Header[1]))
	}
	if wait := time.Since(s.responded); wait < e.After {
		s.wrong = append(s.wrong, fmt.Sprintf("request %d came %s after the response before, want %s or more", s.next, wait, e.After))
	}
	if now := time.Now(); e.Window && now.Before(s.reset) {
		s.wrong = append(s.wrong, fmt.Sprintf("request %d came %s before the window ended", s.next, s.reset.Sub(now)))
	}
	return e, true
}

// normal sorts the query parameters of a request.
func normal(request string) string {
	before, query, ok := strings.Cut(request, "?")
	if !ok {
		return request
	}
	values, err := url.ParseQuery(query)
	if err != nil {
		panic(err)
	}
	return before + "?" + values.Encode()
}

var uuid7 = regexp.MustCompile(`[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}`)

// sameBody reports whether a body is the JSON that the script requires. The caller holds s.mu.
func (s *Script) sameBody(want string, body []byte) bool {
	if want == "" {
		return len(body) == 0
	}
	if s.id == "" && strings.Contains(want, "$id") {
		s.id = uuid7.FindString(string(body))
	}
	return SameJSON(strings.ReplaceAll(want, "$id", s.id), string(body))
}

// SameJSON reports whether two texts are the same JSON value, with the same digits in numbers.
func SameJSON(a, b string) bool {
	var values [2]any
	for i, text := range []string{a, b} {
		d := json.NewDecoder(strings.NewReader(text))
		d.UseNumber()
		if err := d.Decode(&values[i]); err != nil {
			return false
		}
	}
	return reflect.DeepEqual(values[0], values[1])
}

func (s *Script) respond(w http.ResponseWriter, r *http.Request, e Exchange) {
	s.mu.Lock()
	reply := strings.NewReplacer("$id", s.id, "$url", s.URL).Replace(e.Reply)
	now := time.Now()
	s.reset = time.Unix(now.Unix()+1, 0)
	header := map[string]string{"X-RateLimit-Limit": "200", "X-RateLimit-Remaining": "190", "X-RateLimit-Reset": "+1"}
	if e.Response != nil {
		header = e.Response
	}
	for name, value := range header {
		var seconds int64
		if _, err := fmt.Sscanf(value, "+%d", &seconds); err == nil {
			s.reset = time.Unix(now.Unix()+seconds, 0)
			value = fmt.Sprint(s.reset.Unix())
		}
		w.Header().Set(name, value)
	}
	s.mu.Unlock()
	defer func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.responded = time.Now()
	}()
	switch e.Fault {
	case Lost:
		panic(http.ErrAbortHandler)
	case Hang:
		<-r.Context().Done()
		return
	}
	if e.Fault == Cut {
		w.Header().Set("Content-Length", fmt.Sprint(len(reply)))
		reply = reply[:len(reply)/2]
	}
	w.WriteHeader(e.Status)
	io.Copy(w, bytes.NewReader([]byte(reply))) //nolint:errcheck // the client may be gone
	switch e.Fault {
	case Cut:
		http.NewResponseController(w).Flush() //nolint:errcheck // the client may be gone
		panic(http.ErrAbortHandler)
	case Drip:
		drip(w, r)
	}
}

// drip sends spaces until the client gives up.
func drip(w http.ResponseWriter, r *http.Request) {
	again := time.NewTicker(50 * time.Millisecond)
	defer again.Stop()
	for {
		select {
		case <-again.C:
			io.WriteString(w, " ")                //nolint:errcheck // the client may be gone
			http.NewResponseController(w).Flush() //nolint:errcheck // the client may be gone
		case <-r.Context().Done():
			return
		}
	}
}

// ID returns the UUIDv7 that $id stands for.
func (s *Script) ID() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.id
}
