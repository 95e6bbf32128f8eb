// Package dynamoproxy runs a proxy between a function and a DynamoDB engine. It counts calls and
// simulates faults of the network and of the engine.
package dynamoproxy

import (
	"bytes"
	"crypto/tls"
	"encoding/json"
	"encoding/pem"
	"io"
	"log"
	"maps"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
)

// Call is an operation on a table, such as UpdateItem on the counters table.
type Call struct {
	Operation, Table string
}

type Usage struct {
	Calls int     // number of calls that reached the proxy
	Units float64 // capacity units that the engine reported
	Empty int     // queries without results; DynamoDB charges half a unit for each, but DynamoDB Local reports none
}

// Proxy is safe for concurrent use.
type Proxy struct {
	URL string // Refuse and Accept do not change it

	t       testing.TB
	address string
	tls     *tls.Config // nil without TLS
	reverse *httputil.ReverseProxy

	mu       sync.Mutex
	opened   int // number of connections so far
	conns    map[net.Conn]http.ConnState
	changed  chan struct{} // closed when conns changes
	usage    map[Call]Usage
	accesses map[Access]bool
	fault    func(Call) Fault
	watch    func(call Call, key map[string]string)
	ahead    time.Duration // of the header Date in responses
	server   *http.Server  // nil while the proxy refuses connections
}

// Start runs a proxy in front of endpoint until the end of the test.
func Start(t testing.TB, endpoint string) *Proxy {
	t.Helper()
	p := start(t, endpoint, nil)
	p.URL = "http://" + p.address
	return p
}

// StartTLS is like Start, but with TLS; certificate is the path of the proxy's PEM file.
func StartTLS(t testing.TB, endpoint string) (p *Proxy, certificate string) {
	t.Helper()
	server := httptest.NewTLSServer(http.NotFoundHandler()) // only for its certificate, which is valid for 127.0.0.1
	server.Close()
	certificate = filepath.Join(t.TempDir(), "proxy.pem")
	text := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})
	if err := os.WriteFile(certificate, text, 0o600); err != nil {
		t.Fatal(err)
	}
	p = start(t, endpoint, &tls.Config{Certificates: server.TLS.Certificates})
	p.URL = "https://" + p.address
	return p, certificate
}

func start(t testing.TB, endpoint string, config *tls.Config) *Proxy {
	t.Helper()
	target, err := url.Parse(endpoint)
	if err != nil {
		t.Fatal(err)
	}
	p := &Proxy{
		t: t, address: "127.0.0.1:0", tls: config,
		usage: make(map[Call]Usage), accesses: make(map[Access]bool),
		conns: make(map[net.Conn]http.ConnState), changed: make(chan struct{}),
	}
	p.reverse = &httputil.ReverseProxy{
		Rewrite:        func(r *httputil.ProxyRequest) { r.SetURL(target) },
		ModifyResponse: p.meter,
		Transport:      &http.Transport{MaxIdleConnsPerHost: 100},
		ErrorHandler: func(w http.ResponseWriter, _ *http.Request, _ error) {
			// The engine is unreachable, or the client has disconnected. The client must get no
			// response.
			hangUp(w)
		},
		ErrorLog: log.New(io.Discard, "", 0),
	}
	p.Accept()
	t.Cleanup(p.Refuse)
	return p
}

// Refuse closes all connections, and refuses new ones until Accept is called.
func (p *Proxy) Refuse() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.server != nil {
		p.server.Close() //nolint:errcheck // an error has no consequences
		p.server = nil
	}
}

func (p *Proxy) Accept() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.server != nil {
		return
	}
	listener, err := net.Listen("tcp", p.address)
	if err != nil {
		p.t.Fatalf("proxy: %v", err)
	}
	p.address = listener.Addr().String()
	listener = proxyListener{listener}
	if p.tls != nil {
		listener = tls.NewListener(listener, p.tls)
	}
	p.server = &http.Server{
		Handler: http.HandlerFunc(p.serve), ConnState: p.connState,
		ReadHeaderTimeout: time.Minute, ErrorLog: log.New(io.Discard, "", 0),
	}
	go p.server.Serve(listener) //nolint:errcheck // fails when Refuse closes the server
}

// SetAhead makes the header Date of responses show a time that is ahead.
func (p *Proxy) SetAhead(d time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.ahead = d
}

// Opened returns how many connections clients have opened so far.
func (p *Proxy) Opened() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.opened
}

func (p *Proxy) serve(w http.ResponseWriter, r *http.Request) {
	call, err := p.count(r)
	if err != nil {
		hangUp(w) // the client has disconnected
		return
	}
	p.mu.Lock()
	fault := p.fault
	p.mu.Unlock()
	if fault != nil {
		fault(call).apply(w, r, p.reverse)
		return
	}
	p.reverse.ServeHTTP(w, r)
}

// callOf takes the operation from X-Amz-Target and the table from the body.
func callOf(r *http.Request, body map[string]any) Call {
	_, operation, _ := strings.Cut(r.Header.Get("X-Amz-Target"), ".")
	table, _ := body["TableName"].(string)
	return Call{Operation: operation, Table: table}
}

// count counts a call, and rewrites its body so that the engine reports the consumed capacity.
// That invalidates the signature, which DynamoDB Local does not verify.
func (p *Proxy) count(r *http.Request) (Call, error) {
	var body map[string]any
	if err := json.NewDecoder(r.Body).Decode(&body); err != nil {
		return Call{}, err
	}
	call := callOf(r, body)
	p.add(call, Usage{Calls: 1})
	p.mu.Lock()
	for _, a := range accesses(call.Operation, body) {
		p.accesses[a] = true
	}
	watch := p.watch
	p.mu.Unlock()
	if watch != nil {
		watch(call, keyOf(body))
	}
	body["ReturnConsumedCapacity"] = "TOTAL"
	b, err := json.Marshal(body)
	if err != nil {
		return call, err
	}
	r.Body, r.ContentLength = io.NopCloser(bytes.NewReader(b)), int64(len(b))
	r.Header.Set("Content-Length", strconv.Itoa(len(b)))
	return call, nil
}

// meter adds a response's consumed capacity to the usage.
func (p *Proxy) meter(resp *http.Response) error {
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		return err
	}
	resp.Body = io.NopCloser(bytes.NewReader(b))
	p.mu.Lock()
	if p.ahead != 0 {
		resp.Header.Set("Date", time.Now().Add(p.ahead).UTC().Format(http.TimeFormat))
	}
	p.mu.Unlock()
	var body struct {
		ConsumedCapacity json.RawMessage
		Count            *int // only in responses to Query and Scan
	}
	if err := json.Unmarshal(b, &body); err != nil {
		return err
	}
	type capacity struct {
		TableName     string
		CapacityUnits float64
	}
	var of []capacity // a batch or a transaction has one element per table; any other call has only one element
	if json.Unmarshal(body.ConsumedCapacity, &of) != nil {
		of = make([]capacity, 1)
		if json.Unmarshal(body.ConsumedCapacity, &of[0]) != nil {
			return nil // an error response reports no capacity
		}
	}
	empty := 0
	if body.Count != nil && *body.Count == 0 {
		empty = 1
	}
	for _, c := range of {
		p.add(callOf(resp.Request, map[string]any{"TableName": c.TableName}), Usage{Units: c.CapacityUnits, Empty: empty})
	}
	return nil
}

// Observe sets a function that receives each call and the call's primary key, if it has one. The
// function may run concurrently.
func (p *Proxy) Observe(watch func(call Call, key map[string]string)) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.watch = watch
}

// keyOf returns the strings and numbers in the primary key of a call, by attribute.
func keyOf(body map[string]any) map[string]string {
	key := make(map[string]string)
	attributes, _ := body["Key"].(map[string]any)
	for name, attribute := range attributes {
		value, _ := attribute.(map[string]any)
		for _, typ := range []string{"S", "N"} {
			if text, ok := value[typ].(string); ok {
				key[name] = text
			}
		}
	}
	return key
}

func (p *Proxy) add(call Call, u Usage) {
	p.mu.Lock()
	defer p.mu.Unlock()
	sum := p.usage[call]
	p.usage[call] = Usage{Calls: sum.Calls + u.Calls, Units: sum.Units + u.Units, Empty: sum.Empty + u.Empty}
}

func (p *Proxy) Usage() map[Call]Usage {
	p.mu.Lock()
	defer p.mu.Unlock()
	return maps.Clone(p.usage)
}
