package httpapi_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"sluice/pkg/api"
)

// conditionally sends a change with If-Match, unless ifMatch is empty.
func (a service) conditionally(t *testing.T, route, body, ifMatch string) (status int, code string, current *int64) {
	t.Helper()
	ev := sample(t, route)
	ev.Body = body
	if ifMatch != "" {
		ev.Headers["if-match"] = ifMatch
	}
	resp := a.invoke(t, route, ev)
	var p api.Problem
	if err := json.Unmarshal([]byte(resp.Body), &p); err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, p.Code, p.CurrentRevision
}

// The entity ada has the revision 2, gone is deleted, and never never existed.
func TestChangesWithACondition(t *testing.T) {
	for _, tt := range []struct {
		id, member, ifMatch string
		update, delete      string // status and code; "" if both routes respond alike
		current             string // with 412
	}{
		{"ada", `,"if_revision":2`, ``, "200", "", ""},
		{"ada", ``, `"2"`, "200", "", ""},
		{"ada", ``, `W/"2"`, "200", "", ""},
		{"ada", ``, `*`, "200", "", ""},
		{"ada", `,"if_revision":null`, ``, "200", "", ""},
		{"ada", `,"if_revision":1`, ``, "412 revision_mismatch", "", "2"},
		{"ada", `,"if_revision":3`, ``, "412 revision_mismatch", "", "2"},
		{"ada", `,"if_revision":0`, ``, "412 revision_mismatch", "", "2"},
		{"ada", ``, `"1"`, "412 revision_mismatch", "", "2"},
		{"ada", ``, `"0"`, "412 revision_mismatch", "", "2"},
		{"gone", `,"if_revision":2`, ``, "412 revision_mismatch", "", "0"},
		{"gone", ``, `*`, "412 revision_mismatch", "", "0"},
		{"gone", `,"if_revision":0`, ``, "404 not_found", "200", ""},
		{"never", `,"if_revision":1`, ``, "412 revision_mismatch", "", "0"},
		{"never", ``, `*`, "412 revision_mismatch", "", "0"},
		{"never", ``, `"0"`, "404 not_found", "200", ""},
		{"ada", `,"if_revision":2`, `"2"`, "422 invalid_combination", "", ""},
		{"ada", `,"if_revision":-1`, ``, "422 invalid_body", "", ""},
		{"ada", `,"if_revision":1.5`, ``, "422 invalid_body", "", ""},
		{"ada", `,"if_revision":"2"`, ``, "422 invalid_body", "", ""},
		{"ada", `,"if_revision":9223372036854775808`, ``, "422 invalid_body", "", ""},
		{"ada", ``, `nonsense`, "400 invalid_if_match", "", ""},
		{"ada", ``, `2`, "400 invalid_if_match", "", ""},
		{"ada", ``, `"02"`, "400 invalid_if_match", "", ""},
		{"ada", ``, `"-1"`, "400 invalid_if_match", "", ""},
		{"ada", ``, `w/"2"`, "400 invalid_if_match", "", ""},
		{"ada", ``, `"2", "3"`, "400 invalid_if_match", "", ""},
		{"ada", ``, ` `, "400 invalid_if_match", "", ""},
	} {
		for _, route := range []string{"update-entity", "delete-entity"} {
			t.Run(fmt.Sprint(route, " ", tt.id, tt.member, tt.ifMatch), func(t *testing.T) {
				t.Parallel()
				a := newAPI(t)
				for _, id := range []string{"ada", "gone"} {
					a.post(t, "create-entity", fmt.Sprintf(`{"id":%q,"attributes":{"n":1}}`, id))
				}
				a.post(t, "update-entity", `{"id":"ada","attributes":{"n":2}}`)
				a.post(t, "delete-entity", `{"id":"gone"}`)
				body, want := fmt.Sprintf(`{"id":%q,"attributes":{"n":3}%s}`, tt.id, tt.member), tt.update
				if route == "delete-entity" {
					body = fmt.Sprintf(`{"id":%q%s}`, tt.id, tt.member)
					if tt.delete != "" {
						want = tt.delete
					}
				}
				status, code, current := a.conditionally(t, route, body, tt.ifMatch)
				got := strings.TrimSpace(fmt.Sprint(status, " ", code))
				if got != want || (current != nil) != (tt.current != "") || current != nil && fmt.Sprint(*current) != tt.current {
					t.Errorf("%s, current revision %v; want %s, %s", got, current, want, tt.current)
				}
				if left, ok := a.contents(t)["ada"]; status >= 400 && left != `entity {"n":2}` {
					t.Errorf("ada is %q, there %v", left, ok)
				}
			})
		}
	}
}

func TestARouteWithoutConditionsRejectsIfMatch(t *testing.T) {
	a := newAPI(t)
	for _, route := range []string{"create-entity", "upsert-entities"} {
		if status, code, _ := a.conditionally(t, route, sample(t, route).Body, `"1"`); status != 400 || code != "invalid_if_match" {
			t.Errorf("%s: %d %s", route, status, code)
		}
	}
	for _, body := range []string{`{"id":"ada","events":true,"if_revision":1}`, `{"id":"ada","events":true,"if_revision":0}`} {
		if status, code, _ := a.conditionally(t, "delete-entity", body, ""); status != 422 || code != "invalid_combination" {
			t.Errorf("%s: %d %s", body, status, code)
		}
	}
	if status, code, _ := a.conditionally(t, "delete-entity", `{"id":"ada","events":true}`, "*"); status != 422 || code != "invalid_combination" {
		t.Errorf("an erasure with If-Match: %d %s", status, code)
	}
}

func TestGetEntityHasTheRevisionAsETag(t *testing.T) {
	a := newAPI(t)
	a.post(t, "create-entity", sample(t, "create-entity").Body)
	a.post(t, "update-entity", `{"id":"ada","attributes":{"n":1}}`)
	resp := a.invoke(t, "get-entity", sample(t, "get-entity"))
	if resp.Headers["Etag"] != `"2"` || !strings.Contains(resp.Body, `"revision":2,`) {
		t.Errorf("ETag %s: %s", resp.Headers["Etag"], resp.Body)
	}
	if status, code, _ := a.conditionally(t, "update-entity", `{"id":"ada","attributes":{"n":2}}`, resp.Headers["Etag"]); status != 200 {
		t.Errorf("with its ETag: %d %s", status, code)
	}
}

// The elements with one id are one change, and fail or succeed together.
func TestUpsertsWithACondition(t *testing.T) {
	a := newAPI(t)
	resp, results := a.upsert(t, `{"entities":[{"id":"a","attributes":{"n":1},"if_revision":0},{"id":"a","attributes":{"m":1}},{"id":"b"}]}`)
	if resp.StatusCode != 207 || resultStatuses(results) != "201 200 201" || results[0].Entity.Revision != 1 || string(results[0].Entity.Attributes) != `{"n":1,"m":1}` {
		t.Errorf("%d %s", resp.StatusCode, resp.Body)
	}
	resp, results = a.upsert(t, `{"entities":[{"id":"a","attributes":{"n":2},"if_revision":1},{"id":"b","attributes":{"n":2},"if_revision":7},{"id":"b","attributes":{"n":3}},{"id":"a","if_revision":1}]}`)
	if resp.StatusCode != 207 || resultStatuses(results) != "200 412 412 422" || results[1].Problem.Code != "revision_mismatch" || *results[1].Problem.CurrentRevision != 1 {
		t.Errorf("%d %s", resp.StatusCode, resp.Body)
	}
	resp, results = a.upsert(t, `{"entities":[{"id":"a","if_revision":1},{"id":"never","if_revision":1}]}`)
	if resp.StatusCode != 412 || resultStatuses(results) != "412 412" || *results[0].Problem.CurrentRevision != 2 || *results[1].Problem.CurrentRevision != 0 {
		t.Errorf("%d %s", resp.StatusCode, resp.Body)
	}
	if got := a.contents(t); got["a"] != `entity {"n":2,"m":1}` || got["b"] != "entity {}" || len(got) != 2 {
		t.Errorf("stored %v", got)
	}
}
