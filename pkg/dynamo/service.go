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

// ServiceClient is the part of *dynamodb.Client that Service uses. A function that only reads the
// id calls only GetItem.
type ServiceClient interface {
	getter
	updater
}

// Service stores the id of the service's data. The id is an item in the table of entities, so
// it is restored and deleted together with them. The item's key is ServicePartition and "id",
// and its attribute is service_id (S). Service is safe for concurrent use.
type Service struct {
	client ServiceClient
	table  string
}

// NewService fails if client is nil or the table name is empty.
func NewService(client ServiceClient, table string) (*Service, error) {
	if client == nil || table == "" {
		return nil, errNoTable
	}
	return &Service{client: client, table: table}, nil
}

var serviceKey = attributeValues{"workspace": text(ServicePartition), "id": text("id")}

// ID returns the service's id, or "" if the table has none. It takes half a read unit.
func (s *Service) ID(ctx context.Context) (string, error) {
	out, err := s.client.GetItem(ctx, &dynamodb.GetItemInput{TableName: &s.table, Key: serviceKey})
	if err != nil {
		return "", storeError("read the id of the service", err)
	}
	if out.Item == nil {
		return "", nil
	}
	return serviceID(out.Item)
}

// Create returns the service's id, and creates it if the table has none. It writes only then, so
// it may be called often.
func (s *Service) Create(ctx context.Context) (string, error) {
	if id, err := s.ID(ctx); id != "" || err != nil {
		return id, err
	}
	update := "SET service_id = if_not_exists(service_id, :new)"
	out, err := s.client.UpdateItem(ctx, &dynamodb.UpdateItemInput{
		TableName: &s.table, Key: serviceKey,
		UpdateExpression: &update, ExpressionAttributeValues: attributeValues{":new": text(rand.Text())},
		ReturnValues: types.ReturnValueAllNew,
	})
	if err != nil {
		return "", storeError("create the id of the service", err)
	}
	return serviceID(out.Attributes)
}

func serviceID(item attributeValues) (string, error) {
	r := readItem(item)
	id := r.text("service_id")
	return id, r.err()
}
