// Package attack has requests that cost their sender little and might cost the service much. They
// are within the bounds on headers and bodies, and most of them are malformed.
package attack

import (
	"encoding/base64"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/url"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"
	"testing"

	"github.com/aws/aws-lambda-go/events"

	"sluice/internal/test/lambdatest"
	"sluice/pkg/httpapi"
)

// Request is an attack on a route.
type Request struct {
	Name   string
	method string
	target string
	header http.Header
	body   body
}

func (r Request) HasBody() bool { return r.body.sent != "" }

// HTTP returns the request as net/http's server passes it to a handler.
func (r Request) HTTP() *http.Request {
	hr := httptest.NewRequest(r.method, r.target, strings.NewReader(r.body.sent))
	hr.Header, hr.RemoteAddr = r.header.Clone(), "192.0.2.1:1234"
	return hr
}

// Event returns the request as API Gateway passes it to a function: with decoded path, and with
// commas between the values of a header.
func (r Request) Event() events.APIGatewayV2HTTPRequest {
	path, query, _ := strings.Cut(r.target, "?")
	if decoded, err := url.PathUnescape(path); err == nil {
		path = decoded
	}
	ev := lambdatest.Event(r.method, "/", "192.0.2.1", base64.StdEncoding.EncodeToString([]byte(r.body.sent)))
	ev.IsBase64Encoded, ev.RawPath, ev.RawQueryString = true, path, query
	for name, values := range r.header {
		if name == "Cookie" {
			ev.Cookies = strings.Split(strings.Join(values, "; "), "; ")
		} else {
			ev.Headers[strings.ToLower(name)] = strings.Join(values, ",")
		}
	}
	return ev
}

// SparePools lets the garbage collector, which empties pools, run only when the heap is large, until
// the test ends. Tests that call Check must call it first, and must not be parallel.
func SparePools(t *testing.T) {
	percent, limit := debug.SetGCPercent(-1), debug.SetMemoryLimit(256<<20)
	t.Cleanup(func() {
		debug.SetGCPercent(percent)
		debug.SetMemoryLimit(limit)
	})
}

// Check sends a request, and fails the test if it makes the service allocate or send more bytes
// than is allowed: perHeaderByte for each byte of the headers and the request line. prepare returns
// a function that sends it, and returns the status and the body of the response.
func (r Request) Check(t *testing.T, perHeaderByte int, prepare func(Request) func() (status int, body string)) {
	t.Helper()
	const maxHeaders = 16 << 10
	headers := len(r.target)
	for name, values := range r.header {
		headers += (len(name)+len(": \r\n"))*len(values) + len(strings.Join(values, ""))
	}
	// jsontext and the stores take 44 bytes for each byte of an object with many members. A write takes
	// up to 57 KB if no other shares its transaction, as on a busy machine.
	most := 80<<10 + perHeaderByte*min(headers, maxHeaders) + 48*r.body.size + 64<<10*r.body.elements
	send := func() (allocated, status int, sent string) {
		send := prepare(r)
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		status, sent = send()
		runtime.ReadMemStats(&after)
		return int(after.TotalAlloc - before.TotalAlloc), status, sent
	}
	allocated, status, sent := send()
	for tries := 1; allocated > most && tries < 5; tries++ { // pools may be empty
		allocated, status, sent = send()
	}
	if allocated > most {
		t.Errorf("%s: %d: %d bytes allocated, want at most %d", r.Name, status, allocated, most)
	}
	most = 8<<10 + 300*r.body.elements
	if status < 400 {
		most = 160<<10 + 2*r.body.size // openapi.yaml, the largest file of the dashboard, or the records that were sent
	}
	if len(sent) > most {
		t.Errorf("%s: %d: %d bytes sent, want at most %d: %.200s", r.Name, status, len(sent), most, sent)
	}
}

// Requests returns the attacks on a route. key is a valid API key; headers and request line
// together have about room bytes.
func Requests(route httpapi.Route, key string, room int) []Request {
	room -= 500 // for the other headers
	var all []Request
	add := func(name string, change func(*Request)) {
		r := Request{
			Name: route.String() + ": " + name, method: route.Method, target: strings.NewReplacer("{id}", "a", "{proxy+}", "app.js").Replace(route.Path),
			header: http.Header{"Authorization": {"Bearer " + key}, "Content-Type": {"application/json"}, "Accept-Encoding": {"gzip"}},
		}
		if route.Method == "" {
			r.method, r.target = http.MethodGet, "/nowhere"
		}
		change(&r)
		all = append(all, r)
	}
	for name, h := range headers(room) {
		add(name, func(r *Request) { maps.Copy(r.header, h) })
	}
	for name, text := range texts(room) {
		text = escape(text, room)
		add("a path of "+name, func(r *Request) { r.target = strings.TrimSuffix(r.target, "a") + "/" + text })
		for _, parameter := range []string{"", "cursor=", "type=", "from=", "file_name=", "type=t&attributes."} {
			add("a query of "+parameter+" and "+name, func(r *Request) { r.target += "?" + parameter + text })
		}
	}
	for name, text := range queries(room) {
		add("a query of "+name, func(r *Request) { r.target += "?type=t&" + text })
	}
	if route.Method != http.MethodPost {
		return all
	}
	for name, b := range bodies(route.Name) {
		add("a body of "+name, func(r *Request) {
			r.body = b
			r.body.sent = strings.ReplaceAll(b.sent, `"id":"a"`, fmt.Sprintf(`"id":"%s-%d"`, route.Name, len(all))) // so that no attack sees the records of another
		})
	}
	for name, b := range zipped(route.Name) {
		add("a compressed body of "+name, func(r *Request) { r.body, r.header["Content-Encoding"] = b, []string{"gzip"} })
	}
	return all
}

// texts returns texts of n bytes.
func texts(n int) map[string]string {
	return map[string]string{
		"letters": strings.Repeat("a", n), "letters beyond ASCII": strings.Repeat("é", n/2), "bytes that are not UTF-8": strings.Repeat("\xff", n),
		"control characters": strings.Repeat("\x01", n), "quotes": strings.Repeat(`"`, n), "slashes": strings.Repeat("/a", n/2), "digits": strings.Repeat("9", n),
		"base64": strings.Repeat("eyJp", n/4),
	}
}

// headers returns headers of n bytes, and tokens of a megabyte, of which the length must suffice.
func headers(n int) map[string]http.Header {
	all := map[string]http.Header{
		"a token of a megabyte":             {"Authorization": {"Bearer " + strings.Repeat("_", 1<<20)}},
		"a session of a megabyte":           {"Authorization": nil, "Cookie": {"sluice_session=" + strings.Repeat("_", 1<<20)}},
		"sessions":                          {"Authorization": nil, "Cookie": {strings.Repeat("sluice_session=_; ", n/18)}},
		"cookies":                           {"Authorization": nil, "Cookie": {strings.Repeat("a=; ", n/4)}},
		"many cookie headers":               {"Authorization": nil, "Cookie": slices.Repeat([]string{"a=b"}, n/11)},
		"a scheme without a token":          {"Authorization": {strings.Repeat("Bearer", n/6)}},
		"spaces before a token":             {"Authorization": {"Bearer" + strings.Repeat(" ", n) + "_"}},
		"many tokens":                       {"Authorization": slices.Repeat([]string{"Bearer _"}, n/25)},
		"content codings":                   {"Content-Encoding": {strings.Repeat("gzip,", n/5)}},
		"parameters of a media type":        {"Content-Type": {"application/json" + repeated(";p%d=a", n)}},
		"weights of codings":                {"Accept-Encoding": {strings.Repeat("gzip;q=0,", n/9)}},
		"many weights of codings":           {"Accept-Encoding": {repeated("c%d;q=0,", n)}},
		"entity tags":                       {"If-None-Match": {strings.Repeat(`"a",`, n/4)}, "If-Match": {"*"}},
		"revisions":                         {"If-Match": {strings.Repeat(`"1",`, n/4)}},
		"a list of proxies":                 {"X-Forwarded-For": {strings.Repeat("192.0.2.1,", n/10)}},
		"a protocol":                        {"X-Forwarded-Proto": {strings.Repeat("https,", n/6)}},
		"one header, many times":            {"X": slices.Repeat([]string{""}, n/5)},
		"media types that the page accepts": {"Accept": {strings.Repeat("text/html,", n/10)}},
	}
	many := make(http.Header)
	for i := range n / 10 {
		many[fmt.Sprintf("X-%d", i)] = []string{""}
	}
	all["many headers"] = many
	return all
}

// queries returns queries of n bytes.
func queries(n int) map[string]string {
	return map[string]string{
		"parameters": repeated("%d=&", n), "empty parameters": strings.Repeat("&", n), "one parameter": strings.Repeat("limit=1&", n/8),
		"conditions": repeated("attributes.%d=1&", n), "conditions on one attribute": strings.Repeat("attributes.a[gte]=1&", n/20),
		"parameters and conditions": repeated("a%d=&attributes.%[1]d=&", n), "a few long parameters": strings.Repeat(strings.Repeat("%01", n/100)+"%d=&", 30),
		"a few long conditions": repeated("attributes."+strings.Repeat("a", n/5)+"%d=1&", n), "names of control characters": repeated("%%01%d=&", n),
	}
}

// escape returns at most n bytes of text, percent-encoded.
func escape(text string, n int) string {
	text = strings.ReplaceAll(url.QueryEscape(text), "+", "%20")
	text = text[:min(len(text), n)]
	if i := strings.LastIndexByte(text, '%'); i >= 0 && i > len(text)-3 {
		text = text[:i]
	}
	return text
}

// repeated formats 0, 1, and so on until the result has nearly n bytes.
func repeated(format string, n int) string {
	var b strings.Builder
	for i := 0; ; i++ {
		next := fmt.Sprintf(format, i)
		if b.Len()+len(next) > n {
			return b.String()
		}
		b.WriteString(next)
	}
}
