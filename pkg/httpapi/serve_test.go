package httpapi_test

import (
	"encoding/base64"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/aws/aws-lambda-go/events"

	"sluice/pkg/httpapi"
)

func newFunction(t testing.TB, route string, a service, opts httpapi.Options) http.Handler {
	t.Helper()
	h, err := httpapi.NewFunction(route, a.limiter, a.stores, opts)
	if err != nil {
		t.Fatal(err)
	}
	return h
}

// serve passes an event's HTTP request to h and returns the response as an event.
// functions/internal/bootstrap tests the conversion of API Gateway's events.
func serve(t testing.TB, h http.Handler, ev events.APIGatewayV2HTTPRequest) events.APIGatewayV2HTTPResponse {
	t.Helper()
	return serveHTTP(h, requestOf(t, ev))
}

func serveHTTP(h http.Handler, r *http.Request) events.APIGatewayV2HTTPResponse {
	recorder := httptest.NewRecorder()
	h.ServeHTTP(recorder, r)
	resp := events.APIGatewayV2HTTPResponse{StatusCode: recorder.Code, Headers: make(map[string]string), Body: recorder.Body.String()}
	for name, values := range recorder.Header() {
		if name == "Set-Cookie" {
			resp.Cookies = values
		} else {
			resp.Headers[name] = strings.Join(values, ",")
		}
	}
	return resp
}

func requestOf(t testing.TB, ev events.APIGatewayV2HTTPRequest) *http.Request {
	t.Helper()
	target := ev.RawPath
	if ev.RawQueryString != "" {
		target += "?" + ev.RawQueryString
	}
	body := ev.Body
	if ev.IsBase64Encoded {
		decoded, err := base64.StdEncoding.DecodeString(body)
		if err != nil {
			t.Fatal(err)
		}
		body = string(decoded)
	}
	r, err := http.NewRequestWithContext(t.Context(), ev.RequestContext.HTTP.Method, "http://"+ev.RequestContext.DomainName+target, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	r.RequestURI = target
	r.RemoteAddr = net.JoinHostPort(ev.RequestContext.HTTP.SourceIP, "1234")
	for name, value := range ev.Headers {
		r.Header.Set(name, value)
	}
	for _, cookie := range ev.Cookies {
		r.Header.Add("Cookie", cookie)
	}
	return r
}
