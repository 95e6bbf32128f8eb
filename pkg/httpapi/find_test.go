package httpapi_test

import (
	"encoding/json"
	"fmt"
	"net/url"
	"strings"
	"testing"

	"sluice/pkg/api"
	"sluice/pkg/entity"
	"sluice/pkg/index"
)

// newIndexedAPI returns an API in which the type person has indexes in all states.
func newIndexedAPI(t *testing.T) service {
	t.Helper()
	a := newRoomyAPI(t)
	var all []index.Declaration
	for i, d := range []index.Declaration{
		{Fields: index.Fields{{Name: "born", ValueType: index.Number}}, State: index.Ready},
		{Fields: index.Fields{{Name: "name", ValueType: index.Text, Fold: true}}, State: index.Ready},
		{Fields: index.Fields{{Name: "alive", ValueType: index.Boolean}}, State: index.Building, Build: index.Build{Read: 42, Expected: 100}},
		{Fields: index.Fields{{Name: "email", ValueType: index.Text}}, State: index.Writing},
		{Fields: index.Fields{{Name: "gone", ValueType: index.Text}}, State: index.Removing},
	} {
		d.Workspace, d.Type, d.Place = "default", "person", i+1
		all = append(all, d)
	}
	order := index.Fields{{Name: "status", ValueType: index.Text}, {Name: "total", ValueType: index.Number}, {Name: "date", ValueType: index.Text}}
	for i, fields := range []index.Fields{order, {order[0], order[2]}, {order[0]}} {
		all = append(all, index.Declaration{Workspace: "default", Type: "order", Fields: fields, Place: i + 1, State: index.Ready})
	}
	all = append(all, index.Declaration{Workspace: "another", Type: "person", Fields: index.Fields{{Name: "secret", ValueType: index.Text}}, State: index.Ready, Place: 1})
	a.stores.Indexes.(*index.Current).Store(index.NewSet(all))
	return a
}

func (a service) found(t *testing.T, query string) (ids string, next string) {
	t.Helper()
	resp := a.get(t, "list-entity", "/entity?"+query)
	var page api.List[entity.Entity]
	if err := json.Unmarshal([]byte(resp.Body), &page); err != nil || resp.StatusCode != 200 {
		t.Fatalf("%s: %d %s", query, resp.StatusCode, resp.Body)
	}
	for _, e := range page.Data {
		ids += " " + e.ID
	}
	if page.Index == nil || !strings.HasPrefix(query, "type="+page.Index.Type+"&") {
		t.Errorf("%s: served by %+v", query, page.Index)
	}
	if page.NextCursor != nil {
		next = *page.NextCursor
	}
	return strings.TrimSpace(ids), next
}

func TestFind(t *testing.T) {
	a := newIndexedAPI(t)
	for id, attributes := range map[string]string{
		"ada": `{"name":"Ada Lovelace","born":1815}`, "grace": `{"name":"Grace Hopper","born":1906}`,
		"charles": `{"name":"Charles Babbage","born":1.791e3}`, "alan": `{"name":"Alan Turing","born":1912}`, "nobody": `{"name":null,"born":"1815"}`,
	} {
		a.post(t, "create-entity", fmt.Sprintf(`{"id":%q,"type":"person","attributes":%s}`, id, attributes))
	}
	a.post(t, "create-entity", `{"id":"robot","type":"robot","attributes":{"name":"Ada Lovelace","born":1815}}`)
	for query, want := range map[string]string{
		"attributes.born=1815":                                            "ada",
		"attributes.born=1.815e%2B3":                                      "ada",
		"attributes.born[gte]=1815&attributes.born[lt]=1912":              "ada grace",
		"attributes.born[gt]=1815&attributes.born[lte]=1912&order=desc":   "alan grace",
		"attributes.born%5Blt%5D=1900":                                    "charles ada",
		"attributes.name[prefix]=A":                                       "ada alan",
		"attributes.name=" + url.QueryEscape("Grace Hopper") + "&limit=1": "grace",
		"attributes.name=grace":                                           "",
		"attributes.name=GRACE+hopper":                                    "grace",
		"attributes.name[prefix]=a":                                       "ada alan",
		"attributes.born[gt]=2000&attributes.born[lt]=1000":               "",
	} {
		if got, next := a.found(t, "type=person&"+query); got != want || next != "" {
			t.Errorf("%s: %q, next cursor %q; want %q", query, got, next, want)
		}
	}
}

// Of the indexes that can serve a query, the one with the fewest attributes does, which shows in
// the order of what is found.
func TestFindBySeveralAttributes(t *testing.T) {
	a := newIndexedAPI(t)
	for id, attributes := range map[string]string{
		"a": `{"status":"paid","total":30,"date":"2026-01-03"}`, "b": `{"status":"paid","total":20,"date":"2026-01-01"}`,
		"c": `{"status":"paid","total":1e1,"date":"2026-01-02"}`, "d": `{"status":"open","total":20,"date":"2026-01-01"}`,
		"e": `{"status":"paid","total":20}`,
	} {
		a.post(t, "create-entity", fmt.Sprintf(`{"id":%q,"type":"order","attributes":%s}`, id, attributes))
	}
	for query, want := range map[string]string{
		"attributes.status=paid":                                                                                   "a b c e",
		"attributes.status=paid&attributes.date[gte]=2026-01-02":                                                   "c a",
		"attributes.status=paid&attributes.date=2026-01-01":                                                        "b",
		"attributes.status=paid&attributes.total[gte]=1.5e1&order=desc":                                            "a b",
		"attributes.status=paid&attributes.total=20":                                                               "b",
		"attributes.status=open&attributes.total[lt]=30":                                                           "d",
		"attributes.status=paid&attributes.total=20&attributes.date[gt]=2025&attributes.date[lt]=2027":             "b",
		"attributes.status=void&attributes.total=20":                                                               "",
		"attributes.status=" + strings.Repeat("x", 790) + "&attributes.date[gt]=" + strings.Repeat("y", 10):        "",
		"attributes.date[prefix]=2026-01-0&attributes.status=paid&attributes.total=" + url.QueryEscape("20.000e0"): "b",
	} {
		if got, next := a.found(t, "type=order&"+query); got != want || next != "" {
			t.Errorf("%s: %q, next cursor %q; want %q", query, got, next, want)
		}
	}
}

// A list keeps the order of its first page, even if a more specific index becomes ready.
func TestAListContinuesWithItsIndex(t *testing.T) {
	a := newIndexedAPI(t)
	indexed := a.stores.Indexes.(*index.Current)
	all := indexed.Load().All()
	const query = "type=order&attributes.status=paid&limit=1"
	indexed.Store(index.NewSet(all[:len(all)-2])) // without the index on status alone
	for i := range 3 {
		a.post(t, "create-entity", fmt.Sprintf(`{"id":"%d","type":"order","attributes":{"status":"paid","date":"%d","total":0}}`, i, 9-i))
	}
	got, next := a.found(t, query)
	indexed.Store(index.NewSet(all))
	for next != "" {
		var id string
		id, next = a.found(t, query+"&cursor="+next)
		got += " " + id
	}
	if got != "2 1 0" {
		t.Errorf("found %s, want those with the lowest date first", got)
	}
}

func TestPagesOfWhatIsFound(t *testing.T) {
	a := newIndexedAPI(t)
	a.createEntities(t, 3)
	for i := range 7 {
		a.post(t, "create-entity", fmt.Sprintf(`{"id":"p%d","type":"person","attributes":{"born":%d}}`, i, i/3))
	}
	const query = "type=person&attributes.born[gte]=0&order=desc&limit=2"
	pages := ""
	for ids, next := a.found(t, query); ; ids, next = a.found(t, query+"&cursor="+next) {
		if pages += "|" + ids; next == "" {
			break
		}
		if resp := a.get(t, "list-entity", "/entity?"+strings.Replace(query, "=0", "=1", 1)+"&cursor="+next); resp.StatusCode != 400 {
			t.Errorf("a cursor of another query: %d", resp.StatusCode)
		}
	}
	if pages != "|p6 p5|p4 p3|p2 p1|p0" {
		t.Error(pages)
	}
}

func TestQueriesThatCannotBeServed(t *testing.T) {
	a := newIndexedAPI(t)
	for query, want := range map[string]string{
		"attributes.born=1815":                                                               "400 type is required with attributes.born",
		"type=person&attributes.phone=1":                                                     `400 the attribute "phone" of the type "person" is not indexed; those that are: born (number), name (text, regardless of case), alive (boolean), email (text)`,
		"type=robot&attributes.born=1":                                                       `400 the attribute "born" of the type "robot" is not indexed; no attribute of this type is`,
		"type=person&attributes.secret=1":                                                    `400 the attribute "secret"`,
		"type=person&attributes.gone=1":                                                      `400 the attribute "gone" of the type "person" is not indexed; those that are`,
		"type=person&attributes.alive=true":                                                  "409 the index of person.alive is being built; 42 % is done",
		"type=person&attributes.email=a":                                                     "409 the index of person.email is being built; 0 % is done",
		"type=person&attributes.born=eighteen":                                               "400 attributes.born must be a JSON number",
		"type=person&attributes.born[prefix]=1":                                              "400 attributes.born[prefix] needs an attribute that is indexed as text",
		"type=person&attributes.name=" + strings.Repeat("a", 801):                            "400 attributes.name must be a text of at most 800 bytes",
		"type=person&attributes.name=%ff":                                                    "400 attributes.name must be UTF-8",
		"type=%ff&attributes.name=a":                                                         "400 type must be UTF-8",
		"type=person&attributes.name=a&attributes.born=1":                                    `400 no index of the type "person" serves "born" and "name" with these operators; there are indexes on: born (number), name (text, regardless of case),`,
		"type=person&attributes.name[gt]=a&attributes.born[gt]=1":                            "400 attributes.name[gt] is a comparison of a second attribute",
		"type=order&attributes.status[gt]=a&attributes.total=1":                              `400 no index of the type "order" serves "status" and "total" with these operators; there are indexes on: status (text) + total (number) + date (text), status (text) + date (text), status (text). An index`,
		"type=order&attributes.total=1":                                                      `400 no index of the type "order" serves "total"`,
		"type=order&attributes.date=" + strings.Repeat("x", 797) + "&attributes.status=paid": "400 attributes.status makes the values of the query longer than 800 bytes",
		"type=person&attributes.born[gt]=1&attributes.born[gte]=1":                           "400 attributes.born[gte] cannot be combined with attributes.born[gt]",
		"type=person&attributes.born=1&attributes.born[lt]=1":                                "400 attributes.born[lt] cannot be combined with attributes.born",
		"type=person&attributes.born=1&attributes.born=2":                                    "400 attributes.born is given more than once",
		"type=person&attributes.born=1&updated_since=2026-01-01T00:00Z":                      "400 updated_since cannot be combined with attributes.born",
		"type=person&attributes.born=1&cursor=e30":                                           "400 cursor is not a cursor of this list",
		"type=person&attributes.born=1&limit=0":                                              "400 limit must be",
		"type=person&order=desc":                                                             "400 order needs updated_since, or a condition",
	} {
		resp := a.get(t, "list-entity", "/entity?"+query)
		var p api.Problem
		if err := json.Unmarshal([]byte(resp.Body), &p); err != nil {
			t.Fatal(err)
		}
		if got := fmt.Sprint(resp.StatusCode, " ", p.Detail); !strings.HasPrefix(got, want[:4]) || !strings.Contains(p.Detail, want[4:]) {
			t.Errorf("%.80s: %s, want %s", query, got, want)
		}
	}
}

func TestTheIndexesOfTheWorkspaceAreListed(t *testing.T) {
	a := newIndexedAPI(t)
	resp := a.get(t, "list-entity-index", "/entity_index")
	var page api.List[api.EntityIndex]
	if err := json.Unmarshal([]byte(resp.Body), &page); err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, i := range page.Data {
		got = append(got, fmt.Sprintf("%s %v %s %g", i.Type, i.Attributes, i.State, i.Done))
	}
	if want := "person [{born number false}] ready 1, person [{name text true}] ready 1, person [{alive boolean false}] building 0.42, person [{email text false}] writing 0, person [{gone text false}] removing 0, " +
		"order [{status text false} {total number false} {date text false}] ready 1, order [{status text false} {date text false}] ready 1, order [{status text false}] ready 1"; strings.Join(got, ", ") != want {
		t.Errorf("%q", got)
	}
}
