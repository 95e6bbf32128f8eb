package httpapi_test

import (
	"flag"
	"fmt"
	"io"
	"net/http"
	"os"
	"slices"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/aws/aws-lambda-go/events"

	"sluice"
	"sluice/internal/test/openapitest"
	"sluice/pkg/entity"
	"sluice/pkg/event"
	"sluice/pkg/httpapi"
	"sluice/pkg/memory"
	"sluice/pkg/ratelimit"
	"sluice/pkg/record"
)

// spec checks every response in this package's tests against openapi.yaml.
var spec *openapitest.Spec

func TestMain(m *testing.M) {
	var err error
	if spec, err = openapitest.Load(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	code := m.Run()
	// Together, the tests must produce every response that openapi.yaml describes.
	if code == 0 && runsAll() {
		if unseen := spec.Unseen(); len(unseen) > 0 {
			fmt.Fprintf(os.Stderr, "FAIL: openapi.yaml describes responses that no test produces:\n\t%s\n", strings.Join(unseen, "\n\t"))
			code = 1
		}
	}
	os.Exit(code)
}

func runsAll() bool {
	return !slices.ContainsFunc([]string{"test.run", "test.skip", "test.fuzz", "test.list"}, func(name string) bool {
		return flag.Lookup(name).Value.String() != ""
	})
}

func checkDescribed(t testing.TB, ev events.APIGatewayV2HTTPRequest, resp events.APIGatewayV2HTTPResponse) {
	t.Helper()
	header := make(http.Header)
	for name, value := range resp.Headers {
		header.Set(name, value)
	}
	var body []byte
	if batch := slices.ContainsFunc(httpapi.Routes(), func(r httpapi.Route) bool { return r.Path == ev.RawPath && r.Batch() }); !batch && !ev.IsBase64Encoded { // elements of a batch may be invalid
		body = []byte(ev.Body)
	}
	err := spec.Check(openapitest.Response{Method: ev.RequestContext.HTTP.Method, Target: ev.RawPath, Request: body, Status: resp.StatusCode, Header: header, Body: []byte(resp.Body)})
	if err != nil {
		t.Error(err)
	}
}

func TestTheDescriptionIsServed(t *testing.T) {
	a := newAPI(t)
	resp := a.invoke(t, "openapi", sample(t, "openapi"))
	if resp.StatusCode != 200 || resp.Headers["Content-Type"] != "application/yaml" || resp.Body != string(sluice.OpenAPI) {
		t.Errorf("%d %v", resp.StatusCode, resp.Headers)
	}
	ev := sample(t, "openapi")
	ev.RawQueryString = "a=b"
	if resp := a.invoke(t, "openapi", ev); resp.StatusCode != 400 {
		t.Errorf("with a parameter: %d", resp.StatusCode)
	}
}

func TestEveryRouteFailsAsDescribed(t *testing.T) {
	for _, route := range httpapi.Routes() {
		t.Run(route.Name, func(t *testing.T) {
			healthy := newAPI(t)
			limited, err := ratelimit.New(memory.NewCounters(), ratelimit.Config{Now: now, Limits: ratelimit.Limits{Requests: 1}})
			if err != nil {
				t.Fatal(err)
			}
			cut, err := ratelimit.New(unreachable{}, ratelimit.Config{Now: now})
			if err != nil {
				t.Fatal(err)
			}
			ev := rowSample(t, route)
			want := func(a service, ev events.APIGatewayV2HTTPRequest, status int) {
				t.Helper()
				if resp := a.invoke(t, route.Name, ev); resp.StatusCode != status {
					t.Errorf("status %d, want %d: %s", resp.StatusCode, status, resp.Body)
				}
			}
			over := service{stores: healthy.stores, limiter: limited}
			over.invoke(t, route.Name, ev)
			want(over, ev, http.StatusTooManyRequests)
			want(service{stores: healthy.stores, limiter: cut}, ev, http.StatusServiceUnavailable)
			// The excluded routes use no store, so untouchable cannot make them fail.
			if route.Name != "openapi" && route.Name != "dashboard" && !storeless(healthy, route.Name) {
				want(service{stores: untouchable, limiter: healthy.limiter}, ev, http.StatusInternalServerError)
			}
			around := options
			around.OriginSecrets, around.ClientIPHeader = []string{"0123456789abcdef"}, "X-Client-Ip"
			resp := serve(t, newFunction(t, route.Name, healthy, around), ev)
			checkDescribed(t, ev, resp)
			if resp.StatusCode != http.StatusForbidden {
				t.Errorf("a request that bypasses the proxy: %d %s", resp.StatusCode, resp.Body)
			}
			nobody := ev
			nobody.RequestContext.HTTP.SourceIP = ""
			want(healthy, nobody, http.StatusBadRequest)
			if route.Method != http.MethodPost {
				return
			}
			plain, zipped := newAPI(t), newAPI(t)
			if got, want := zipped.postCoded(t, route.Name, ev.RawPath, "gzip", compressed(t, ev.Body)), plain.invoke(t, route.Name, ev); got.StatusCode != want.StatusCode || got.Body != want.Body && route.Name != "create-api-key" {
				t.Errorf("compressed: %d %s, plain: %d %s", got.StatusCode, got.Body, want.StatusCode, want.Body)
			}
			bad := ev
			bad.Body = "{"
			want(healthy, bad, http.StatusBadRequest)
			bad.Body = `{"x":1}`
			want(healthy, bad, http.StatusUnprocessableEntity)
			bad.Body = strings.Repeat(" ", 2<<20)
			want(healthy, bad, http.StatusRequestEntityTooLarge)
			stalled := requestOf(t, ev)
			stalled.Body, stalled.ContentLength = io.NopCloser(iotest.ErrReader(os.ErrDeadlineExceeded)), -1
			resp = serveHTTP(newFunction(t, route.Name, healthy, options), stalled)
			checkDescribed(t, ev, resp)
			if resp.StatusCode != http.StatusRequestTimeout {
				t.Errorf("a stalled body: %d %s", resp.StatusCode, resp.Body)
			}
			bad = rowSample(t, route)
			bad.Headers["content-type"] = "text/plain"
			want(healthy, bad, http.StatusUnsupportedMediaType)
		})
	}
}

func TestRecordsHaveTheMembersThatAreDescribed(t *testing.T) {
	gone := entity.Change{Deleted: true, Reason: record.Filtered}
	goneEvent := event.Change{Reason: record.Filtered}
	for schema, members := range map[string][]record.Member{
		"Entity": new(entity.Change).Members(nil), "Tombstone": (&entity.Change{Deleted: true}).Members(nil), "FilteredEntity": gone.Members(nil),
		"Event": new(event.Change).Members(nil), "FilteredEvent": goneEvent.Members(nil),
		"EntityChange": slices.Concat(new(entity.Change).Members(nil), (&entity.Change{Deleted: true}).Members(nil), []record.Member{{Name: "replace"}, {Name: "reason"}, {Name: "if_revision"}}),
	} {
		if got, want := spec.Properties(schema), record.Names(members); !slices.Equal(got, slices.Compact(slices.Sorted(slices.Values(want)))) {
			t.Errorf("%s is described with %v, but has %v", schema, got, want)
		}
	}
	for schema, members := range map[string][]record.Member{
		"NewEntity": new(entity.Entity).Members(nil), "NewEvent": new(event.Event).Members(nil),
	} {
		chosen := slices.DeleteFunc(members, func(m record.Member) bool { return m.ByService })
		if got, want := spec.Properties(schema), record.Names(chosen); !slices.Equal(got, slices.Sorted(slices.Values(want))) {
			t.Errorf("%s is described with %v, but takes %v", schema, got, want)
		}
	}
}
