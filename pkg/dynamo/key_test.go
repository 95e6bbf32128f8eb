package dynamo

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"sluice/internal/test/dynamolocal"
	"sluice/internal/test/secrettest"
	"sluice/pkg/access"
	"sluice/pkg/storetest"
)

func openKeys(t *testing.T, client KeysClient, table string) *Keys {
	t.Helper()
	s, err := NewKeys(client, table)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func TestKeys(t *testing.T) {
	storetest.Keys(t, func(t *testing.T) access.Manager {
		return openKeys(t, dynamolocal.Client(t), dynamolocal.Table(t, "KeysTable"))
	})
}

type keyReader struct {
	*dynamodb.Client
	consistent bool
}

func (r *keyReader) GetItem(ctx context.Context, in *dynamodb.GetItemInput, opts ...func(*dynamodb.Options)) (*dynamodb.GetItemOutput, error) {
	r.consistent = aws.ToBool(in.ConsistentRead)
	return r.Client.GetItem(ctx, in, opts...)
}

func TestAKeyIsReadStronglyConsistently(t *testing.T) {
	t.Parallel()
	client := &keyReader{Client: dynamolocal.Client(t)}
	if _, err := openKeys(t, client, dynamolocal.Table(t, "KeysTable")).Get(t.Context(), "a"); !errors.Is(err, access.ErrNotFound) || !client.consistent {
		t.Errorf("consistent %v, error %v", client.consistent, err)
	}
}

func TestARepeatedCreateSucceeds(t *testing.T) {
	t.Parallel()
	s := openKeys(t, dynamolocal.Client(t), dynamolocal.Table(t, "KeysTable"))
	k, _ := secrettest.New(t, access.Key{Workspace: "w", Scopes: access.Scopes()}, time.Now())
	for range 2 {
		if err := s.Create(t.Context(), k); err != nil {
			t.Error(err)
		}
	}
}

func TestAnInvalidItemOfKeysIsAnError(t *testing.T) {
	t.Parallel()
	client, table := dynamolocal.Client(t), dynamolocal.Table(t, "KeysTable")
	text := text
	for id, item := range map[string]attributeValues{
		"only id":   {},
		"no hash":   {"workspace": text("w"), "created_at": text("2026-01-02T15:04:05.000Z")},
		"bad hash":  {"workspace": text("w"), "created_at": text("2026-01-02T15:04:05.000Z"), "secret_hash": text("00")},
		"bad times": {"workspace": text("w"), "created_at": text("2026-01-02T15:04:05.000Z"), "revoked_at": text("yes")},
		"bad block": {"workspace": text("w"), "created_at": text("2026-01-02T15:04:05.000Z"), "secret_hash": text(access.Hash{}.String()), "from": &types.AttributeValueMemberSS{Value: []string{"192.0.2.0/33"}}},
	} {
		item["id"] = text(id)
		if _, err := client.PutItem(t.Context(), &dynamodb.PutItemInput{TableName: &table, Item: item}); err != nil {
			t.Fatal(err)
		}
		if _, err := openKeys(t, client, table).Get(t.Context(), id); err == nil || errors.Is(err, access.ErrNotFound) {
			t.Errorf("%s: error %v", id, err)
		}
	}
}

func TestAMissingTableIsAnErrorForEveryMethod(t *testing.T) {
	t.Parallel()
	s := openKeys(t, dynamolocal.Client(t), "no-such-table")
	_, get := s.Get(t.Context(), "a")
	_, _, list := s.List(t.Context(), "", "", 10)
	_, _, one := s.List(t.Context(), "w", "", 10)
	_, revoke := s.Revoke(t.Context(), "a", time.Now())
	for op, err := range map[string]error{"get": get, "list": list, "list of a workspace": one, "revoke": revoke, "create": s.Create(t.Context(), access.Key{ID: "a", Scopes: access.Scopes()})} {
		if err == nil || errors.Is(err, access.ErrNotFound) {
			t.Errorf("%s: %v", op, err)
		}
	}
}
