package httpapi_test

import (
	"bytes"
	"compress/gzip"
	"encoding/base64"
	"fmt"
	"io"
	"net/http"
	"runtime"
	"strconv"
	"strings"
	"testing"

	"github.com/aws/aws-lambda-go/events"

	"sluice/internal/test/lambdatest"
	"sluice/pkg/entity"
)

func compressed(t testing.TB, text string) string {
	t.Helper()
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	if _, err := io.WriteString(z, text); err != nil {
		t.Fatal(err)
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

func decompressed(t testing.TB, body string) string {
	t.Helper()
	z, err := gzip.NewReader(strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	text, err := io.ReadAll(z)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// bomb returns a compressed JSON body that decompresses to more than n bytes.
func bomb(t testing.TB, n int) string {
	t.Helper()
	var b strings.Builder
	z, err := gzip.NewWriterLevel(&b, gzip.BestSpeed)
	if err != nil {
		t.Fatal(err)
	}
	io.WriteString(z, `{"id":"bomb","type":"`+strings.Repeat("a", n)+`"}`) //nolint:errcheck // Close reports the error
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

// postCoded posts a body with a Content-Encoding. API Gateway passes such a body on in base64.
func (a service) postCoded(t testing.TB, route, path, coding, body string) events.APIGatewayV2HTTPResponse {
	t.Helper()
	ev := lambdatest.Event("POST", path, "192.0.2.1", base64.StdEncoding.EncodeToString([]byte(body)))
	ev.IsBase64Encoded = true
	ev.Headers["content-type"] = "application/json"
	if coding != "" {
		ev.Headers["content-encoding"] = coding
	}
	return a.invoke(t, route, ev)
}

// entityOf returns the JSON of an entity, padded with spaces to size bytes.
func entityOf(size int) string {
	const start, end = `{"id":"large","attributes":{"a":"`, `"}}`
	return start + strings.Repeat("x", 100) + end + strings.Repeat(" ", size-len(start)-100-len(end))
}

func TestRequestBodiesMayBeCompressed(t *testing.T) {
	const small = `{"id":"a"}`
	two := compressed(t, small[:4]) + compressed(t, small[4:])
	whole := compressed(t, small)
	for _, tt := range []struct {
		name, coding, body string
		status             int
		code, says         string
	}{
		{"gzip", "gzip", whole, 201, "", ""},
		{"mixed case", "GZip", whole, 201, "", ""},
		{"not at all", "identity", small, 201, "", ""},
		{"the alias x-gzip", "x-gzip", whole, 201, "", ""},
		{"several members", "gzip", two, 201, "", ""},
		{"256 KB", "gzip", compressed(t, entityOf(256<<10)), 201, "", ""},
		{"256 KB and a byte", "gzip", compressed(t, entityOf(256<<10+1)), 413, "body_too_large", "the decompressed body is larger than 262144 bytes"},
		{"a bomb", "gzip", bomb(t, 20<<20), 413, "body_too_large", "decompressed"},
		{"256 KB and a byte before decompression", "gzip", strings.Repeat("\x1f", 256<<10+1), 413, "body_too_large", "larger than 262144"},
		{"not compressed", "gzip", small, 400, "malformed_gzip", "invalid header"},
		{"empty", "gzip", "", 400, "malformed_gzip", "ends early"},
		{"cut off in the header", "gzip", whole[:5], 400, "malformed_gzip", "ends early"},
		{"cut off", "gzip", whole[:len(whole)-9], 400, "malformed_gzip", "ends early"},
		{"without its last byte", "gzip", whole[:len(whole)-1], 400, "malformed_gzip", "ends early"},
		{"wrong checksum", "gzip", whole[:len(whole)-8] + "\x00\x00\x00\x00" + whole[len(whole)-4:], 400, "malformed_gzip", "checksum"},
		{"damaged", "gzip", whole[:11] + "\xff\xff\xff" + whole[14:], 400, "malformed_gzip", "compress it once"},
		{"other bytes after the gzip", "gzip", whole + strings.Repeat("garbage", 9), 400, "malformed_gzip", "invalid header"},
		{"one byte after the gzip", "gzip", whole + "x", 400, "malformed_gzip", "other bytes follow it"},
		{"compressed twice", "gzip", compressed(t, whole), 400, "malformed_gzip", "compressed twice"},
		{"compressed without Content-Encoding", "", whole, 400, "malformed_gzip", "Content-Encoding: gzip"},
		{"two codings", "gzip, gzip", compressed(t, whole), 415, "unsupported_media_type", "compressed once with gzip"},
		{"unknown", "br", whole, 415, "unsupported_media_type", "not with Content-Encoding: br"},
		{"deflate", "deflate", whole, 415, "unsupported_media_type", "compressed once with gzip"},
		{"malformed JSON", "gzip", compressed(t, `{"id"`), 400, "malformed_json", ""},
		{"invalid", "gzip", compressed(t, `{"id":1}`), 422, "invalid_body", ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			a := newAPI(t)
			resp := a.postCoded(t, "create-entity", "/create_entity", tt.coding, tt.body)
			if resp.StatusCode != tt.status || tt.code != "" && !strings.Contains(resp.Body, `"code":"`+tt.code+`"`) || !strings.Contains(resp.Body, tt.says) {
				t.Errorf("%d %s, want %d %s", resp.StatusCode, resp.Body, tt.status, tt.code)
			}
			if accepts := resp.Headers["Accept-Encoding"]; (accepts == "gzip") != (tt.status == 415) {
				t.Errorf("Accept-Encoding: %q", accepts)
			}
			page, err := a.stores.Entities.List(t.Context(), "default", entity.Query{Limit: 2})
			if stored := len(page.Records); err != nil || (stored == 1) != (tt.status == 201) {
				t.Errorf("%d entities stored, %v", stored, err)
			}
		})
	}
}

// The bytes that a request allocates are an upper bound on the heap that it uses.
func TestAGzipBombTakesNoMoreMemoryThanAnyBody(t *testing.T) {
	a := newAPI(t)
	h := newFunction(t, "create-events", a, options)
	allocated := func(expanded int) uint64 {
		body := bomb(t, expanded)
		if len(body) > 1<<20 {
			t.Fatalf("the bomb has %d bytes", len(body))
		}
		r := requestOf(t, lambdatest.Event("POST", "/create_events", "192.0.2.1", body))
		r.Header.Set("Content-Encoding", "gzip")
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		resp := serveHTTP(h, r)
		runtime.ReadMemStats(&after)
		if resp.StatusCode != 413 {
			t.Fatalf("%d %s", resp.StatusCode, resp.Body)
		}
		return after.TotalAlloc - before.TotalAlloc
	}
	allocated(2 << 20)
	small, large := allocated(2<<20), allocated(40<<20)
	t.Logf("allocated for a bomb of 2 MB: %d bytes, of 40 MB: %d bytes", small, large)
	if large > 16<<20 {
		t.Errorf("a bomb of 40 MB allocated %d bytes; one of 2 MB %d", large, small)
	}
}

// acceptedAs sends a list request with one Accept-Encoding header for each element of accept.
func (a service) acceptedAs(t *testing.T, target string, accept ...string) (resp events.APIGatewayV2HTTPResponse, ev events.APIGatewayV2HTTPRequest) {
	t.Helper()
	ev = lambdatest.Event("GET", target, "192.0.2.1", "")
	r := requestOf(t, ev)
	r.Header["Accept-Encoding"] = accept
	return serveHTTP(newFunction(t, "list-entity", a, options), r), ev
}

func TestListsAreCompressedForClientsThatAcceptGzip(t *testing.T) {
	a := newRoomyAPI(t)
	for i := range 10 {
		a.post(t, "create-entity", fmt.Sprintf(`{"id":"e-%d","attributes":{"a":%q}}`, i, strings.Repeat("word ", 40)))
	}
	plain, _ := a.acceptedAs(t, "/entity")
	for _, tt := range []struct {
		accept []string
		want   bool
	}{
		{nil, false},
		{[]string{""}, false},
		{[]string{"gzip"}, true},
		{[]string{"GZIP"}, true},
		{[]string{"x-gzip"}, true},
		{[]string{"*"}, true},
		{[]string{"br, gzip"}, true},
		{[]string{"br", "gzip"}, true},
		{[]string{"gzip;q=1.0, identity; q=0.5, *;q=0"}, true},
		{[]string{"gzip ; Q=0.001"}, true},
		{[]string{"identity;q=0, gzip;q=0.1"}, true},
		{[]string{"gzip;q=0"}, false},
		{[]string{"gzip;q=0.000"}, false},
		{[]string{"gzip;q=0, *"}, false},
		{[]string{"*;q=0"}, false},
		{[]string{"br, deflate"}, false},
		{[]string{"identity, gzip;q=0.5"}, false},
		{[]string{"gzip;q=2"}, false},
		{[]string{"gzip;q=-1"}, false},
		{[]string{"gzip;q=NaN"}, false},
		{[]string{"gzip;q=x"}, false},
		{[]string{"gzip;v=1"}, false},
		{[]string{"gzipped"}, false},
	} {
		resp, ev := a.acceptedAs(t, "/entity", tt.accept...)
		if resp.Headers["Vary"] != "Accept-Encoding" || resp.Headers["Content-Length"] != strconv.Itoa(len(resp.Body)) {
			t.Errorf("%q: %v, %d bytes", tt.accept, resp.Headers, len(resp.Body))
		}
		if got := resp.Headers["Content-Encoding"] == "gzip"; got != tt.want {
			t.Errorf("%q: compressed %t, want %t", tt.accept, got, tt.want)
		} else if got {
			if len(resp.Body) > len(plain.Body)/2 {
				t.Errorf("%q: %d bytes, plain %d", tt.accept, len(resp.Body), len(plain.Body))
			}
			resp.Body = decompressed(t, resp.Body)
		}
		if resp.Body != plain.Body || resp.Headers["Content-Type"] != "application/json" {
			t.Errorf("%q: %s %v, want %s", tt.accept, resp.Body, resp.Headers, plain.Body)
		}
		checkDescribed(t, ev, resp)
	}
}

func TestResponsesOfImportsAreCompressed(t *testing.T) {
	a := newRoomyAPI(t)
	attributes := fmt.Sprintf(`{"a":%q}`, strings.Repeat("word ", 400))
	for _, tt := range []struct{ route, body string }{
		{"create-entity", `{"id":"a","attributes":` + attributes + `}`},
		{"update-entity", `{"id":"a","attributes":{"b":1}}`},
		{"upsert-entities", `{"entities":[{"id":"a","attributes":{"b":2}}]}`},
		{"create-event", `{"id":"a","name":"n","attributes":` + attributes + `}`},
		{"create-events", `{"events":[{"id":"a","name":"n","attributes":` + attributes + `}]}`},
	} {
		ev := lambdatest.Event("POST", "/"+strings.ReplaceAll(tt.route, "-", "_"), "192.0.2.1", tt.body)
		ev.Headers["accept-encoding"] = "gzip"
		resp := serve(t, newFunction(t, tt.route, a, options), ev)
		size := len(resp.Body)
		if resp.Headers["Content-Encoding"] != "gzip" || resp.Headers["Vary"] != "Accept-Encoding" || size > 500 {
			t.Errorf("%s: %d %v, %d bytes", tt.route, resp.StatusCode, resp.Headers, size)
			continue
		}
		if resp.Body = decompressed(t, resp.Body); !strings.Contains(resp.Body, attributes[:len(attributes)-1]) {
			t.Errorf("%s: %s", tt.route, resp.Body)
		}
		checkDescribed(t, ev, resp)
	}
}

func TestResponsesOfGeneralRoutesAreCompressed(t *testing.T) {
	a := newAPI(t)
	for _, tt := range []struct {
		route, path string
		most        int
	}{{"usage", "/usage", 600}, {"openapi", "/openapi.yaml", 25_000}} {
		ev := lambdatest.Event("GET", tt.path, "192.0.2.1", "")
		plain := a.invoke(t, tt.route, ev)
		ev.Headers["accept-encoding"] = "gzip"
		resp := serve(t, newFunction(t, tt.route, a, options), ev)
		if resp.Headers["Content-Encoding"] != "gzip" || resp.Headers["Vary"] != "Accept-Encoding" || len(resp.Body) > tt.most {
			t.Errorf("%s: %d %v, %d bytes, plain %d", tt.route, resp.StatusCode, resp.Headers, len(resp.Body), len(plain.Body))
		} else if resp.Body = decompressed(t, resp.Body); len(resp.Body) < len(plain.Body)-10 {
			t.Errorf("%s: %d bytes, want %d", tt.route, len(resp.Body), len(plain.Body))
		}
		checkDescribed(t, ev, resp)
	}
}

func TestCompressionChangesNeitherTheCostNorTheLinkOfAList(t *testing.T) {
	a := newAPI(t)
	for i := range 10 {
		a.post(t, "create-entity", fmt.Sprintf(`{"id":"e-%d","attributes":{"a":%q}}`, i, strings.Repeat("word ", 40)))
	}
	resp, _ := a.acceptedAs(t, "/entity?limit=9", "gzip")
	if resp.Headers["Content-Encoding"] != "gzip" || !strings.Contains(resp.Headers["RateLimit"], `"records";r=191`) || !strings.HasPrefix(resp.Headers["Link"], "</entity?cursor=") {
		t.Errorf("%v", resp.Headers)
	}
}

func TestSmallResponsesAreNotCompressed(t *testing.T) {
	a := newRoomyAPI(t)
	get := func(id string) events.APIGatewayV2HTTPResponse {
		r := requestOf(t, lambdatest.Event("GET", "/entity/"+id, "192.0.2.1", ""))
		r.Header.Set("Accept-Encoding", "gzip")
		return serveHTTP(newFunction(t, "get-entity", a, options), r)
	}
	a.post(t, "create-entity", `{"id":"e-0","attributes":{"a":""}}`)
	rest := 1400 - len(get("e-0").Body)
	for n, want := range map[int]string{rest - 1: "", rest: "gzip"} {
		id := fmt.Sprintf("e-%d", n%10)
		a.post(t, "create-entity", fmt.Sprintf(`{"id":%q,"type":"entity","attributes":{"a":%q}}`, id, strings.Repeat("x", n)))
		if resp := get(id); resp.Headers["Content-Encoding"] != want || resp.StatusCode != 200 {
			t.Errorf("%d bytes: %d %v", 1400-rest+n, resp.StatusCode, resp.Headers)
		}
	}
}

func TestProblemsAreNotCompressed(t *testing.T) {
	a := newAPI(t)
	resp, _ := a.acceptedAs(t, "/entity?"+strings.Repeat("x", 3000)+"=1", "gzip")
	if resp.StatusCode != http.StatusBadRequest || resp.Headers["Content-Encoding"] != "" || !strings.HasPrefix(resp.Body, "{") {
		t.Errorf("%d %v", resp.StatusCode, resp.Headers)
	}
}
