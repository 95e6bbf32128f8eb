package dynamo

import (
	"testing"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"golang.org/x/sync/errgroup"

	"sluice/internal/test/dynamolocal"
)

// Concurrent first readers agree on one id. If an operator removes it, the next reader creates
// another.
func TestTheIDOfTheServiceIsCreatedOnce(t *testing.T) {
	t.Parallel()
	client, table := dynamolocal.Client(t), dynamolocal.Table(t, "EntitiesTable")
	s, err := NewService(client, table)
	if err != nil {
		t.Fatal(err)
	}
	var ids [4]string
	var readers errgroup.Group
	for i := range ids {
		readers.Go(func() (err error) {
			ids[i], err = s.ID(t.Context())
			return err
		})
	}
	if err := readers.Wait(); err != nil {
		t.Fatal(err)
	}
	for _, id := range ids {
		if id == "" || id != ids[0] {
			t.Fatalf("ids %q", ids)
		}
	}
	key := attributeValues{"workspace": text(ServicePartition), "id": text("id")}
	if _, err := client.DeleteItem(t.Context(), &dynamodb.DeleteItemInput{TableName: &table, Key: key}); err != nil {
		t.Fatal(err)
	}
	if id, err := s.ID(t.Context()); err != nil || id == "" || id == ids[0] {
		t.Errorf("after the item was removed: %q, %v", id, err)
	}
}
