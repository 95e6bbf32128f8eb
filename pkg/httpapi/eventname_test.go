package httpapi_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"sluice/pkg/api"
	"sluice/pkg/event"
	"sluice/pkg/index"
)

func TestEventsByName(t *testing.T) {
	a := newRoomyAPI(t)
	indexed := a.stores.Indexes.(*index.Current)
	declare := func(state index.State) {
		d := index.EventNames("default")
		d.Place, d.State = 1, state
		indexed.Store(index.NewSet([]index.Declaration{d}))
	}
	list := func(query string) string {
		t.Helper()
		resp := a.get(t, "list-event", "/event?"+query)
		var page api.List[event.Event]
		var p api.Problem
		if err := json.Unmarshal([]byte(resp.Body), &page); err != nil {
			t.Fatal(err)
		}
		if resp.StatusCode != 200 {
			_ = json.Unmarshal([]byte(resp.Body), &p)
			return fmt.Sprint(resp.StatusCode, " ", p.Code, " ", p.Detail)
		}
		var ids []string
		for _, e := range page.Data {
			ids = append(ids, e.ID)
		}
		return strings.Join(ids, " ")
	}
	declare(index.Writing)
	for id, name := range map[string]string{"1": "paid", "2": "opened", "3": "paid", "4": "paid", "5": "Paid"} {
		a.post(t, "create-event", fmt.Sprintf(`{"id":%q,"name":%q,"entity_id":"ada","occurred_at":"2026-01-0%sT00:00:00Z"}`, id, name, id))
	}
	if got := list("name=paid"); !strings.HasPrefix(got, "409 index_building the index of events by name is being built; 0 % is done") {
		t.Error(got)
	}
	declare(index.Ready)
	for query, want := range map[string]string{
		"name=paid":                                         "4 3 1",
		"name=paid&order=asc&limit=2":                       "1 3",
		"name=paid&from=2026-01-02T00:00:00Z":               "4 3",
		"name=paid&to=2026-01-03T00:00:00Z":                 "1",
		"name=nothing":                                      "",
		"name=":                                             "400 invalid_parameter a query parameter cannot be accepted: name must be",
		"name=paid&entity_id=ada":                           "422 invalid_combination the query parameters cannot be combined: name cannot be combined with entity_id",
		"name=paid&created_since=2026-01-01T00:00:00Z":      "422 invalid_combination the query parameters cannot be combined: name cannot be combined with created_since",
		"name=paid&entity_id=ada&from=2026-01-02T00:00:00Z": "422 invalid_combination the query parameters cannot be combined: name",
	} {
		if got := list(query); got != want && (want == "" || want[:1] != "4" || !strings.HasPrefix(got, want)) {
			t.Errorf("%s: %s, want %s", query, got, want)
		}
	}
	resp := a.get(t, "list-entity-index", "/entity_index")
	if want := `{"data":[{"resource":"event","attributes":[{"name":"name","value_type":"text"}],"state":"ready","done":1}],"next_cursor":null}`; strings.TrimSpace(resp.Body) != want {
		t.Error(resp.Body)
	}
	declare(index.Removing)
	if got := list("name=paid"); !strings.HasPrefix(got, "400 not_indexed events are not indexed by name") {
		t.Error(got)
	}
}
