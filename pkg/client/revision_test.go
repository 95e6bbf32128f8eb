package client_test

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"sluice/pkg/client"
	"sluice/pkg/entity"
	"sluice/pkg/record"
)

// A change for a revision whose context ends may have been made, so the call is not retryable.
func TestTheOutcomeOfAChangeThatIsGivenUpIsUnknown(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	server := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
		cancel()
		panic(http.ErrAbortHandler)
	}))
	defer server.Close()
	c, err := client.New(server.URL, client.Config{})
	if err != nil {
		t.Fatal(err)
	}
	_, err = c.UpdateEntityIf(ctx, "c", 1, record.Attributes(`{}`))
	failure, ok := errors.AsType[*client.Error](err)
	if !ok || !errors.Is(err, client.ErrUnknownOutcome) || !errors.Is(err, context.Canceled) || failure.Retryable() || failure.Rejected() {
		t.Error(err)
	}
	if err := c.DeleteEntityIf(ctx, "c", 1); errors.Is(err, client.ErrUnknownOutcome) || !errors.Is(err, context.Canceled) {
		t.Errorf("nothing was sent: %v", err)
	}
}

func TestWithoutAConnectionNothingIsChanged(t *testing.T) {
	t.Parallel()
	server := httptest.NewServer(nil)
	server.Close()
	c, err := client.New(server.URL, client.Config{MaxTries: 2, MinBackoff: time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	_, err = c.UpdateEntityIf(t.Context(), "c", 1, record.Attributes(`{}`))
	if failure, ok := errors.AsType[*client.Error](err); !ok || errors.Is(err, client.ErrUnknownOutcome) || !failure.Retryable() || failure.Tries != 2 {
		t.Error(err)
	}
}

func TestAnErrorOfThePatchEndsTheUpdate(t *testing.T) {
	t.Parallel()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodGet {
			t.Errorf("%s %s", r.Method, r.URL)
		}
		w.Write([]byte(`{"id":"c","type":"t","attributes":{},"revision":1,"created_at":"2026-01-02T15:04:05.678Z","updated_at":"2026-01-02T15:04:05.678Z"}`)) //nolint:errcheck // the client reports it
	}))
	defer server.Close()
	c, err := client.New(server.URL, client.Config{})
	if err != nil {
		t.Fatal(err)
	}
	want := errors.New("no")
	if _, err := c.UpdateEntityFunc(t.Context(), "c", func(entity.Entity) (record.Attributes, error) { return nil, want }); err != want {
		t.Error(err)
	}
}
