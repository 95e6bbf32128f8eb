package dynamo

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"sluice/pkg/access"
	"sluice/pkg/record"
)

// KeysClient is the part of *dynamodb.Client that Keys uses. The Lambda functions call only
// GetItem.
type KeysClient interface {
	putter
	getter
	updater
	dynamodb.ScanAPIClient
}

// Keys is an access.Manager. It is safe for concurrent use. The attributes of an item are
//
//	id           S   partition key
//	workspace    S
//	name         S   absent if empty
//	plan         S   absent if the key has none
//	scopes       SS
//	from         SS  CIDR blocks; absent if empty
//	secret_hash  S   hexadecimal
//	created_at   S   in the text form of record.Time, like the other times
//	expires_at   S   absent if the key does not expire
//	revoked_at   S   absent if the key is not revoked
//
// Expired and revoked keys stay as a record of former access.
type Keys struct {
	client KeysClient
	table  string
}

// NewKeys fails if client is nil or the table name is empty.
func NewKeys(client KeysClient, table string) (*Keys, error) {
	if client == nil || table == "" {
		return nil, errNoTable
	}
	return &Keys{client: client, table: table}, nil
}

// Get implements access.Store with a strongly consistent read, so that it never misses a
// revocation.
func (s *Keys) Get(ctx context.Context, id string) (access.Key, error) {
	k, found, err := getItem(ctx, s.client, s.table, attributeValues{"id": text(id)}, keyFromItem)
	if err == nil && !found {
		err = access.ErrNotFound
	}
	return k, err
}

// Create implements access.Manager. If the SDK retries a put whose response was lost, the retry
// finds the new key, and Create succeeds.
func (s *Keys) Create(ctx context.Context, k access.Key) error {
	stored, _, err := createItem(ctx, s.client, s.table, "id", k, keyToItem(k), keyFromItem, nil)
	if err == nil && stored.SecretHash != k.SecretHash {
		err = access.ErrExists
	}
	return err
}

// List implements access.Manager with a strongly consistent Scan.
func (s *Keys) List(ctx context.Context) ([]access.Key, error) {
	keys, err := scanItems(ctx, s.client, &dynamodb.ScanInput{TableName: &s.table, ConsistentRead: aws.Bool(true)}, keyFromItem)
	if err != nil {
		return nil, fmt.Errorf("list keys: %w", err)
	}
	slices.SortFunc(keys, func(a, b access.Key) int {
		return cmp.Or(a.CreatedAt.Compare(b.CreatedAt), cmp.Compare(a.ID, b.ID))
	})
	return keys, nil
}

// Revoke implements access.Manager with one UpdateItem.
func (s *Keys) Revoke(ctx context.Context, id string, at time.Time) (access.Key, error) {
	return s.change(ctx, "revoke key", id, "SET #revoked_at = if_not_exists(#revoked_at, :at)", "revoked_at", attributeValues{":at": timeText(at)})
}

// SetPlan implements access.Manager with one UpdateItem.
func (s *Keys) SetPlan(ctx context.Context, id, plan string) (access.Key, error) {
	if plan == "" {
		return s.change(ctx, "remove the plan of the key", id, "REMOVE #plan", "plan", nil)
	}
	return s.change(ctx, "set the plan of the key", id, "SET #plan = :plan", "plan", attributeValues{":plan": text(plan)})
}

// change applies an update of one attribute to a key that exists.
func (s *Keys) change(ctx context.Context, op, id, update, attribute string, values attributeValues) (access.Key, error) {
	out, err := s.client.UpdateItem(ctx, &dynamodb.UpdateItemInput{
		TableName:                 &s.table,
		Key:                       attributeValues{"id": text(id)},
		ConditionExpression:       aws.String("attribute_exists(#id)"),
		UpdateExpression:          &update,
		ExpressionAttributeNames:  map[string]string{"#id": "id", "#" + attribute: attribute},
		ExpressionAttributeValues: values,
		ReturnValues:              types.ReturnValueAllNew,
	})
	var absent *types.ConditionalCheckFailedException
	switch {
	case errors.As(err, &absent):
		return access.Key{}, access.ErrNotFound
	case err != nil:
		return access.Key{}, fmt.Errorf("%s: %w", op, err)
	}
	return keyFromItem(out.Attributes)
}

func timeText(t time.Time) types.AttributeValue {
	return text(record.TimeOf(t).String())
}

func keyToItem(k access.Key) attributeValues {
	scopes := make([]string, len(k.Scopes))
	for i, s := range k.Scopes {
		scopes[i] = string(s)
	}
	item := attributeValues{
		"id":          text(k.ID),
		"workspace":   text(k.Workspace),
		"scopes":      &types.AttributeValueMemberSS{Value: scopes},
		"secret_hash": text(k.SecretHash.String()),
		"created_at":  timeText(k.CreatedAt),
	}
	if len(k.From) > 0 {
		from := make([]string, len(k.From))
		for i, block := range k.From {
			from[i] = block.String()
		}
		item["from"] = &types.AttributeValueMemberSS{Value: from}
	}
	if k.Name != "" {
		item["name"] = text(k.Name)
	}
	if k.Plan != "" {
		item["plan"] = text(k.Plan)
	}
	if !k.ExpiresAt.IsZero() {
		item["expires_at"] = timeText(k.ExpiresAt)
	}
	if !k.RevokedAt.IsZero() {
		item["revoked_at"] = timeText(k.RevokedAt)
	}
	return item
}

func keyFromItem(item attributeValues) (access.Key, error) {
	r := readItem(item)
	k := access.Key{
		ID:        r.text("id"),
		Name:      r.optionalText("name"),
		Plan:      r.optionalText("plan"),
		Workspace: r.text("workspace"),
		CreatedAt: r.time("created_at").Time(),
	}
	for name, dst := range map[string]*time.Time{"expires_at": &k.ExpiresAt, "revoked_at": &k.RevokedAt} {
		if item[name] != nil {
			*dst = r.time(name).Time()
		}
	}
	if scopes, ok := item["scopes"].(*types.AttributeValueMemberSS); ok {
		for _, s := range scopes.Value {
			k.Scopes = append(k.Scopes, access.Scope(s))
		}
		slices.Sort(k.Scopes)
	}
	err := r.err()
	if item["from"] != nil && err == nil {
		k.From, err = blocksFrom(item["from"])
	}
	if err == nil {
		err = k.SecretHash.UnmarshalText([]byte(r.text("secret_hash")))
	}
	if err != nil {
		return access.Key{}, fmt.Errorf("read key: %w", err)
	}
	return k, nil
}

// blocksFrom fails rather than leave out a block: a key without blocks is accepted from
// anywhere.
func blocksFrom(v types.AttributeValue) (blocks []netip.Prefix, err error) {
	texts, ok := v.(*types.AttributeValueMemberSS)
	if !ok {
		return nil, errors.New("from is not a set of strings")
	}
	for _, s := range texts.Value {
		block, err := netip.ParsePrefix(s)
		if err != nil {
			return nil, err
		}
		blocks = append(blocks, block)
	}
	slices.SortFunc(blocks, netip.Prefix.Compare)
	return blocks, nil
}
