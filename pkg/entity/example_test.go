package entity_test

import (
	"context"
	"encoding/json"
	"fmt"
	"os"

	"sluice/pkg/bolt"
	"sluice/pkg/entity"
	"sluice/pkg/record"
)

func Example() {
	dir, err := os.MkdirTemp("", "entities")
	if err != nil {
		panic(err)
	}
	defer os.RemoveAll(dir) //nolint:errcheck // a temporary directory
	stores, err := bolt.Open(dir, bolt.Config{})
	if err != nil {
		panic(err)
	}
	defer stores.Close() //nolint:errcheck // the files are removed
	store := stores.Entities
	ctx := context.Background()

	ada, err := entity.Parse([]byte(`{"id": "ada", "type": "person", "attributes": {"born": 1815}}`))
	if err != nil {
		panic(err)
	}
	for range 2 { // the second create changes nothing
		stored, created, err := entity.Create(ctx, store, "demo", ada)
		fmt.Println(stored.ID, created, err)
	}

	changed, err := entity.Update(ctx, store, "demo", "ada", json.RawMessage(`{"born": null, "city": "London"}`), nil)
	if err != nil {
		panic(err)
	}
	fmt.Println(string(changed.Attributes))

	if err := entity.Delete(ctx, store, "demo", "ada", nil); err != nil {
		panic(err)
	}
	_, err = store.Get(ctx, "demo", "ada")
	fmt.Println(err, record.CodeOf(err) == record.NotFound)
	// Output:
	// ada true <nil>
	// ada false <nil>
	// {"city":"London"}
	// there is no entity with the id "ada" true
}
