package dynamo

import (
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
	querier
	transactor
	dynamodb.ScanAPIClient
}

// Keys is an access.Manager. It is safe for concurrent use. The attributes of an item are
//
//	id           S   partition key
//	workspace    S   partition key of the index by_workspace, whose sort key is id
//	made_by      S   absent if the key was made on the command line, like all below for an empty field
//	counted_as   S
//	made         SS
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
	if k.MadeBy != "" {
		return s.createMade(ctx, k)
	}
	stored, _, err := createItem(ctx, s.client, s.table, "id", k, keyToItem(k), keyFromItem, nil)
	if err == nil && stored.SecretHash != k.SecretHash {
		err = access.ErrExists
	}
	return err
}

// createMade stores a key that has a maker, in one transaction with a condition on the maker. If it
// finds no room there, it removes the entries of keys that have expired, and tries again.
func (s *Keys) createMade(ctx context.Context, k access.Key) error {
	for tries := 0; ; tries++ {
		_, err := s.client.TransactWriteItems(ctx, &dynamodb.TransactWriteItemsInput{TransactItems: []types.TransactWriteItem{
			{Put: &types.Put{TableName: &s.table, Item: keyToItem(k), ConditionExpression: aws.String("attribute_not_exists(id)")}},
			s.onMaker(k),
		}})
		cancelled, ok := errors.AsType[*types.TransactionCanceledException](err)
		switch {
		case err == nil:
			return nil
		case !ok || len(cancelled.CancellationReasons) != 2:
			return storeError("create key", err)
		case aws.ToString(cancelled.CancellationReasons[0].Code) == conditionFailed:
			return access.ErrExists
		case aws.ToString(cancelled.CancellationReasons[1].Code) != conditionFailed:
			return storeError("create key", err)
		}
		maker, err := s.Get(ctx, k.MadeBy)
		if errors.Is(err, access.ErrNotFound) {
			return access.ErrMaker
		}
		expired := maker.ExpiredMade(k.CreatedAt)
		if err == nil {
			err = maker.AddMade(k)
		}
		if err == nil && tries == maxMadeTries {
			err = access.ErrTooManyMade
		}
		if err == nil && len(expired) > 0 {
			_, err = s.change(ctx, "count the keys that the key made", maker.ID, "DELETE #made :made", "made", attributeValues{":made": &types.AttributeValueMemberSS{Value: expired}})
		}
		if err != nil {
			return err
		}
	}
}

const (
	conditionFailed = "ConditionalCheckFailed"
	maxMadeTries    = 3
)

// onMaker returns the part of a transaction that checks the maker of k, and counts k there if needed.
func (s *Keys) onMaker(k access.Key) types.TransactWriteItem {
	key := attributeValues{"id": text(k.MadeBy)}
	valid := "attribute_exists(id) AND attribute_not_exists(revoked_at)"
	if k.CountedAs == "" {
		return types.TransactWriteItem{ConditionCheck: &types.ConditionCheck{TableName: &s.table, Key: key, ConditionExpression: &valid}}
	}
	return types.TransactWriteItem{Update: &types.Update{
		TableName: &s.table, Key: key,
		UpdateExpression:    aws.String("ADD made :made"),
		ConditionExpression: aws.String(valid + " AND (attribute_not_exists(made) OR size(made) < :most)"),
		ExpressionAttributeValues: attributeValues{
			":made": &types.AttributeValueMemberSS{Value: []string{k.MadeEntry()}}, ":most": number(access.MaxMade),
		},
	}}
}

// List implements access.Manager: for a workspace with a query of its index, and otherwise with a
// strongly consistent Scan.
func (s *Keys) List(ctx context.Context, workspace, after string, limit int) (keys []access.Key, next string, err error) {
	var items []attributeValues
	var last attributeValues
	if workspace == "" {
		in := &dynamodb.ScanInput{TableName: &s.table, ConsistentRead: aws.Bool(true), Limit: aws.Int32(int32(limit))}
		if after != "" {
			in.ExclusiveStartKey = attributeValues{"id": text(after)}
		}
		out, err := s.client.Scan(ctx, in)
		if err != nil {
			return nil, "", storeError("list keys", err)
		}
		items, last = out.Items, out.LastEvaluatedKey
	} else {
		in := &dynamodb.QueryInput{
			TableName: &s.table, IndexName: aws.String("by_workspace"), Limit: aws.Int32(int32(limit)),
			KeyConditionExpression:    aws.String("workspace = :workspace"),
			ExpressionAttributeValues: attributeValues{":workspace": text(workspace)},
		}
		if after != "" {
			in.ExclusiveStartKey = attributeValues{"workspace": text(workspace), "id": text(after)}
		}
		out, err := s.client.Query(ctx, in)
		if err != nil {
			return nil, "", storeError("list keys", err)
		}
		items, last = out.Items, out.LastEvaluatedKey
	}
	if keys, err = each(items, keyFromItem); err == nil && last != nil {
		next = readItem(last).text("id")
	}
	return keys, next, err
}

// Revoke implements access.Manager with one UpdateItem and, for a key that is counted as another, one
// more. If only the second fails, another call completes it.
func (s *Keys) Revoke(ctx context.Context, id string, at time.Time) (access.Key, error) {
	k, err := s.change(ctx, "revoke key", id, "SET #revoked_at = if_not_exists(#revoked_at, :at)", "revoked_at", attributeValues{":at": timeText(at)})
	if err == nil && k.CountedAs != "" {
		_, err = s.change(ctx, "count the keys that the key made", k.CountedAs, "DELETE #made :made", "made", attributeValues{":made": &types.AttributeValueMemberSS{Value: []string{k.MadeEntry()}}})
	}
	return k, err
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
		return access.Key{}, storeError(op, err)
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
	for name, value := range map[string]string{"name": k.Name, "plan": k.Plan, "made_by": k.MadeBy, "counted_as": k.CountedAs} {
		if value != "" {
			item[name] = text(value)
		}
	}
	if len(k.Made) > 0 {
		item["made"] = &types.AttributeValueMemberSS{Value: k.Made}
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
		MadeBy:    r.optionalText("made_by"),
		CountedAs: r.optionalText("counted_as"),
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
	if made, ok := item["made"].(*types.AttributeValueMemberSS); ok {
		k.Made = slices.Sorted(slices.Values(made.Value))
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
