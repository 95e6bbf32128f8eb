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
)

// batchService stores events; some it fails to at first.
type batchService struct {
	t       *testing.T
	calls   [][]string // ids of each call
	outcome func(id string, call int) int
}

func (s *batchService) RoundTrip(r *http.Request) (*http.Response, error) {
	var body struct {
		Events []struct{ ID string } `json:"events"`
	}
	if err := json.NewDecoder(r.Body).Decode(&body); err != nil {
		s.t.Error(err)
	}
	var ids []string
	var results []map[string]any
	statuses := make(map[int]bool)
	for i, e := range body.Events {
		ids = append(ids, e.ID)
		status := s.outcome(e.ID, len(s.calls))
		statuses[status] = true
		result := map[string]any{"index": i, "status": status}
		if status < 300 {
			result["event"] = json.RawMessage(strings.Replace(stored, `"a"`, `"`+e.ID+`"`, 1))
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

// Of a batch only those events are sent again that may be stored next time.
func TestABatchRepeatsOnlyWhatFailedForAPassingReason(t *testing.T) {
	t.Parallel()
	events := []client.NewEvent{{ID: "ok", Name: "n"}, {ID: "later", Name: "n"}, {ID: "bad", Name: "n"}, {ID: "much-later", Name: "n"}}
	synctest.Test(t, func(t *testing.T) {
		s := &batchService{t: t, outcome: func(id string, call int) int {
			switch {
			case id == "bad":
				return 422
			case id == "later" && call < 1, id == "much-later" && call < 3:
				return 503
			}
			return 201
		}}
		c, err := client.New("http://service", client.Config{Transport: s})
		if err != nil {
			t.Fatal(err)
		}
		results, err := c.CreateEvents(t.Context(), events)
		if err != nil {
			t.Fatal(err)
		}
		for i, r := range results {
			if events[i].ID == "bad" {
				var failure *client.Error
				if !errors.As(r.Err, &failure) || failure.Status != 422 || failure.Code != "code422" {
					t.Errorf("bad: %+v", r)
				}
			} else if r.Err != nil || !r.Created || r.Event.ID != events[i].ID {
				t.Errorf("%s: %+v", events[i].ID, r)
			}
		}
		if got := fmt.Sprint(s.calls); got != "[[ok later bad much-later] [later much-later] [much-later] [much-later]]" {
			t.Errorf("the calls were %s", got)
		}
	})
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
		results, err := c.CreateEvents(t.Context(), events[:2])
		var failure *client.Error
		if !errors.As(err, &failure) || failure.Status != 503 || !failure.Retryable() || len(s.calls) != client.DefaultMaxTries {
			t.Fatalf("%d calls, then %v", len(s.calls), err)
		}
		if results[0].Err != nil || results[0].Created || results[1].Err != err {
			t.Errorf("results %+v", results)
		}
	})
}

// A batch that is refused as a whole has no results of its events.
func TestABatchThatIsRefusedAsAWhole(t *testing.T) {
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
				fmt.Sscan(text[:3], &status)
				return respond(status, text[3:]), nil
			})})
			if err != nil {
				t.Fatal(err)
			}
			results, err := c.CreateEvents(t.Context(), []client.NewEvent{{Name: "n"}})
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
