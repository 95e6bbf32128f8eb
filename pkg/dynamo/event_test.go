package dynamo

import (
	"fmt"
	"reflect"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"

	"sluice/internal/test/dynamolocal"
	"sluice/pkg/event"
	"sluice/pkg/record"
	"sluice/pkg/storetest"
)

func eventsIn(t *testing.T, client EventsClient, shards int) func(now func() time.Time) (event.Store, error) {
	table := dynamolocal.Table(t, "EventsTable")
	return func(now func() time.Time) (event.Store, error) {
		return NewEvents(client, table, EventsConfig{Shards: Shards{Write: shards}, Now: now})
	}
}

func TestEvents(t *testing.T) {
	for _, shards := range []int{1, 4} {
		t.Run(fmt.Sprintf("%d shards", shards), func(t *testing.T) {
			t.Parallel()
			storetest.Events(t, func(t *testing.T) func(now func() time.Time) (event.Store, error) {
				return eventsIn(t, dynamolocal.Client(t), shards)
			})
		})
	}
}

func TestItemsOfEventsHaveTheDocumentedAttributes(t *testing.T) {
	t.Parallel()
	client, table := dynamolocal.Client(t), dynamolocal.Table(t, "EventsTable")
	s, err := NewEvents(client, table, EventsConfig{Now: func() time.Time { return time.UnixMilli(0) }})
	if err != nil {
		t.Fatal(err)
	}
	occurred, err := record.ParseTime("2026-01-02T15:04:05.678Z")
	if err != nil {
		t.Fatal(err)
	}
	for _, entityID := range []string{"", "u-1"} {
		id := "e-" + entityID
		e := event.Draft{ID: id, Name: "login", EntityID: entityID, OccurredAt: &occurred, Attributes: record.Attributes(`{"a":1.0}`)}
		if _, _, err := s.Create(t.Context(), "default", e); err != nil {
			t.Fatal(err)
		}
		key := attributeValues{"pk": text("default#" + id)}
		out, err := client.GetItem(t.Context(), &dynamodb.GetItemInput{TableName: &table, Key: key})
		if err != nil {
			t.Fatal(err)
		}
		want := attributeValues{
			"pk":          text("default#" + id),
			"id":          text(id),
			"name":        text("login"),
			"occurred_at": text("2026-01-02T15:04:05.678Z"),
			"attributes":  text(`{"a":1.0}`),
			"created_at":  text("1970-01-01T00:00:00.000Z"),
			"shard":       text("default#0"),
			"position":    text("2026-01-02T15:04:05.678Z#" + id),
			"change":      text("1970-01-01T00:00:00.000Z#" + id),
		}
		if entityID != "" {
			want["entity_id"] = text("u-1")
			want["entity_key"] = text("default#u-1")
		}
		if !reflect.DeepEqual(out.Item, want) {
			t.Errorf("got %v, want %v", out.Item, want)
		}
	}
}
