package gateway

import (
	"context"
	"log/slog"
	"maps"
	"testing"

	"github.com/aws/aws-lambda-go/events"
)

func TestMatch(t *testing.T) {
	functions := make(map[string]Function)
	for _, key := range []string{"$default", "GET /a", "GET /a/{id}", "GET /a/{id}/b", "GET /d", "GET /d/{proxy+}", "GET /d/{id}/x", "GET /d/e", "POST /d/e"} {
		functions[key] = func(context.Context, events.APIGatewayV2HTTPRequest) (events.APIGatewayV2HTTPResponse, error) {
			return events.APIGatewayV2HTTPResponse{}, nil
		}
	}
	g, err := New(functions, slog.Default())
	if err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		method, path, key string
		params            map[string]string
	}{
		{"GET", "/a", "GET /a", nil},
		{"GET", "/a/", "$default", nil},
		{"GET", "/a/1", "GET /a/{id}", map[string]string{"id": "1"}},
		{"GET", "/a/1/b", "GET /a/{id}/b", map[string]string{"id": "1"}},
		{"GET", "/a/1/c", "$default", nil},
		{"GET", "/d", "GET /d", nil},
		{"GET", "/d/", "$default", nil},
		{"GET", "/d/f", "GET /d/{proxy+}", map[string]string{"proxy": "f"}},
		{"GET", "/d/f/g/h", "GET /d/{proxy+}", map[string]string{"proxy": "f/g/h"}},
		{"GET", "/d/f/x", "GET /d/{id}/x", map[string]string{"id": "f"}}, // greedy comes last
		{"GET", "/d/e", "GET /d/e", nil},
		{"POST", "/d/e", "POST /d/e", nil},
		{"POST", "/d/f", "$default", nil},
		{"GET", "/", "$default", nil},
	} {
		key, _, params := g.match(tt.method, tt.path)
		if key != tt.key || !maps.Equal(params, tt.params) {
			t.Errorf("%s %s: %s with %v, want %s with %v", tt.method, tt.path, key, params, tt.key, tt.params)
		}
	}
}
