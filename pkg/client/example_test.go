package client_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log"
	"sync"
	"time"

	"sluice/pkg/client"
	"sluice/pkg/entity"
	"sluice/pkg/event"
	"sluice/pkg/ratelimit"
	"sluice/pkg/record"
)

// In this example, the service runs in the same process.
func Example() {
	url, stop, err := service(ratelimit.Limits{})
	if err != nil {
		log.Fatal(err)
	}
	defer stop()
	c, err := client.New(url, client.Config{Key: "slc_0123456789abcdef_secret"})
	if err != nil {
		log.Fatal(err)
	}
	ctx := context.Background()

	// Creating ada again changes nothing.
	ada := entity.Draft{ID: "ada", Type: "person", Attributes: json.RawMessage(`{"born":1815}`)}
	for _, e := range []entity.Draft{ada, ada, {ID: "charles", Type: "person"}, {ID: "grace", Type: "person"}} {
		stored, created, err := c.CreateEntity(ctx, e)
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println("created", stored.ID, string(stored.Attributes), created)
	}

	people := client.EntityQuery{Type: "person", Limit: 2}
	for more := true; more; {
		page, err := c.ListEntities(ctx, people)
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println("a page of", len(page.Data))
		if more = page.NextCursor != nil; more {
			people.Cursor = *page.NextCursor
		}
	}
	// Or iterate over all pages, until enough is known.
	for e, err := range c.Entities(ctx, client.EntityQuery{Type: "person", Limit: 2}) {
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println("listed", e.ID)
		if e.ID == "charles" {
			break
		}
	}

	_, err = c.GetEntity(ctx, "nobody")
	fmt.Println("not found:", errors.Is(err, client.ErrNotFound))
	_, _, err = c.CreateEntity(ctx, entity.Draft{ID: "ada", Type: "language"})
	fmt.Println("conflict:", errors.Is(err, client.ErrConflict))
	_, _, err = c.CreateEvent(ctx, event.Draft{ID: "e-1", EntityID: "ada"})
	if failure, ok := errors.AsType[*client.Error](err); ok {
		fmt.Println("status:", failure.Status, failure.Code, failure.Fields)
	}
	// Output:
	// created ada {"born":1815} true
	// created ada {"born":1815} false
	// created charles {} true
	// created grace {} true
	// a page of 2
	// a page of 1
	// listed ada
	// listed charles
	// not found: true
	// conflict: true
	// status: 422 invalid_body [{name is required: 1 to 128 characters}]
}

// Ten goroutines count at once, and every count counts.
func ExampleClient_UpdateEntityFunc() {
	url, stop, err := service(ratelimit.Limits{})
	if err != nil {
		log.Fatal(err)
	}
	defer stop()
	c, err := client.New(url, client.Config{MinBackoff: time.Millisecond})
	if err != nil {
		log.Fatal(err)
	}
	ctx := context.Background()
	if _, _, err := c.CreateEntity(ctx, entity.Draft{ID: "home", Attributes: json.RawMessage(`{"visits":0}`)}); err != nil {
		log.Fatal(err)
	}
	addVisit := func(e entity.Entity) (record.Attributes, error) {
		var page struct {
			Visits int `json:"visits"`
		}
		if err := json.Unmarshal(e.Attributes, &page); err != nil {
			return nil, err
		}
		page.Visits++
		return json.Marshal(page)
	}
	var visits sync.WaitGroup
	for range 10 {
		visits.Go(func() {
			_, err := c.UpdateEntityFunc(ctx, "home", addVisit)
			for errors.Is(err, client.ErrRevisionMismatch) { // other visits came first, too often
				_, err = c.UpdateEntityFunc(ctx, "home", addVisit)
			}
			if err != nil {
				log.Fatal(err)
			}
		})
	}
	visits.Wait()
	home, err := c.GetEntity(ctx, "home")
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(string(home.Attributes), home.Revision)
	// Output: {"visits":10} 11
}

func ExampleTimeOf() {
	noon := time.Date(2026, 1, 2, 12, 0, 0, 0, time.UTC)
	draft := event.Draft{Name: "order_paid", OccurredAt: new(client.TimeOf(noon))}
	query := client.EventQuery{From: new(client.TimeOf(noon.Add(-time.Hour)))}
	walk := client.EventChangeQuery{CreatedSince: client.TimeOf(noon)}
	fmt.Println(draft.OccurredAt, query.From, walk.CreatedSince)
	// Output: 2026-01-02T12:00:00.000Z 2026-01-02T11:00:00.000Z 2026-01-02T12:00:00.000Z
}
