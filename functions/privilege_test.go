package functions_test

import (
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"

	"sluice/internal/test/dynamoproxy"
	"sluice/internal/test/templatetest"
)

// checkGrants checks that template.yaml grants a function exactly the permissions that its calls
// through the proxies needed, and what Lambda does on its behalf. bucket is nil if the function
// has none.
func checkGrants(t *testing.T, function string, proxy *dynamoproxy.Proxy, bucket *s3Proxy) {
	t.Helper()
	functions := templatetest.Functions(t)
	i := slices.IndexFunc(functions, func(f templatetest.Function) bool { return f.Name == function })
	if i < 0 {
		t.Fatalf("template.yaml has no function %s", function)
	}
	needed, granted := bucket.grants(), functions[i].Grants
	for _, s := range functions[i].Streams {
		needed = append(needed, s.Grants()...)
	}
	for _, a := range proxy.Accesses() {
		// In tests, the name of a table is its logical id, a hyphen and a random suffix.
		resource, _, _ := strings.Cut(a.Table, "-")
		switch {
		case a.Index != "":
			resource += "/index/" + a.Index
		case a.Partition != "":
			resource += "/" + a.Partition
		case resource == "EntitiesTable" && slices.Contains([]string{"dynamodb:DeleteItem", "dynamodb:PutItem", "dynamodb:UpdateItem"}, a.Action):
			resource += templatetest.Workspaces
		}
		needed = append(needed, templatetest.Grant{Action: a.Action, Resource: resource})
	}
	for _, g := range needed {
		if !slices.Contains(granted, g) {
			t.Errorf("%s does %s on %s, which template.yaml does not allow", function, g.Action, g.Resource)
		}
	}
	for _, g := range granted {
		if !slices.Contains(needed, g) {
			t.Errorf("template.yaml allows %s %s on %s, which it has not used", function, g.Action, g.Resource)
		}
	}
}

// s3Proxy is a proxy in front of an S3 server. It records the permissions that requests need.
type s3Proxy struct {
	url string

	mu      sync.Mutex
	actions map[string]bool
	fault   func(*http.Request) bool // see fail
}

// startS3Proxy starts a proxy that lasts until the end of the test. If endpoint is "", every request
// gets an empty response with the status 200.
func startS3Proxy(t *testing.T, endpoint string) *s3Proxy {
	t.Helper()
	target, err := url.Parse(endpoint)
	if err != nil {
		t.Fatal(err)
	}
	p := &s3Proxy{actions: make(map[string]bool)}
	// The proxy keeps the header Host, which requests are signed with.
	forward := &httputil.ReverseProxy{Rewrite: func(r *httputil.ProxyRequest) { r.SetURL(target); r.Out.Host = r.In.Host }}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		failed := p.note(r)
		if endpoint == "" {
			return
		}
		if !failed {
			forward.ServeHTTP(w, r)
			return
		}
		forward.ServeHTTP(httptest.NewRecorder(), r)
		w.Header().Set("Content-Type", "application/xml")
		w.WriteHeader(http.StatusNotFound)
		_, _ = io.WriteString(w, "<Error><Code>NoSuchUpload</Code></Error>")
	}))
	p.url = server.URL
	t.Cleanup(server.Close)
	return p
}

// fail makes the first request for which fault returns true take effect but get the error
// NoSuchUpload.
func (p *s3Proxy) fail(fault func(*http.Request) bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.fault = fault
}

// note records a request, and reports whether it must fail.
func (p *s3Proxy) note(r *http.Request) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.actions[s3Action(r)] = true
	if p.fault == nil || !p.fault(r) {
		return false
	}
	p.fault = nil
	return true
}

// s3Action returns the IAM action that a request for an object needs. Source: Amazon S3 API reference,
// "Required permissions for Amazon S3 API operations".
func s3Action(r *http.Request) string {
	upload := r.URL.Query().Has("uploadId")
	switch {
	case strings.Count(r.URL.Path, "/") < 2:
		return "a request for a bucket: " + r.Method
	case r.Method == http.MethodPut || r.Method == http.MethodPost:
		return "s3:PutObject"
	case r.Method == http.MethodDelete && upload:
		return "s3:AbortMultipartUpload"
	case r.Method == http.MethodDelete:
		return "s3:DeleteObject"
	case upload:
		return "s3:ListMultipartUploadParts"
	}
	return "s3:GetObject"
}

func (p *s3Proxy) grants() (grants []templatetest.Grant) {
	if p == nil {
		return nil
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	for action := range p.actions {
		grants = append(grants, templatetest.Grant{Action: action, Resource: "ExportFilesBucket/*"})
	}
	return grants
}
