package client_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"

	"sluice/pkg/client"
	"sluice/pkg/entity"
	"sluice/pkg/event"
)

type batchService struct {
	t       *testing.T
	calls   [][]string                    // ids sent in each call
	outcome func(id string, call int) int // returns the status of a record
}

func (s *batchService) RoundTrip(r *http.Request) (*http.Response, error) {
	var body struct {
		Events   []struct{ ID string } `json:"events"`
		Entities []struct{ ID string } `json:"entities"`
	}
	if err := json.NewDecoder(r.Body).Decode(&body); err != nil {
		s.t.Error(err)
	}
	var ids []string
	var results []map[string]any
	statuses := make(map[int]bool)
	member, text := "event", stored
	if body.Entities != nil {
		member, text = "entity", storedEntity
	}
	for i, e := range append(body.Events, body.Entities...) {
		ids = append(ids, e.ID)
		status := s.outcome(e.ID, len(s.calls))
		statuses[status] = true
		result := map[string]any{"index": i, "status": status}
		if status < 300 {
			result[member] = json.RawMessage(strings.Replace(text, `"a"`, `"`+e.ID+`"`, 1))
		} else {
			result["problem"] = map[string]any{"status": status, "code": fmt.Sprint("code", status), "detail": "because"}
		}
		results = append(results, result)
	}
	s.calls = append(s.calls, ids)
	status := 207
	if len(statuses) == 1 {
		for status = range statuses {
		}
	}
	var b bytes.Buffer
	if err := json.NewEncoder(&b).Encode(map[string]any{"results": results, "status": status}); err != nil {
		s.t.Error(err)
	}
	return respond(status, b.String()), nil
}

type sent struct {
	id      string
	created bool
	err     error
}

func sendEvents(t *testing.T, c *client.Client, ids ...string) (all []sent, err error) {
	t.Helper()
	var events []event.Draft
	for _, id := range ids {
		events = append(events, event.Draft{ID: id, Name: "n"})
	}
	results, err := c.CreateEvents(t.Context(), events)
	for _, r := range results {
		all = append(all, sent{r.Record.ID, r.Created, r.Err})
	}
	return all, err
}

func sendEntities(t *testing.T, c *client.Client, ids ...string) (all []sent, err error) {
	t.Helper()
	var entities []entity.Draft
	for _, id := range ids {
		entities = append(entities, entity.Draft{ID: id})
	}
	results, err := c.UpsertEntities(t.Context(), entities)
	for _, r := range results {
		all = append(all, sent{r.Record.ID, r.Created, r.Err})
	}
	return all, err
}

func TestABatchRepeatsOnlyRecordsWithRetryableErrors(t *testing.T) {
	t.Parallel()
	ids := []string{"ok", "old", "later", "bad", "much-later"}
	for route, send := range map[string]func(*testing.T, *client.Client, ...string) ([]sent, error){"create-events": sendEvents, "upsert-entities": sendEntities} {
		synctest.Test(t, func(t *testing.T) {
			s := &batchService{t: t, outcome: func(id string, call int) int {
				switch {
				case id == "bad":
					return 422
				case id == "later" && call < 1, id == "much-later" && call < 3:
					return 503
				case id == "old":
					return 200
				}
				return 201
			}}
			c, err := client.New("http://service", client.Config{Transport: s})
			if err != nil {
				t.Fatal(err)
			}
			results, err := send(t, c, ids...)
			if err != nil || len(results) != len(ids) {
				t.Fatalf("%s: %d results, error %v", route, len(results), err)
			}
			for i, r := range results {
				var failure *client.Error
				switch {
				case ids[i] == "bad":
					if !errors.As(r.err, &failure) || failure.Status != 422 || failure.Code != "code422" || failure.Route != route {
						t.Errorf("%s: bad: %+v", route, r)
					}
				case r.err != nil || r.created != (ids[i] != "old") || r.id != ids[i]:
					t.Errorf("%s: %s: %+v", route, ids[i], r)
				}
			}
			if got := fmt.Sprint(s.calls); got != "[[ok old later bad much-later] [later much-later] [much-later] [much-later]]" {
				t.Errorf("%s: the calls were %s", route, got)
			}
		})
	}
}

func TestABatchGivesUpOnARecordThatKeepsFailing(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := &batchService{t: t, outcome: func(id string, _ int) int {
			if id == "ok" {
				return 200
			}
			return 503
		}}
		c, err := client.New("http://service", client.Config{Transport: s})
		if err != nil {
			t.Fatal(err)
		}
		results, err := sendEvents(t, c, "ok", "later")
		var failure *client.Error
		if !errors.As(err, &failure) || failure.Status != 503 || !failure.Retryable() || len(s.calls) != client.DefaultMaxTries {
			t.Fatalf("%d calls, then %v", len(s.calls), err)
		}
		if results[0].err != nil || results[0].created || results[1].err != err {
			t.Errorf("results %+v", results)
		}
	})
}

// The whole batch is sent again if the error is retryable, and fails otherwise.
func TestAResponseWithoutResultsConcernsTheWholeBatch(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		responses []string // status and body
		sent      int
		status    int
	}{
		{[]string{`400{"code":"malformed_json","detail":"no"}`}, 1, 400},
		{[]string{`413{"code":"body_too_large","detail":"no"}`}, 1, 413},
		{[]string{`201{"results":[]}`}, client.DefaultMaxTries, 201},
		{[]string{`201{"results":[{"index":0,"status":201}]}`}, client.DefaultMaxTries, 201},
		{[]string{`429{}`, `201{"results":[{"index":0,"status":201,"event":` + stored + `}]}`}, 2, 0},
	} {
		synctest.Test(t, func(t *testing.T) {
			sent := 0
			c, err := client.New("http://service", client.Config{Transport: roundTrip(func(*http.Request) (*http.Response, error) {
				text := tt.responses[min(sent, len(tt.responses)-1)]
				sent++
				var status int
				fmt.Sscan(text[:3], &status) //nolint:errcheck // each text begins with a number
				return respond(status, text[3:]), nil
			})})
			if err != nil {
				t.Fatal(err)
			}
			results, err := c.CreateEvents(t.Context(), []event.Draft{{Name: "n"}})
			if sent != tt.sent || len(results) != 1 || results[0].Err != err {
				t.Errorf("%v: %d sent, results %+v, error %v", tt.responses, sent, results, err)
			}
			var failure *client.Error
			if errors.As(err, &failure) != (tt.status != 0) || failure != nil && failure.Status != tt.status {
				t.Errorf("%v: error %v", tt.responses, err)
			}
		})
	}
}

const storedEntity = `{"id":"a","type":"t","attributes":{},"created_at":"2026-01-02T15:04:05.000Z","updated_at":"2026-01-02T15:04:05.000Z"}`

// The service omits large entities from the results.
func TestUpsertEntitiesAcceptsResultsWithoutAnEntity(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		bodies := []string{`{"results":[{"index":0,"status":503}]}`, `{"results":[{"index":0,"status":200}]}`}
		sent := 0
		c, err := client.New("http://service", client.Config{Transport: roundTrip(func(*http.Request) (*http.Response, error) {
			sent++
			return respond(200, bodies[sent-1]), nil
		})})
		if err != nil {
			t.Fatal(err)
		}
		results, err := c.UpsertEntities(t.Context(), []entity.Draft{{ID: "a"}})
		if err != nil || sent != 2 || results[0].Err != nil || results[0].Created || results[0].Record.ID != "a" {
			t.Errorf("%d requests, %+v, error %v", sent, results, err)
		}
	})
}
