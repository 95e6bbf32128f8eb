package client_test

import (
	"net/http"
	"strings"
	"testing"

	"sluice/pkg/client"
)

// The Client learns its source even if its key lacks the scope for the request.
func TestSource(t *testing.T) {
	t.Parallel()
	source, statuses := "id/w", []int{503, 403}
	c, err := client.New("http://service", client.Config{MinBackoff: 1, Transport: roundTrip(func(r *http.Request) (*http.Response, error) {
		if r.URL.Path == "/event/e" {
			return respond(200, stored, "Sluice-Source", source), nil
		}
		status := statuses[0]
		statuses = statuses[1:]
		return respond(status, `{"code":"missing_scope"}`, "Sluice-Source", source), nil
	})})
	if err != nil {
		t.Fatal(err)
	}
	if got, err := c.Source(t.Context()); got != source || err != nil || len(statuses) > 0 {
		t.Fatalf("%q, %v", got, err)
	}
	for _, want := range []string{"", "the response is about other records (id/v) than those before (id/w)"} {
		if _, err := c.GetEvent(t.Context(), "e"); (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("as %s: %v", source, err)
		}
		source = "id/v"
	}
	for status, want := range map[int]string{200: "no Sluice-Source", 401: "401"} {
		c, err := client.New("http://service", client.Config{Transport: fixed(status, `{"data":[]}`)})
		if err != nil {
			t.Fatal(err)
		}
		if got, err := c.Source(t.Context()); got != "" || err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%d: %q, %v", status, got, err)
		}
	}
}
