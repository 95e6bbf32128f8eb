// Command main uses the client that oapi-codegen generates.
package main

import (
	"context"
	"encoding/json"
	"fmt"
	"log"
	"os"
)

func main() {
	ctx := context.Background()
	client, err := NewClientWithResponses(os.Args[1])
	if err != nil {
		log.Fatal(err)
	}
	attributes := NewAttributes(`{"n":12345678901234567890}`)
	id := "made-by-go"
	created, err := client.CreateEntityWithResponse(ctx, CreateEntityJSONRequestBody{Id: &id, Attributes: &attributes})
	if err != nil || created.JSON201 == nil {
		log.Fatal(err, created)
	}
	got, err := client.GetEntityWithResponse(ctx, id)
	if err != nil || got.JSON200 == nil || string(got.JSON200.Attributes) != string(attributes) {
		log.Fatal(err, got)
	}
	person := "person"
	for _, conditions := range []Conditions{
		{"attributes.email": "ada+1@example.com"},
		{"attributes.email[prefix]": "ada+"},
		{"attributes.born[gte]": "1815", "attributes.born[lt]": "1816"},
	} {
		found, err := client.ListEntityWithResponse(ctx, &ListEntityParams{Type: &person, Conditions: &conditions})
		if err != nil || found.JSON200 == nil || len(found.JSON200.Data) != 1 {
			log.Fatal(err, found)
		}
	}
	limit, ids := 2, []string{}
	for params := (&ListEntityParams{Limit: &limit}); ; {
		page, err := client.ListEntityWithResponse(ctx, params)
		if err != nil || page.JSON200 == nil {
			log.Fatal(err, page)
		}
		for _, item := range page.JSON200.Data {
			e, err := item.AsEntity() // the request did not ask for tombstones
			if err != nil {
				log.Fatal(err)
			}
			ids = append(ids, e.Id)
		}
		if page.JSON200.NextCursor == nil {
			break
		}
		params.Cursor = page.JSON200.NextCursor
	}
	if err := json.NewEncoder(os.Stdout).Encode(ids); err != nil {
		log.Fatal(err)
	}
	fmt.Fprintln(os.Stderr, "listed", len(ids))
}
