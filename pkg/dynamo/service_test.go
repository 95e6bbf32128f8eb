package dynamo

import (
	"testing"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"golang.org/x/sync/errgroup"

	"sluice/internal/test/dynamolocal"
)

// Concurrent creators agree on one id. If an operator removes it, the next creates another.
func TestTheIDOfTheServiceIsCreatedOnce(t *testing.T) {
	t.Parallel()
	client, table := dynamolocal.Client(t), dynamolocal.Table(t, "EntitiesTable")
	s, err := NewService(client, table)
	if err != nil {
		t.Fatal(err)
	}
	if id, err := s.ID(t.Context()); id != "" || err != nil {
		t.Errorf("a new table has the id %q, error %v", id, err)
	}
	var ids [4]string
	var creators errgroup.Group
	for i := range ids {
		creators.Go(func() (err error) {
			ids[i], err = s.Create(t.Context())
			return err
		})
	}
	if err := creators.Wait(); err != nil {
		t.Fatal(err)
	}
	for _, id := range ids {
		if id == "" || id != ids[0] {
			t.Fatalf("ids %q", ids)
		}
	}
	if id, err := s.ID(t.Context()); id != ids[0] || err != nil {
		t.Errorf("the id is %q, error %v, want %q", id, err, ids[0])
	}
	if _, err := client.DeleteItem(t.Context(), &dynamodb.DeleteItemInput{TableName: &table, Key: serviceKey}); err != nil {
		t.Fatal(err)
	}
	if id, err := s.Create(t.Context()); err != nil || id == "" || id == ids[0] {
		t.Errorf("after the item was removed: %q, %v", id, err)
	}
}
