package dynamo

import (
	"context"
	"crypto/rand"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
)

// ServicePartition is the partition key under which EntitiesTable holds the service's id. No
// workspace can have that name, because workspace names cannot contain '#'.
const ServicePartition = "#service"

// Service stores the id of the service's data. The id is an item in the table of entities, so
// it is restored and deleted together with them. The item's key is ServicePartition and "id",
// and its attribute is service_id (S). Service is safe for concurrent use.
type Service struct {
	client updater
	table  string
}

// NewService fails if client is nil or the table name is empty.
func NewService(client updater, table string) (*Service, error) {
	if client == nil || table == "" {
		return nil, errNoTable
	}
	return &Service{client: client, table: table}, nil
}

// ID returns the service's id, and creates it if the table has none.
func (s *Service) ID(ctx context.Context) (string, error) {
	update := "SET service_id = if_not_exists(service_id, :new)"
	out, err := s.client.UpdateItem(ctx, &dynamodb.UpdateItemInput{
		TableName: &s.table, Key: attributeValues{"workspace": text(ServicePartition), "id": text("id")},
		UpdateExpression: &update, ExpressionAttributeValues: attributeValues{":new": text(rand.Text())},
		ReturnValues: types.ReturnValueAllNew,
	})
	if err != nil {
		return "", storeError("read the id of the service", err)
	}
	r := readItem(out.Attributes)
	id := r.text("service_id")
	return id, r.err()
}
