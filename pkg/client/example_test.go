package client_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log"

	"sluice/pkg/client"
	"sluice/pkg/ratelimit"
)

func Example() {
	url, stop, err := service(ratelimit.Limits{})
	if err != nil {
		log.Fatal(err)
	}
	defer stop()

	ctx := context.Background()
	c, err := client.New(url, client.Config{Key: "slc_0123456789abcdef_secret"})
	if err != nil {
		log.Fatal(err)
	}
	ada := client.NewEntity{ID: "ada", Type: "person", Attributes: json.RawMessage(`{"born":1815}`)}
	for range 2 { // a repeat changes nothing
		stored, created, err := c.CreateEntity(ctx, ada)
		fmt.Println(stored.ID, string(stored.Attributes), created, err)
	}
	for e, err := range c.Entities(ctx, client.EntityQuery{Type: "person"}) {
		fmt.Println(e.ID, err)
	}
	_, err = c.GetEntity(ctx, "charles")
	var failure *client.Error
	if errors.As(err, &failure) {
		fmt.Println(failure.Status, failure.Code, errors.Is(err, client.ErrNotFound))
	}
	// Output:
	// ada {"born":1815} true <nil>
	// ada {"born":1815} false <nil>
	// ada <nil>
	// 404 not_found true
}
