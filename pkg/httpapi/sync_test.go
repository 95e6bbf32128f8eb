package httpapi_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-lambda-go/events"

	"sluice/internal/test/lambdatest"
	"sluice/pkg/entity"
	"sluice/pkg/record"
)

type syncPage struct {
	Data []struct {
		ID        string
		UpdatedAt string `json:"updated_at"`
		DeletedAt string `json:"deleted_at"`
		Deleted   bool
	}
	NextCursor  *string `json:"next_cursor"`
	SyncedUntil *string `json:"synced_until"`
}

func (p syncPage) ids() string {
	var ids []string
	for _, d := range p.Data {
		id := d.ID
		if d.Deleted {
			id = "-" + id
		}
		ids = append(ids, id)
	}
	return strings.Join(ids, " ")
}

type clock struct{ now time.Time }

func (c *clock) invoke(t *testing.T, a service, route, method, target, body string) events.APIGatewayV2HTTPResponse {
	t.Helper()
	opts := options
	opts.Now = func() time.Time { return c.now }
	*a.now = opts.Now
	ev := lambdatest.Event(method, target, "192.0.2.1", body)
	ev.Headers["content-type"] = "application/json"
	resp := serve(t, newFunction(t, route, a, opts), ev)
	checkDescribed(t, ev, resp)
	return resp
}

func (c *clock) get(t *testing.T, a service, target string) (p syncPage) {
	t.Helper()
	resp := c.invoke(t, a, routeOf(target), "GET", target, "")
	if resp.StatusCode != 200 {
		t.Fatalf("%s: %d %s", target, resp.StatusCode, resp.Body)
	}
	if err := json.Unmarshal([]byte(resp.Body), &p); err != nil {
		t.Fatal(err)
	}
	return p
}

// The stores are local, so what is settled is the newest stamp. While a page ends before it, the
// page is synced until its last position; later pages keep the time at which the walk passed it.
func TestAWalkReadsToTheEnd(t *testing.T) {
	a := newRoomyAPI(t)
	c := &clock{now: now()}
	at := func(second int) string { return record.TimeOf(now().Add(time.Duration(second) * time.Second)).String() }
	create := func(id, second int) {
		c.now = now().Add(time.Duration(second) * time.Second)
		c.invoke(t, a, "create-entity", "POST", "/create_entity", fmt.Sprintf(`{"id":"%d"}`, id))
		c.invoke(t, a, "create-event", "POST", "/create_event", fmt.Sprintf(`{"id":"%d","name":"n"}`, id))
	}
	for id, second := range []int{0, 1, 2, 2} {
		create(id, second)
	}
	lists := []string{"/entity?updated_since=", "/event?created_since="}
	var pages [2]syncPage
	for i, until := range []int{0, 1, 2, 2, 2} {
		for n, list := range lists {
			target := list + at(0) + "&limit=1"
			if i > 0 {
				target += "&cursor=" + *pages[n].NextCursor
			}
			pages[n] = c.get(t, a, target)
			if p := pages[n]; p.ids() != fmt.Sprint(i) || *p.SyncedUntil != at(until) || (p.NextCursor == nil) != (i == 4) {
				t.Errorf("%s: page %d has %s, synced until %s, want %s", list, i, p.ids(), *p.SyncedUntil, at(until))
			}
		}
		if i == 2 {
			create(4, 3) // too late for the first pages
		}
	}
	c.now = now() // a clock that is set back moves neither stamps nor synced_until back
	for _, list := range lists {
		for second, want := range map[int]string{0: "0 1 2 3 4", 2: "2 3 4", 3: "4", 4: ""} {
			p := c.get(t, a, list+at(second))
			if until := max(second, 3); p.ids() != want || *p.SyncedUntil != at(until) {
				t.Errorf("%s from second %d: %s, synced until %s", list, second, p.ids(), *p.SyncedUntil)
			}
		}
		if p := c.get(t, a, list+at(2)+"&order=desc"); p.ids() != "4 3 2" || p.SyncedUntil != nil {
			t.Errorf("%s newest first: %s, synced until %v", list, p.ids(), p.SyncedUntil)
		}
	}
}

func TestChangesShowTombstonesForThirtyDays(t *testing.T) {
	a := newRoomyAPI(t)
	c := &clock{now: now()}
	for _, id := range []string{"a", "b", "c"} {
		c.invoke(t, a, "create-entity", "POST", "/create_entity", `{"id":"`+id+`","type":"`+id+`"}`)
	}
	c.now = c.now.Add(time.Second)
	c.invoke(t, a, "delete-entity", "POST", "/delete_entity", `{"id":"a"}`)
	c.now = c.now.Add(-2 * time.Second) // as on another instance whose clock is behind
	c.invoke(t, a, "create-entity", "POST", "/create_entity", `{"id":"a","type":"new"}`)
	c.now = c.now.Add(3 * time.Second)
	c.invoke(t, a, "delete-entity", "POST", "/delete_entity", `{"id":"b"}`)

	const list = "/entity?updated_since=2026-01-01T00:00:00Z"
	c.now = now().Add(time.Minute)
	page := c.get(t, a, list+"&include_deleted=true")
	if want := "c a -b"; page.ids() != want {
		t.Errorf("the changes are %s, want %s", page.ids(), want)
	}
	if deleted, again := record.TimeOf(now().Add(time.Second)).String(), page.Data[1].UpdatedAt; again < deleted {
		t.Errorf("created again at %s, deleted at %s", again, deleted)
	}
	for query, want := range map[string]string{
		"": "c a", "&include_deleted=false": "c a", "&include_deleted=true&type=b": "-c -a -b", "&type=new&include_deleted=true": "-c a -b",
	} {
		if page := c.get(t, a, list+query); page.ids() != want {
			t.Errorf("%s: %s, want %s", query, page.ids(), want)
		}
		// An empty page must have a cursor if other pages follow it.
		got := ""
		page := c.get(t, a, list+query+"&limit=1")
		for {
			got = strings.TrimSpace(got + " " + page.ids())
			if page.NextCursor == nil {
				break
			}
			page = c.get(t, a, list+query+"&limit=1&cursor="+*page.NextCursor)
		}
		if got != want {
			t.Errorf("%s by one: %s, want %s", query, got, want)
		}
	}
	deleted := now().Add(2 * time.Second)
	for age, want := range map[time.Duration]string{entity.TombstoneAge - time.Millisecond: "c a -b", entity.TombstoneAge: "c a"} {
		c.now = deleted.Add(age)
		if page := c.get(t, a, list+"&include_deleted=true"); page.ids() != want {
			t.Errorf("%s after the deletion: %s, want %s", age, page.ids(), want)
		}
	}
	if page := c.get(t, a, "/entity?"); page.ids() != "a c" {
		t.Errorf("the list by id is %s", page.ids())
	}
}

// A list of changes is charged for every record that it reads. A client that sets a filter must
// also ask for the records that leave the filter.
func TestAWalkReturnsWhatLeavesItsFilter(t *testing.T) {
	a := newRoomyAPI(t)
	c := &clock{now: now()}
	create := func(resource, body string) { c.invoke(t, a, "create-"+resource, "POST", "/create_"+resource, body) }
	create("entity", `{"id":"a","type":"person"}`)
	create("entity", `{"id":"b","type":"person","attributes":{"n":1}}`)
	create("event", `{"id":"1","name":"n","entity_id":"a"}`)
	create("event", `{"id":"2","name":"n","entity_id":"b"}`)
	c.invoke(t, a, "delete-entity", "POST", "/delete_entity", `{"id":"a"}`)
	create("entity", `{"id":"a","type":"account","attributes":{"secret":true}}`)
	at := record.TimeOf(c.now).String()
	c.now = c.now.Add(time.Minute)
	for i, tt := range []struct{ target, want string }{
		{"/entity?updated_since=" + at + "&type=person", `{"id":"a","type":"account","revision":3,"updated_at":"` + at + `","deleted":true,"reason":"filter"},` +
			`{"id":"b","type":"person","attributes":{"n":1},"revision":1,"created_at":"` + at + `","updated_at":"` + at + `"}`},
		{"/event?created_since=" + at + "&entity_id=b", `{"id":"1","created_at":"` + at + `","deleted":true,"reason":"filter"},` +
			`{"id":"2","name":"n","entity_id":"b","occurred_at":"` + at + `","attributes":{},"created_at":"` + at + `"}`},
	} {
		target, left := tt.target, fmt.Sprintf(`"records";r=%d;`, 200-2*(i+1))
		resp := c.invoke(t, a, routeOf(target), "GET", target+"&include_deleted=true", "")
		if !strings.Contains(resp.Body, `"data":[`+tt.want+`]`) || !strings.Contains(resp.Headers["RateLimit"], left) {
			t.Errorf("%s: %s with %s\nwant %s and %s", target, resp.Body, resp.Headers["RateLimit"], tt.want, left)
		}
		for _, without := range []string{"", "&include_deleted=false"} {
			resp := c.invoke(t, a, routeOf(target), "GET", target+without, "")
			if resp.StatusCode != 400 || !strings.Contains(resp.Body, "needs include_deleted=true") {
				t.Errorf("%s%s: %d %s", target, without, resp.StatusCode, resp.Body)
			}
		}
	}
}
