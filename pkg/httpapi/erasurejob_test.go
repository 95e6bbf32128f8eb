package httpapi_test

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"sluice/pkg/erasurejob"
	"sluice/pkg/job"
)

func (a service) erase(t *testing.T, body string, status int, want string) {
	t.Helper()
	resp := a.invoke(t, "delete-entity", post(t, "delete-entity", body))
	if resp.StatusCode != status || !strings.Contains(resp.Body, want) {
		t.Errorf("%s: %d %s, want %d %s", body, resp.StatusCode, resp.Body, status, want)
	}
}

func (a service) erasureJob(t *testing.T, status int, want string) {
	t.Helper()
	resp := a.invoke(t, "get-erasure-job", sample(t, "get-erasure-job"))
	if resp.StatusCode != status || !strings.Contains(resp.Body, want) {
		t.Errorf("%d %s, want %d %s", resp.StatusCode, resp.Body, status, want)
	}
}

func TestErasureJobs(t *testing.T) {
	a := newAPI(t)
	for body, want := range map[string]string{
		`{"id":"ada","events":"true"}`: "events must be true or false",
		`{"id":"ada","events":1}`:      "events must be true or false",
		`{"id":"","events":true}`:      "id is required",
		`{"id":"a b","events":true}`:   "id must be",
		`{"events":true}`:              "id is required",
	} {
		a.erase(t, body, http.StatusUnprocessableEntity, want)
	}
	for _, body := range []string{`{"id":"ada","events":false}`, `{"id":"ada","events":null}`} {
		a.erase(t, body, http.StatusOK, `{"id":"ada","deleted":true}`)
	}
	a.erasureJob(t, http.StatusNotFound, "not_found")

	a.erase(t, `{"id":"ada","events":true}`, http.StatusAccepted, `{"id":"ada","status":"queued"}`)
	const queued = `{"id":"ada","status":"queued","events_erased":0,"created_at":"2026-01-02T15:04:05.678Z","started_at":null,"finished_at":null,"error":null}`
	a.erasureJob(t, http.StatusOK, queued)
	ev := sample(t, "list-entity")
	ev.RawQueryString = "updated_since=2026-01-01T00:00:00Z&include_deleted=true&order=desc"
	const tombstone = `{"id":"ada","type":"entity","revision":1,"created_at":"2026-01-02T15:04:05.678Z","deleted_at":"2026-01-02T15:04:05.678Z","deleted":true,"erased":true,"erased_at":"2026-01-02T15:04:05.678Z"}`
	if resp := a.invoke(t, "list-entity", ev); resp.StatusCode != http.StatusOK || !strings.Contains(resp.Body, tombstone) {
		t.Errorf("%d %s, want %s", resp.StatusCode, resp.Body, tombstone)
	}
	a.erase(t, `{"id":"ada","events":true}`, http.StatusAccepted, `{"id":"ada","status":"queued"}`) // returns the same job
	a.erasureJob(t, http.StatusOK, queued)

	end := func(at time.Time) {
		t.Helper()
		j, err := a.stores.ErasureJobs.Get(t.Context(), "default", "ada")
		if err != nil {
			t.Fatal(err)
		}
		j = erasurejob.Kind.Finish(j, job.Succeeded, at)
		j.Details = []byte(`{"events_erased":7}`)
		j.Revision++
		if _, put, err := a.stores.ErasureJobs.Put(t.Context(), j); !put || err != nil {
			t.Fatalf("%v, error %v", put, err)
		}
	}
	end(now())
	a.erasureJob(t, http.StatusOK, `"status":"succeeded","events_erased":7,`)
	a.erase(t, `{"id":"ada","events":true}`, http.StatusAccepted, `{"id":"ada","status":"queued"}`) // creates another job
	a.erasureJob(t, http.StatusOK, `"status":"queued","events_erased":0,"created_at":"2026-01-02T15:04:05.680Z"`)
	end(now().Add(-erasurejob.Kind.Keep).Add(time.Millisecond))
	a.erasureJob(t, http.StatusOK, `"status":"succeeded"`)
	a.erase(t, `{"id":"ada","events":true}`, http.StatusAccepted, "")
	end(now().Add(-erasurejob.Kind.Keep))
	a.erasureJob(t, http.StatusNotFound, "not_found")

	create := sample(t, "create-entity")
	create.Body, create.IsBase64Encoded = `{"id":"ada"}`, false
	if resp := a.invoke(t, "create-entity", create); resp.StatusCode != http.StatusCreated {
		t.Errorf("create over a tombstone: %d %s", resp.StatusCode, resp.Body)
	}
	if resp := a.invoke(t, "list-entity", ev); !strings.Contains(resp.Body, `"attributes":{}`) || !strings.Contains(resp.Body, `"erased_at":"`) {
		t.Errorf("%d %s, want an entity with erased_at", resp.StatusCode, resp.Body)
	}

	if _, err := erasurejob.Request(t.Context(), a.stores.Erasures, "other", "bob"); err != nil {
		t.Fatal(err)
	}
	ev = sample(t, "get-erasure-job")
	ev.RawPath = "/erasure_job/bob"
	if resp := a.invoke(t, "get-erasure-job", ev); resp.StatusCode != http.StatusNotFound {
		t.Errorf("the job of another workspace: %d %s", resp.StatusCode, resp.Body)
	}
}
