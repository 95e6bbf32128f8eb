package eraser

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"sluice/pkg/client"
)

// After a permanent rejection, the hint says that the service must accept the request first.
func TestTheHintAfterAFailure(t *testing.T) {
	t.Parallel()
	for status, want := range map[int]string{
		http.StatusUnauthorized:        "\nThe erasure continues in the service; once the service accepts the request, the same command also erases later events and waits for the job",
		http.StatusInternalServerError: "\nThe erasure continues in the service; the same command also erases later events and waits for the job",
	} {
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.Method == http.MethodPost {
				w.WriteHeader(http.StatusAccepted)
				fmt.Fprint(w, `{"id":"ada","status":"queued"}`)
				return
			}
			w.WriteHeader(status)
		}))
		defer server.Close()
		c, err := client.New(server.URL, client.Config{MaxTries: 1})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := Run(t.Context(), c, "ada", io.Discard); err == nil || !strings.HasSuffix(err.Error(), want) {
			t.Errorf("%d: %v", status, err)
		}
	}
}
