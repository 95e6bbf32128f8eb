package dynamostore_test

import (
	"reflect"
	"testing"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"

	"sluice/internal/dynamolocal"
	"sluice/pkg/event"
	"sluice/pkg/event/dynamostore"
	"sluice/pkg/event/storetest"
	"sluice/pkg/record"
	"sluice/pkg/record/dynamorecord"
)

func TestStore(t *testing.T) {
	storetest.Run(t, func(t *testing.T) event.Store {
		s, err := dynamostore.New(dynamolocal.Client(t), dynamolocal.Table(t, "EventsTable"))
		if err != nil {
			t.Fatal(err)
		}
		return s
	})
}

func TestItemsHaveTheDocumentedAttributes(t *testing.T) {
	t.Parallel()
	client, table := dynamolocal.Client(t), dynamolocal.Table(t, "EventsTable")
	s, err := dynamostore.New(client, table)
	if err != nil {
		t.Fatal(err)
	}
	occurred, err := record.ParseTime("2026-01-02T15:04:05.678Z")
	if err != nil {
		t.Fatal(err)
	}
	for _, entityID := range []event.OptionalID{"", "u-1"} {
		id := "e-" + string(entityID)
		e := event.Event{ID: id, Name: "login", EntityID: entityID, OccurredAt: occurred, Attributes: record.Attributes(`{"a":1.0}`)}
		if _, _, err := s.Create(t.Context(), "default", e); err != nil {
			t.Fatal(err)
		}
		key := dynamorecord.Item{"pk": dynamorecord.Text("default#" + id)}
		out, err := client.GetItem(t.Context(), &dynamodb.GetItemInput{TableName: &table, Key: key})
		if err != nil {
			t.Fatal(err)
		}
		want := dynamorecord.Item{
			"pk":          dynamorecord.Text("default#" + id),
			"id":          dynamorecord.Text(id),
			"name":        dynamorecord.Text("login"),
			"occurred_at": dynamorecord.Text("2026-01-02T15:04:05.678Z"),
			"attributes":  dynamorecord.Text(`{"a":1.0}`),
			"created_at":  dynamorecord.Text("1970-01-01T00:00:00.000Z"),
			"shard":       dynamorecord.Text("default#0"),
			"position":    dynamorecord.Text("2026-01-02T15:04:05.678Z#" + id),
		}
		if entityID != "" {
			want["entity_id"] = dynamorecord.Text("u-1")
		}
		if !reflect.DeepEqual(out.Item, want) {
			t.Errorf("got %v, want %v", out.Item, want)
		}
	}
}

func TestNewNeedsAClientAndATable(t *testing.T) {
	t.Parallel()
	if _, err := dynamostore.New(nil, "events"); err == nil {
		t.Error("no error without a client")
	}
	if _, err := dynamostore.New(&dynamodb.Client{}, ""); err == nil {
		t.Error("no error without a table")
	}
}
