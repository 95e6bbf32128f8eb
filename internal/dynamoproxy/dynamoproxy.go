// Package dynamoproxy stands between a function and a DynamoDB engine in tests
// and counts what passes.
package dynamoproxy

import (
	"bytes"
	"encoding/json"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"testing"
)

// Call is an operation on a table, such as UpdateItem on the counters.
type Call struct {
	Operation, Table string
}

// Usage is what calls of one kind have taken.
type Usage struct {
	Calls int     // requests that reached the proxy
	Units float64 // capacity units that the engine says they consumed
}

// Proxy counts the calls that go through it.
type Proxy struct {
	URL string

	mu    sync.Mutex
	usage map[Call]Usage
}

// Start starts a proxy in front of endpoint. It ends with the test.
func Start(t testing.TB, endpoint string) *Proxy {
	t.Helper()
	target, err := url.Parse(endpoint)
	if err != nil {
		t.Fatal(err)
	}
	p := &Proxy{usage: make(map[Call]Usage)}
	reverse := &httputil.ReverseProxy{
		Rewrite:        func(r *httputil.ProxyRequest) { r.SetURL(target) },
		ModifyResponse: p.meter,
		Transport:      &http.Transport{MaxIdleConnsPerHost: 100},
	}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if err := p.count(r); err != nil {
			t.Errorf("proxy: %v", err)
		}
		reverse.ServeHTTP(w, r)
	}))
	t.Cleanup(server.Close)
	p.URL = server.URL
	return p
}

// callOf tells what a request does from its X-Amz-Target header and its body.
func callOf(r *http.Request, body map[string]any) Call {
	_, operation, _ := strings.Cut(r.Header.Get("X-Amz-Target"), ".")
	table, _ := body["TableName"].(string)
	return Call{Operation: operation, Table: table}
}

// count notes the call and asks the engine what it will consume; a local
// engine does not mind that the signature no longer fits.
func (p *Proxy) count(r *http.Request) error {
	var body map[string]any
	if err := json.NewDecoder(r.Body).Decode(&body); err != nil {
		return err
	}
	call := callOf(r, body)
	p.add(call, Usage{Calls: 1})
	body["ReturnConsumedCapacity"] = "TOTAL"
	b, err := json.Marshal(body)
	if err != nil {
		return err
	}
	r.Body, r.ContentLength = io.NopCloser(bytes.NewReader(b)), int64(len(b))
	r.Header.Set("Content-Length", strconv.Itoa(len(b)))
	return nil
}

// meter notes what the engine says a call consumed, and lets the answer pass
// as it is.
func (p *Proxy) meter(resp *http.Response) error {
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		return err
	}
	resp.Body = io.NopCloser(bytes.NewReader(b))
	var body struct {
		ConsumedCapacity struct {
			TableName     string
			CapacityUnits float64
		}
	}
	if err := json.Unmarshal(b, &body); err != nil {
		return err
	}
	if c := body.ConsumedCapacity; c.TableName != "" {
		p.add(callOf(resp.Request, map[string]any{"TableName": c.TableName}), Usage{Units: c.CapacityUnits})
	}
	return nil
}

func (p *Proxy) add(call Call, u Usage) {
	p.mu.Lock()
	defer p.mu.Unlock()
	sum := p.usage[call]
	p.usage[call] = Usage{Calls: sum.Calls + u.Calls, Units: sum.Units + u.Units}
}

// Usage is what has passed so far.
func (p *Proxy) Usage() map[Call]Usage {
	p.mu.Lock()
	defer p.mu.Unlock()
	return maps.Clone(p.usage)
}
